/* SPDX-License-Identifier: MIT */
/* platform.h - all that the allocator asks of the operating system: one contract, one file per system.
 *
 * Every call keeps errno, may be made by any thread, allocates nothing, and is no point at which a thread can be
 * cancelled. Memory that a call hands out is never known to the C library's own allocator.
 *
 *     reserved   addresses that nobody else gets; touching them is a fault
 *     committed  readable and writable; zero until first written
 *     resident   committed and touched; decommit makes it not resident, and zero again
 */
#ifndef SMM_PLATFORM_PLATFORM_H
#define SMM_PLATFORM_PLATFORM_H

#include "base/atomic.h"
#include "base/compiler.h"

/* ---- Memory: `address` and `size` are multiples of the system's page size unless said otherwise ---- */

/* The page size of the running system, a power of two and a multiple of SMM_OS_PAGE_MIN. */
size_t smm_os_page_size(void);

/* `size` bytes of reserved addresses at a multiple of `alignment`, a power of two; both are multiples of
 * SMM_SLOT_SIZE. NULL when there are none. Follows on other reservations where it can, so that their
 * descriptions in the kernel merge. */
void *smm_os_reserve(size_t size, size_t alignment);

/* Gives reserved addresses back. False when the system refuses, which it may do for want of memory to
 * describe the rest: then they stay reserved, and what was committed stays so. */
bool smm_os_release(void *address, size_t size);

/* The same for addresses that nobody will use again. What the system refuses to take back is tried again when
 * addresses are reserved or released later. */
void smm_os_discard(void *address, size_t size);

/* Reserved becomes committed. False when the system has no memory to promise; then nothing changed. */
bool smm_os_commit(void *address, size_t size);

/* Committed memory gives its contents back and reads as zero. False when the system refuses (memory that
 * the program locked): then contents stay. */
bool smm_os_decommit(void *address, size_t size);

/* Makes committed memory resident at once, where one call is cheaper than a fault for each page. A hint. */
void smm_os_prefault(void *address, size_t size);

/* Asks for huge pages (true) or for none (false) in reserved or committed memory. A hint. */
void smm_os_advise_huge(void *address, size_t size, bool huge);

/* Whether asking for huge pages can have an effect. Looks it up at the first call. */
bool smm_os_huge_available(void);

/* Moves the pages of committed memory at `from` to reserved addresses at `to`, which become committed, and
 * gives the addresses at `from` back. When the system refuses, `from` is as it was; `to` is still reserved
 * (REFUSED), or its first `size` bytes are no longer the caller's (LOST). */
enum smm_os_move { SMM_OS_MOVED, SMM_OS_MOVE_REFUSED, SMM_OS_MOVE_LOST };
enum smm_os_move smm_os_move(void *from, size_t size, void *to);

/* `size` bytes, readable as zero at no cost in memory, of which pieces can be made writable by
 * smm_os_commit(). NULL when there are none. */
void *smm_os_map_zeros(size_t size);

/* ---- Time, threads, process ---- */

/* Milliseconds of a clock that never goes back, some milliseconds coarse: two loads and no system call. */
uint64_t smm_os_now(void);

/* Microseconds of a clock that never goes back. */
uint64_t smm_os_clock_us(void);

/* Sleeps while *word is `value`, until a wake or for no reason; and wakes one sleeper. */
void smm_os_wait(_Atomic(uint32_t) *word, uint32_t value);
void smm_os_wake(_Atomic(uint32_t) *word);

/* Lets another thread run. */
void smm_os_yield(void);

/* A number that no other living thread has; never 0: the address of its control block. */
SMM_INLINE uintptr_t smm_os_thread_id(void)
{
    uintptr_t id;

    /* As the ABI has it for thread-local storage; the compilers' builtin came late. */
    __asm__("mov %%fs:0, %0" : "=r"(id));
    return id;
}

/* Names the function that a thread which armed itself calls, with what it armed, when it ends. False when
 * the system has no room for one more. */
bool smm_os_thread_exit_register(void (*callback)(void *));
/* Arms the calling thread. May call malloc(). False when the system had no memory for it. */
bool smm_os_thread_exit_arm(void *value);
/* What the calling thread armed itself with; NULL when it did not, or since it was called back. */
void *smm_os_thread_exit_armed(void);

/* Functions to call before fork() and after it in the parent and in the child. */
bool smm_os_fork_register(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Entry `index` of the environment, "NAME=value"; NULL after the last one, and always when the process has
 * more rights than its caller. So early in a process that there is no environment yet, ready is false. */
const char *smm_os_environment(size_t index);
bool smm_os_environment_ready(void);

uint32_t smm_os_process_id(void);

/* What the process took so far. */
struct smm_os_usage {
    uint64_t elapsed_us; /* since smm_os_usage_start() */
    uint64_t user_us;
    uint64_t system_us;
    uint64_t page_faults;
    uint64_t resident_peak; /* bytes */
};
void smm_os_usage_start(void);
void smm_os_usage_get(struct smm_os_usage *usage);

/* ---- Output ---- */

enum { SMM_OS_STDERR = 2 };

/* Writes all of it or gives up in silence. */
void smm_os_write(int file, const char *text, size_t length);
/* Keeps a copy of standard error, which outlives a program that closes its own. kept_stderr gives it, or -1
 * when there is none, or when the number belongs to another file by now. */
void smm_os_keep_stderr(void);
int smm_os_kept_stderr(void);
/* Creates or truncates a file for writing; -1 on failure. */
int smm_os_create(const char *path);
void smm_os_close(int file);

SMM_COLD SMM_NORETURN void smm_os_abort(void);
/* The same without the program's handler. */
SMM_COLD SMM_NORETURN void smm_os_abort_unhandled(void);

#endif
