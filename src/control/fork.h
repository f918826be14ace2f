/* SPDX-License-Identifier: MIT */
/* fork.h - fork() from any thread at any time: the child finds every lock free and every structure whole. */
#ifndef SMM_CONTROL_FORK_H
#define SMM_CONTROL_FORK_H

/* Once, at start. */
void smm_fork_start(void);

#endif
