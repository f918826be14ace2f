/* SPDX-License-Identifier: MIT */
/* platform_linux.c - platform.h on Linux.
 *
 * Reserved is PROT_NONE, which the kernel does not count as memory promised; committing is mprotect, where
 * it does count and may refuse; decommitting is MADV_DONTNEED, which leaves the mapping whole.
 */
#include "platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/geometry.h"
#include "base/text.h"
#include "platform/report.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

/* The kernel's own header is not there for every C library (musl has none of it). */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

/* Not MAP_NORESERVE: that would keep the kernel from counting, and so from refusing, what is committed later. */
enum { MAP_RESERVED = MAP_PRIVATE | MAP_ANONYMOUS };

/* ---- Files ----
 *
 * By the bare system calls: the C library's functions of these names are cancellation points, and a thread that
 * another one cancels would end inside malloc(), with locks held. */

static int file_open(const char *path, int flags, unsigned mode)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static ssize_t file_read(int file, void *bytes, size_t size)
{
    return (ssize_t)syscall(SYS_read, file, bytes, size);
}

static ssize_t file_write(int file, const void *bytes, size_t size)
{
    return (ssize_t)syscall(SYS_write, file, bytes, size);
}

static void file_close(int file)
{
    (void)syscall(SYS_close, file);
}

/* ---- Memory ---- */

size_t smm_os_page_size(void)
{
    /* The kernel hands the value to every process; getauxval is a walk over a few words. */
    static _Atomic(size_t) known;
    size_t size = smm_load_relaxed(&known);

    if (size == 0) {
        size = (size_t)getauxval(AT_PAGESZ);
        smm_store_relaxed(&known, size);
    }
    return size;
}

