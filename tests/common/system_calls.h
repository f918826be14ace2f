/* SPDX-License-Identifier: MIT */
/* system_calls.h - a system that refuses a call, answers it without doing anything, or ends the process for it: by
 * a seccomp filter, in a child process, which keeps it, over execv() as well.
 */
#ifndef SMM_TESTS_SYSTEM_CALLS_H
#define SMM_TESTS_SYSTEM_CALLS_H

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "support.h"

#if defined(__x86_64__)
#define SYSTEM_CALLS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SYSTEM_CALLS_ARCH AUDIT_ARCH_AARCH64
#endif

/* Filters a call whose argument `index` (from 0; the low 32 bits) under the mask is `value`. */
static inline void system_call_filter(long number, unsigned index, unsigned mask, unsigned value, unsigned action)
{
#ifdef SYSTEM_CALLS_ARCH
    const unsigned at = (unsigned)offsetof(struct seccomp_data, args) + index * 8; /* both are little-endian */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSTEM_CALLS_ARCH, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = (unsigned short)COUNT_OF(filter), .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        CHILD_SKIP("no seccomp filter may be set");
#else
    (void)number, (void)index, (void)mask, (void)value, (void)action;
    CHILD_SKIP("seccomp filters for this machine are not known");
#endif
}

/* From now on every such call fails with `error`; 0: it succeeds and does nothing. */
static inline void system_call_answers(long number, int error)
{
    system_call_filter(number, 0, 0, 0, SECCOMP_RET_ERRNO | (unsigned)error);
}

/* The same for calls with this argument alone. */
static inline void system_call_with_answers(long number, unsigned index, unsigned value, int error)
{
    system_call_filter(number, index, UINT32_MAX, value, SECCOMP_RET_ERRNO | (unsigned)error);
}

/* From now on such a call is the end of the process, as in a sandbox that trusts nobody. */
static inline void system_call_kills(long number)
{
    system_call_filter(number, 0, 0, 0, SECCOMP_RET_KILL_PROCESS);
}

#endif
