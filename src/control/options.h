/* SPDX-License-Identifier: MIT */
/* options.h - what can be set: by SHARDMM_NAME=value in the environment, read once at start, and by name
 * through the public calls. Each option is an integer; some have words for their values in the environment.
 * They end up in the settings structs of the modules that use them. */
#ifndef SMM_CONTROL_OPTIONS_H
#define SMM_CONTROL_OPTIONS_H

#include "base/compiler.h"

enum smm_stats_at_exit { SMM_STATS_NONE, SMM_STATS_TEXT, SMM_STATS_JSON, SMM_STATS_SUMMARY };

/* Reads the environment if there is one yet and it was not read before. A value that is not understood, and a
 * SHARDMM_ name that is not known, are one line on standard error each. */
void smm_options_start(void);

/* One entry of the environment, NAME=value; what is not SHARDMM_... is none of ours. */
void smm_options_read(const char *entry);

/* 0, ENOENT, EINVAL or EPERM, as the public header says. */
int smm_option_get(const char *name, int64_t *value);
int smm_option_set(const char *name, int64_t value);

enum smm_stats_at_exit smm_option_stats(void);
/* The file for the statistics at exit, NULL for standard error. */
const char *smm_option_stats_file(void);
/* The one process that prints statistics at exit, 0 for any. */
uint32_t smm_option_stats_pid(void);
int smm_option_verbose(void);

#endif
