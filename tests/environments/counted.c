/* SPDX-License-Identifier: MIT */
/* counted.c before|after - run with counting_malloc.c and libshardmm.so preloaded, the counter before or after
 * it. Before: every block of the calls that the C library makes of malloc and the like is counted, and so are
 * freed by the counter. After: ShardMM serves alone. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t calls(void)
{
    void *const address = dlsym(RTLD_DEFAULT, "counted_calls");
    size_t (*count)(void);

    if (address == NULL)
        exit(2);
    memcpy(&count, &address, sizeof count);
    return count();
}

static void call(const char *name, void *block, size_t size)
{
    void *const address = dlsym(RTLD_DEFAULT, name);

    if (address == NULL)
        exit(2);
    if (strcmp(name, "free_sized") == 0) {
        void (*give)(void *, size_t);
        memcpy(&give, &address, sizeof give);
        give(block, size);
    } else {
        void (*give)(void *, size_t, size_t);
        memcpy(&give, &address, sizeof give);
        give(block, 16, size);
    }
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    const size_t before = calls();
    char *volatile block = malloc(10);

    strcpy(block, "counted");
    for (size_t size = 20; size < 5000000; size *= 3) {
        block = reallocarray(block, size, 1);
        if (block == NULL || strcmp(block, "counted") != 0)
            return 1;
        call("free_sized", malloc(size), size);
        call("free_aligned_sized", malloc(size), size);
        free(calloc(1, size));
        free(strdup(block));
    }
    free(block);
    if ((calls() - before >= 50) != (strcmp(arguments[1], "before") == 0)) {
        fprintf(stderr, "%zu calls were counted\n", calls() - before);
        return 1;
    }
    return 0;
}
