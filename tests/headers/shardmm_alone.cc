/* SPDX-License-Identifier: MIT */
/* The public header as the first and only include. */
#include <shardmm/shardmm.h>
