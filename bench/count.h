/* SPDX-License-Identifier: MIT */
/* count.h - the calls that a scenario makes, by size, for --histogram. Its own malloc and the like are in bench.h. */
#ifndef SHARDMM_BENCH_COUNT_H
#define SHARDMM_BENCH_COUNT_H

#include <stdbool.h>

void count_print(bool json);

#endif
