/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

const char *const fault_names[FAULT_KINDS] = {
    [FAULT_RESERVE] = "reserve", [FAULT_RELEASE] = "release",     [FAULT_COMMIT] = "commit", [FAULT_DECOMMIT] = "decommit",
    [FAULT_MOVE] = "move",       [FAULT_MOVE_GONE] = "move, gone",
    [FAULT_MOVE_LOST] = "move, lost", [FAULT_HINT] = "hint",    [FAULT_THREAD] = "thread",
};

static _Atomic(unsigned) failing;
static enum fault_mode mode_now;
static unsigned first;
static _Atomic(unsigned) seen;
static _Atomic(unsigned) refused;
static _Atomic(size_t) taken;

void faults_start(unsigned kinds, enum fault_mode mode, unsigned nth)
{
    atomic_store(&seen, 0);
    atomic_store(&refused, 0);
    mode_now = mode;
    first = nth;
    atomic_store(&failing, kinds);
}

unsigned faults_stop(void)
{
    atomic_store(&failing, 0);
    return atomic_load(&refused);
}

unsigned faults_seen(void)
{
    return atomic_load(&seen);
}

size_t faults_taken(void)
{
    return atomic_load(&taken);
}

static bool refuse(enum fault_kind kind)
{
    bool now = false;

    if ((atomic_load(&failing) >> kind & 1) == 0)
        return false;
    const unsigned number = atomic_fetch_add(&seen, 1);
    switch (mode_now) {
    case FAULT_ONCE:
        now = number == first;
        break;
    case FAULT_FROM:
        now = number >= first;
        break;
    case FAULT_EVERY_THIRD:
        now = number % 3 == first % 3;
        break;
    }
    if (now)
        atomic_fetch_add(&refused, 1);
    return now;
}

/* ---- What the linker calls in the place of the system's ----
 *
 * With 64-bit file offsets, as Meson asks for, the C library has its mmap() by another name. */

#if _FILE_OFFSET_BITS == 64 && defined(__GLIBC__)
#define __real_mmap __real_mmap64
#define __wrap_mmap __wrap_mmap64
#endif

void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);
int __real_mprotect(void *address, size_t size, int protection);
int __wrap_mprotect(void *address, size_t size, int protection);
int __real_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice);
void *__real_mremap(void *address, size_t size, size_t wanted, int flags, ...);
void *__wrap_mremap(void *address, size_t size, size_t wanted, int flags, ...);
int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (refuse(FAULT_RESERVE)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, size, protection, flags, file, offset);
}

int __wrap_munmap(void *address, size_t size)
{
    if (refuse(FAULT_RELEASE)) {
        errno = ENOMEM;
        return -1;
    }
    return __real_munmap(address, size);
}

int __wrap_mprotect(void *address, size_t size, int protection)
{
    if (refuse(FAULT_COMMIT)) {
        errno = ENOMEM;
        return -1;
    }
    return __real_mprotect(address, size, protection);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    const bool gives_back = advice == MADV_DONTNEED || advice == 24 /* MADV_DONTNEED_LOCKED */;

    if (refuse(gives_back ? FAULT_DECOMMIT : FAULT_HINT)) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(address, size, advice);
}

void *__wrap_mremap(void *address, size_t size, size_t wanted, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    void *const to = va_arg(list, void *);
    va_end(list);

    if (refuse(FAULT_MOVE)) {
        errno = EPERM;
        return MAP_FAILED;
    }
    if (refuse(FAULT_MOVE_GONE)) {
        (void)__real_munmap(to, wanted);
        errno = EFAULT;
        return MAP_FAILED;
    }
    if (refuse(FAULT_MOVE_LOST)) {
        (void)__real_munmap(to, wanted);
        (void)__real_mmap(to, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        atomic_fetch_add(&taken, wanted);
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mremap(address, size, wanted, flags, to);
}

int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    return refuse(FAULT_THREAD) ? EAGAIN : __real_pthread_key_create(key, destructor);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
    return refuse(FAULT_THREAD) ? ENOMEM : __real_pthread_setspecific(key, value);
}
