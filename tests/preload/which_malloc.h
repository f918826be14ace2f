/* SPDX-License-Identifier: MIT */
/* which_malloc.h - ends a test when the malloc that it calls is not ours: every test of this directory would
 * pass with the C library's.
 *
 * With LINKED_STATICALLY the library is part of the program, and its calls are there to be called; else they
 * are looked up, since the program was not linked with it.
 */
#ifndef SMM_TESTS_WHICH_MALLOC_H
#define SMM_TESTS_WHICH_MALLOC_H

#include <stdio.h>
#include <stdlib.h>

#ifdef LINKED_STATICALLY

#include <shardmm/shardmm.h>

static inline void require_our_malloc(void)
{
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        void *const block = malloc(size);
        /* The C library's blocks carry a header, and our calls know nothing of them. */
        if (block == NULL || shardmm_usable_size(block) != shardmm_good_size(size)) {
            fputs("malloc is not ShardMM's\n", stderr);
            exit(1);
        }
        free(block);
    }
}

#else

#ifndef _GNU_SOURCE
#error "dladdr() needs _GNU_SOURCE"
#endif
#include <dlfcn.h>
#include <string.h>

/* A program that replaces some of the family itself names the rest. */
#ifndef FAMILY
#define FAMILY "malloc", "free", "calloc", "realloc", "posix_memalign", "_Znwm", "_ZdlPv"
#endif

static inline void require_our_malloc(void)
{
    static const char *const names[] = {FAMILY};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *const address = dlsym(RTLD_DEFAULT, names[i]);
        Dl_info info;
        if (address == NULL || dladdr(address, &info) == 0 || strstr(info.dli_fname, "libshardmm") == NULL) {
            fprintf(stderr, "%s is not ShardMM's: is libshardmm.so preloaded?\n", names[i]);
            exit(1);
        }
    }
}

#endif

#endif
