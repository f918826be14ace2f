/* SPDX-License-Identifier: MIT */
/* rare_calls.c [overflow] - blocks that go between the common calls and those that tools with a malloc of their own
 * often do not know. With an argument it writes past a block, for a tool that looks for that. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void give_sized(void *block, size_t size)
{
    void *const address = dlsym(RTLD_DEFAULT, "free_sized");
    void (*give)(void *, size_t);

    if (address == NULL)
        exit(2);
    memcpy(&give, &address, sizeof give);
    give(block, size);
}

static void give_aligned_sized(void *block, size_t alignment, size_t size)
{
    void *const address = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    void (*give)(void *, size_t, size_t);

    if (address == NULL)
        exit(2);
    memcpy(&give, &address, sizeof give);
    give(block, alignment, size);
}

int main(int count, char **arguments)
{
    void *aligned = NULL;
    (void)arguments;

    for (size_t size = 30; size < 3000000; size *= 5) {
        char *volatile block = malloc(size);
        if (block == NULL)
            return 1;
        strcpy(block, "rare");
        if (count > 1)
            block[size] = 'x';
        block = reallocarray(block, size, 2);
        if (block == NULL || strcmp(block, "rare") != 0)
            return 1;
        block = realloc(block, size * 3);
        if (block == NULL || malloc_usable_size(block) < size * 3)
            return 1;
        free(block);
        free(realloc(reallocarray(NULL, 3, size), size));
        give_sized(malloc(size), size);
        give_sized(calloc(size, 1), size);
        give_aligned_sized(aligned_alloc(64, size / 64 * 64 + 64), 64, size / 64 * 64 + 64);
        free(valloc(size));
        free(pvalloc(size));
        free(memalign(128, size));
        if (posix_memalign(&aligned, 4096, size) != 0)
            return 1;
        free(aligned);
    }
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    (void)malloc_trim(0);
    return mallinfo2().uordblks > (size_t)1 << 40;
}
