/* SPDX-License-Identifier: MIT */
/* faults.h - a system that refuses calls on purpose: the Nth of a kind, all from the Nth on, or every third.
 *
 * The linker puts __wrap_mmap() and the like in the place of the calls of src/platform/ (--wrap), so that the library
 * is the same object code as everywhere. A refused call does nothing but set errno, as the kernel's does; other calls
 * go through. Calls of the C library's own (stacks of threads) are not seen.
 */
#ifndef SMM_TESTS_FAULTS_H
#define SMM_TESTS_FAULTS_H

#include <stddef.h>

enum fault_kind {
    FAULT_RESERVE,  /* mmap: addresses */
    FAULT_RELEASE,  /* munmap: for want of memory to describe the rest */
    FAULT_COMMIT,   /* mprotect: the promise of memory */
    FAULT_DECOMMIT, /* madvise that gives memory back: locked */
    FAULT_MOVE,     /* mremap, by a filter */
    FAULT_MOVE_GONE, /* mremap, after the destination was unmapped, as Linux does */
    FAULT_MOVE_LOST, /* the same, and another has taken it since */
    FAULT_HINT,     /* madvise for huge pages or to populate: not known */
    FAULT_THREAD,   /* thread-specific data: no key, no memory for a value */
    FAULT_KINDS
};

enum fault_mode { FAULT_ONCE, FAULT_FROM, FAULT_EVERY_THIRD };

extern const char *const fault_names[FAULT_KINDS];

/* From now on, calls whose kind is in the set of bits fail by the mode; `nth` counts from 0. Counters start anew. */
void faults_start(unsigned kinds, enum fault_mode mode, unsigned nth);
/* No more. Returns the number of calls that were refused. */
unsigned faults_stop(void);
/* Calls of the kinds since the last start. */
unsigned faults_seen(void);
/* Bytes of addresses that FAULT_MOVE_LOST has given to somebody else, so far. */
size_t faults_taken(void);

#endif
