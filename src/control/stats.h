/* SPDX-License-Identifier: MIT */
/* stats.h - puts the figures of all modules together and writes them, without allocating. */
#ifndef SMM_CONTROL_STATS_H
#define SMM_CONTROL_STATS_H

#include <shardmm/shardmm.h>

void smm_stats_collect(struct shardmm_stats *stats);

int smm_stats_print(enum shardmm_stats_format format, shardmm_write_fn *write, void *context);

/* What SHARDMM_STATS asks for at the end of the process. start keeps a copy of standard error for it, since
 * programs close theirs before the end. */
void smm_stats_start(void);
void smm_stats_at_exit(void);

#endif