static void *map(void *hint, size_t size, int protection)
{
    void *const address = mmap(hint, size, protection, MAP_RESERVED, -1, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* ---- Addresses that nobody uses and the system did not take back ---- */

enum { LEFTOVERS_MAX = 256 };

/* An entry is free (address 0), in the hands of a thread (1), or holds a range, whose size is then of now: the
 * address is stored with release after it, and taken with acquire. A child of fork() may find an entry in the hands
 * of a thread that it does not have, and has one less. */
static struct leftover {
    _Atomic(uintptr_t) address;
    size_t size;
} leftovers[LEFTOVERS_MAX];
static _Atomic(unsigned) leftover_count; /* entries that are not free; a hint */

/* Takes an entry in the state `from`. */
static bool leftover_take(struct leftover *entry, uintptr_t from)
{
    return from != 1 && smm_cas_strong_acquire(&entry->address, &from, 1);
}

static void leftover_add(void *address, size_t size)
{
    for (struct leftover *entry = leftovers; entry != leftovers + LEFTOVERS_MAX; entry++)
        if (leftover_take(entry, 0)) {
            entry->size = size;
            smm_store_release(&entry->address, (uintptr_t)address);
            smm_add_relaxed(&leftover_count, 1);
            return;
        }
    /* More than anybody has seen: these addresses are lost, no memory with them. */
}

static void leftovers_retry(void)
{
    if (SMM_LIKELY(smm_load_relaxed(&leftover_count) == 0))
        return;
    for (struct leftover *entry = leftovers; entry != leftovers + LEFTOVERS_MAX; entry++) {
        const uintptr_t address = smm_load_relaxed(&entry->address);
        if (address == 0 || !leftover_take(entry, address))
            continue;
        const bool done = munmap((void *)address, entry->size) == 0;
        smm_store_release(&entry->address, done ? 0 : address);
        if (!done)
            return;
        smm_sub_relaxed(&leftover_count, 1);
    }
}

/* For callers that keep errno. */
static void discard(void *address, size_t size)
{
    if (munmap(address, size) != 0) {
        /* Of committed memory the contents go, and the promise. */
        (void)mmap(address, size, PROT_NONE, MAP_RESERVED | MAP_FIXED, -1, 0);
        leftover_add(address, size);
    }
}

void smm_os_discard(void *address, size_t size)
{
    const int saved = errno;
    discard(address, size);
    errno = saved;
}

/* The lowest address of the last reservation: the next one is asked for right below it, where the kernel
 * merges both into one mapping and finds the alignment without a search. A stale value costs a retry. */
static _Atomic(uintptr_t) reserve_below;

static bool aligned(const void *address, size_t alignment)
{
    return ((uintptr_t)address & (alignment - 1)) == 0;
}

/* Reserves more than is asked for and gives the ends back. */
static void *reserve_trimmed(size_t size, size_t alignment)
{
    const size_t slack = alignment - smm_os_page_size();
    char *const all = map(NULL, size + slack, PROT_NONE);

    if (all == NULL)
        return NULL;
    char *const start = (char *)smm_align_up((uintptr_t)all, alignment);
    const size_t before = (size_t)(start - all);
    if (before != 0)
        discard(all, before);
    if (slack != before)
        discard(start + size, slack - before);
    return start;
}

void *smm_os_reserve(size_t size, size_t alignment)
{
    const int saved = errno;
    const uintptr_t below = smm_load_relaxed(&reserve_below);
    void *hint = NULL;
    void *address;

    leftovers_retry();
    if (below > size + alignment)
        hint = (void *)smm_align_down(below - size, alignment);
    address = map(hint, size, PROT_NONE);
    if (address != NULL && !aligned(address, alignment)) {
        /* Once more right below what the kernel chose, before asking for more than is needed. */
        const uintptr_t chosen = (uintptr_t)address;
        discard(address, size);
        address = map((void *)smm_align_down(chosen, alignment), size, PROT_NONE);
        if (address != NULL && !aligned(address, alignment)) {
            discard(address, size);
            address = reserve_trimmed(size, alignment);
        }
    }
    if (address != NULL && ((uintptr_t)address + size) >> SMM_ADDRESS_BITS != 0) {
        discard(address, size);
        address = NULL;
    }
    if (address != NULL)
        smm_store_relaxed(&reserve_below, (uintptr_t)address);
    errno = saved;
    return address;
}

bool smm_os_release(void *address, size_t size)
{
    const int saved = errno;
    const bool done = munmap(address, size) == 0;
    if (done)
        leftovers_retry();
    errno = saved;
    return done;
}

bool smm_os_commit(void *address, size_t size)
{
    const int saved = errno;
    const bool done = mprotect(address, size, PROT_READ | PROT_WRITE) == 0;
    errno = saved;
    return done;
}

/* Some systems that run Linux programs take MADV_DONTNEED for a hint and keep the contents. Found out at the
 * first call, by a word that has to be gone. */
enum { DECOMMIT_UNTRIED, DECOMMIT_WORKS, DECOMMIT_IGNORED };
static _Atomic(int) decommit_state;

static bool advise_dontneed(void *address, size_t size)
{
    int failed;

    do
        failed = madvise(address, size, MADV_DONTNEED);
    while (failed != 0 && errno == EAGAIN);
    /* EINVAL: a part is locked. Its pages can be dropped all the same, and come back when they are touched. */
    if (failed != 0 && errno == EINVAL)
        failed = madvise(address, size, MADV_DONTNEED_LOCKED);
    return failed == 0;
}

bool smm_os_decommit(void *address, size_t size)
{
    const int saved = errno;
    const int state = smm_load_relaxed(&decommit_state);
    volatile uint64_t *const word = address;
    bool done;

    if (state == DECOMMIT_UNTRIED)
        *word = 1;
    done = state != DECOMMIT_IGNORED && advise_dontneed(address, size);
    if (done && state == DECOMMIT_UNTRIED) {
        done = *word == 0;
        smm_store_relaxed(&decommit_state, done ? DECOMMIT_WORKS : DECOMMIT_IGNORED);
    }
    errno = saved;
    return done;
}

void smm_os_prefault(void *address, size_t size)
{
    /* A kernel that does not know the advice is asked once. */
    static _Atomic(bool) unknown;
    const int saved = errno;

    if (!smm_load_relaxed(&unknown) && madvise(address, size, MADV_POPULATE_WRITE) != 0 && errno == EINVAL)
        smm_store_relaxed(&unknown, true);
    errno = saved;
}

void smm_os_advise_huge(void *address, size_t size, bool huge)
{
    const int saved = errno;
    (void)madvise(address, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved;
}

bool smm_os_huge_available(void)
{
    enum { UNKNOWN, AVAILABLE, MISSING };
    static _Atomic(int) known;
    int state = smm_load_relaxed(&known);

    if (state == UNKNOWN) {
        const int saved = errno;
        const int file = file_open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY, 0);
        char text[64];
        const ssize_t length = file >= 0 ? file_read(file, text, sizeof text - 1) : 0;
        if (file >= 0)
            file_close(file);
        text[length > 0 ? length : 0] = 0;
        state = length > 0 && strstr(text, "[never]") == NULL ? AVAILABLE : MISSING;
        smm_store_relaxed(&known, state);
        errno = saved;
    }
    return state == AVAILABLE;
}

/* After a refusal nobody can tell whether the destination is still ours, or was unmapped and taken by another thread
 * since. So it is given up; but not again and again by a system that refuses always. */
enum { MOVES_LOST_MAX = 8 };

/* Refused by a filter or by an old system, before it looked at anything. */
static bool never_known(int error)
{
    return error == ENOSYS || error == EPERM || error == EACCES;
}

enum smm_os_move smm_os_move(void *from, size_t size, void *to)
{
    static _Atomic(unsigned) lost; /* relaxed: a count that nothing hangs on */
    const int saved = errno;
    enum smm_os_move result = SMM_OS_MOVED;

    if (smm_load_relaxed(&lost) >= MOVES_LOST_MAX)
        return SMM_OS_MOVE_REFUSED;
    if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
        return SMM_OS_MOVED;
    if (never_known(errno)) {
        smm_store_relaxed(&lost, MOVES_LOST_MAX);
        result = SMM_OS_MOVE_REFUSED;
    } else {
        /* Most kernels unmap the destination before they look at the source. Where it is free, take it back. Kernels
         * that do not know the flag take the address for a wish. */
        void *const again = mmap(to, size, PROT_NONE, MAP_RESERVED | MAP_FIXED_NOREPLACE, -1, 0);
        result = again == to ? SMM_OS_MOVE_REFUSED : SMM_OS_MOVE_LOST;
        if (again != to && again != MAP_FAILED)
            discard(again, size);
        if (result == SMM_OS_MOVE_LOST)
            smm_add_relaxed(&lost, 1);
    }
    errno = saved;
    return result;
}

void *smm_os_map_zeros(size_t size)
{
    const int saved = errno;
    void *const address = map(NULL, size, PROT_READ);
    errno = saved;
    return address;
}

/* ---- Time, threads, process ---- */

uint64_t smm_os_now(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t smm_os_clock_us(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void smm_os_wait(_Atomic(uint32_t) *word, uint32_t value)
{
    const int saved = errno;
    const long failed = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    /* A filter that knows no futex: the holder needs the processor to come to its end. */
    if (failed != 0 && errno != EAGAIN && errno != EINTR)
        (void)sched_yield();
    errno = saved;
}

void smm_os_wake(_Atomic(uint32_t) *word)
{
    const int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void smm_os_yield(void)
{
    const int saved = errno;
    (void)sched_yield();
    errno = saved;
}

static pthread_key_t exit_key;

bool smm_os_thread_exit_register(void (*callback)(void *))
{
    return pthread_key_create(&exit_key, callback) == 0;
}

bool smm_os_thread_exit_arm(void *value)
{
    return pthread_setspecific(exit_key, value) == 0;
}

void *smm_os_thread_exit_armed(void)
{
    return pthread_getspecific(exit_key);
}

bool smm_os_fork_register(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return pthread_atfork(prepare, parent, child) == 0;
}

extern char **environ;

bool smm_os_environment_ready(void)
{
    return environ != NULL;
}

const char *smm_os_environment(size_t index)
{
    if (environ == NULL || getauxval(AT_SECURE) != 0)
        return NULL;
    return environ[index];
}

uint32_t smm_os_process_id(void)
{
    return (uint32_t)getpid();
}

static uint64_t started_us;

void smm_os_usage_start(void)
{
    started_us = smm_os_clock_us();
}

static uint64_t timeval_us(struct timeval value)
{
    return (uint64_t)value.tv_sec * 1000000 + (uint64_t)value.tv_usec;
}

void smm_os_usage_get(struct smm_os_usage *usage)
{
    struct rusage self;

    memset(usage, 0, sizeof *usage);
    usage->elapsed_us = smm_os_clock_us() - started_us;
    if (getrusage(RUSAGE_SELF, &self) != 0)
        return;
    usage->user_us = timeval_us(self.ru_utime);
    usage->system_us = timeval_us(self.ru_stime);
    usage->page_faults = (uint64_t)self.ru_minflt + (uint64_t)self.ru_majflt;
    usage->resident_peak = (uint64_t)self.ru_maxrss * 1024;
}

/* ---- Output ---- */

void smm_os_write(int file, const char *text, size_t length)
{
    const int saved = errno;

    while (length != 0) {
        const ssize_t written = file_write(file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        text += written;
        length -= (size_t)written;
    }
    errno = saved;
}

static int kept_stderr = -1;
static struct stat kept_stat;

void smm_os_keep_stderr(void)
{
    const int saved = errno;

    /* Above the numbers that programs expect to get from their first calls of open(). */
    kept_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);
    if (kept_stderr >= 0 && fstat(kept_stderr, &kept_stat) != 0)
        kept_stderr = -1;
    errno = saved;
}

int smm_os_kept_stderr(void)
{
    const int saved = errno;
    struct stat now;
    /* A program that closes all that is open may have given the number to a file of its own. */
    const bool same = kept_stderr >= 0 && fstat(kept_stderr, &now) == 0 && now.st_dev == kept_stat.st_dev &&
                      now.st_ino == kept_stat.st_ino;
    errno = saved;
    return same ? kept_stderr : -1;
}

int smm_os_create(const char *path)
{
    const int saved = errno;
    const int file = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    errno = saved;
    return file;
}

void smm_os_close(int file)
{
    const int saved = errno;
    file_close(file);
    errno = saved;
}

void smm_os_abort(void)
{
    abort();
}

void smm_os_abort_unhandled(void)
{
    (void)signal(SIGABRT, SIG_DFL);
    abort();
}
