/* SPDX-License-Identifier: MIT */
/* hooks.c - a library that puts itself before calls of the C library which an allocator makes, as tracers of files,
 * false clocks and the like do. Each hook looks the next one up, which may allocate, and those for files and
 * thread-specific data allocate themselves, under the allocator's feet. Those for memory and time count alone. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Declared without the attributes of the headers, which differ. */
EXPORT unsigned hooks_called(void);
static _Atomic unsigned called;
static _Thread_local int inside;

static void allocate(void)
{
    called++;
    if (inside++ == 0) {
        char *const block = malloc(100);
        void *const bigger = realloc(block, 30000);
        free(calloc(10, 20));
        free(bigger);
    }
    inside--;
}

static void next(const char *name, void *function)
{
    void *const address = dlsym(RTLD_NEXT, name);
    if (address == NULL)
        _exit(9);
    memcpy(function, &address, sizeof address);
}

#define HOOK(result, name, parameters, arguments, before)                                               \
    EXPORT result name parameters                                                                       \
    {                                                                                                   \
        static result(*to) parameters;                                                                  \
        before;                                                                                         \
        if (to == NULL)                                                                                 \
            next(#name, &to);                                                                           \
        return to arguments;                                                                            \
    }

HOOK(int, clock_gettime, (clockid_t clock, struct timespec *time), (clock, time), called++)
HOOK(int, pthread_key_create, (pthread_key_t *key, void (*call)(void *)), (key, call), allocate())
HOOK(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), allocate())
HOOK(void *, pthread_getspecific, (pthread_key_t key), (key), allocate())
HOOK(int, sched_yield, (void), (), allocate())
HOOK(int, close, (int file), (file), allocate())
HOOK(ssize_t, read, (int file, void *bytes, size_t size), (file, bytes, size), allocate())
HOOK(ssize_t, write, (int file, const void *bytes, size_t size), (file, bytes, size), allocate())
HOOK(int, munmap, (void *address, size_t size), (address, size), called++)
HOOK(int, mprotect, (void *address, size_t size, int rights), (address, size, rights), called++)
HOOK(int, madvise, (void *address, size_t size, int advice), (address, size, advice), called++)
HOOK(void *, mmap, (void *address, size_t size, int rights, int flags, int file, off_t offset),
     (address, size, rights, flags, file, offset), called++)

EXPORT int open(const char *path, int flags, ...)
{
    static int (*to)(const char *, int, ...);
    va_list rest;
    allocate();
    if (to == NULL)
        next("open", &to);
    va_start(rest, flags);
    const unsigned mode = va_arg(rest, unsigned);
    va_end(rest);
    return to(path, flags, mode);
}

unsigned hooks_called(void)
{
    return called;
}
