/* SPDX-License-Identifier: MIT */
/* dlopen_thread.c LIBSHARDMM.SO - the library loaded late, used and closed in threads that end afterwards.
 *
 * The program's malloc stays the C library's. A thread that closed the library still has a heap of it, and its
 * exit calls into the library: it must still be there. Blocks outlive the closing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 60, BLOCKS = 50 };

static const char *library;
static void *left[THREADS][BLOCKS];

typedef void *malloc_fn(size_t);
typedef void free_fn(void *);

/* ISO C knows no conversion from object to function pointers; POSIX asks for this one. */
static void look_up(void *handle, const char *name, void *function)
{
    void *const address = dlsym(handle, name);
    if (address == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    memcpy(function, &address, sizeof address);
}

static void *thread(void *argument)
{
    const uintptr_t self = (uintptr_t)argument;
    void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    malloc_fn *take;
    free_fn *give;

    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    look_up(handle, "shardmm_malloc", &take);
    look_up(handle, "shardmm_free", &give);
    for (unsigned i = 0; i < BLOCKS; i++) {
        const size_t size = (size_t)1 << (i % 22);
        left[self][i] = take(size);
        if (left[self][i] == NULL)
            exit(1);
        memset(left[self][i], (int)self, size);
        if (i % 3 == 0) {
            give(left[self][i]);
            left[self][i] = NULL;
        } else if (self > 0) {
            give(left[self - 1][i]);
        }
    }
    if (dlclose(handle) != 0) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    library = arguments[1];
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, (void *)i) != 0 || pthread_join(id, NULL) != 0)
            return 2;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        const unsigned char *const block = left[THREADS - 1][i];
        for (size_t at = 0; block != NULL && at < (size_t)1 << (i % 22); at++) {
            if (block[at] != THREADS - 1) {
                fprintf(stderr, "a block changed when the library was closed\n");
                return 1;
            }
        }
    }
    return 0;
}
