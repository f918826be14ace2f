/* SPDX-License-Identifier: MIT */
/* deep_plugin.c - a plugin that binds to its own libraries first (RTLD_DEEPBIND): in it malloc is the C library's,
 * beside a program that has another one. What it makes it frees. (A block that the C library made for it would come
 * from the program's malloc, and its free() would not know it: that is how the C library binds, not ours to mend.) */
#include <stdlib.h>
#include <string.h>

int deep_plugin(void);

int deep_plugin(void)
{
    for (size_t size = 1; size < 3000000; size = size * 3 + 1) {
        char *volatile block = malloc(size);
        char *volatile cleared = calloc(1, size);
        if (block == NULL || cleared == NULL)
            return 1;
        memset(block, 1, size);
        block = realloc(block, size * 2);
        if (block == NULL || block[size - 1] != 1 || cleared[size - 1] != 0)
            return 1;
        free(block);
        free(cleared);
    }
    return 0;
}
