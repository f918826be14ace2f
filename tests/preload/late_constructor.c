/* SPDX-License-Identifier: MIT */
/* late_constructor.c - a library that is preloaded beside ours, whose constructor allocates before ours has
 * run: the dynamic linker runs the constructors of the libraries preloaded last first. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept;

__attribute__((constructor)) static void early(void)
{
    free(NULL);
    kept = malloc(1000);
    char *const grown = realloc(malloc(10), 500000);
    if (kept == NULL || grown == NULL)
        _exit(4);
    memset(kept, 'k', 1000);
    memset(grown, 'g', 500000);
    free(grown);
}

__attribute__((destructor)) static void late(void)
{
    for (int i = 0; i < 1000; i++) {
        if (kept[i] != 'k')
            _exit(5);
    }
    free(kept);
}
