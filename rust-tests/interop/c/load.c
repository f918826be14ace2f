/* SPDX-License-Identifier: MIT */
/* load.c - a C program that loads the Rust library, calls it from several threads, which end, and unloads it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static size_t (*sort)(const char *text, size_t length, size_t threads);

static void *run(void *result)
{
    *(size_t *)result = sort("a library that is loaded", 24, 3);
    return NULL;
}

int main(int argc, char **argv)
{
    for (int round = 0; round < 3; round++) {
        void *const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        pthread_t threads[4];
        size_t results[4] = {0};

        if (library == NULL) {
            fprintf(stderr, "load: %s\n", dlerror());
            return 1;
        }
        sort = (size_t(*)(const char *, size_t, size_t))(uintptr_t)dlsym(library, "interop_sort");
        uint64_t (*const blocks)(void) = (uint64_t(*)(void))(uintptr_t)dlsym(library, "interop_blocks");
        const uint64_t before = blocks();
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, run, &results[i]) != 0)
                return 1;
        for (int i = 0; i < 4; i++)
            if (pthread_join(threads[i], NULL) != 0 || results[i] != 3 * 24)
                return 2;
        /* The standard library keeps a few of its own. */
        if (round > 0 && blocks() > before + 4) {
            fprintf(stderr, "load: %llu blocks more than before\n", (unsigned long long)(blocks() - before));
            return 3;
        }
        if (dlclose(library) != 0)
            return 4;
    }
    puts("loaded");
    return 0;
}
