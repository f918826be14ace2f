/* SPDX-License-Identifier: MIT */
/* report.h - one line on standard error, then abort: misuse by the program, and failed assertions.
 * Neither allocates nor takes a lock. Who reports misuse holds no lock either, so that a handler of SIGABRT may
 * allocate; an assertion may fail under one, and a handler that then needs it ends the process. */
#ifndef SMM_PLATFORM_REPORT_H
#define SMM_PLATFORM_REPORT_H

#include "base/compiler.h"

/* What is wrong with an address that a program gave to free, realloc or the like. */
enum smm_fault {
    SMM_FAULT_NONE,
    SMM_FAULT_UNKNOWN,     /* never handed out */
    SMM_FAULT_INTERIOR,    /* inside memory of ours, but not the start of a block */
    SMM_FAULT_FREED,       /* a block that was freed before */
    SMM_FAULT_OVERWRITTEN, /* what describes the block does not hold what we wrote */
    SMM_FAULT_SIZE         /* a sized free names another size */
};

/* `call` is the function's name; `kind` ("small", "medium", "large") and `size` describe the block where
 * they are known, else NULL and 0. */
SMM_COLD SMM_NORETURN void smm_report_misuse(const char *call, const void *address, enum smm_fault fault,
                                             const char *kind, size_t size);

/* The calling thread would wait for itself. Without the handler of SIGABRT, which may be what came here. */
SMM_COLD SMM_NORETURN void smm_report_reentry(void);

#endif
