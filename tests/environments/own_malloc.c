/* SPDX-License-Identifier: MIT */
/* own_malloc.c - a program with a malloc() and a free() of its own and nothing else of the family. It and the C
 * library use these; the library beside it may neither need them nor get their blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[1 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size)
{
    void *const block = memory + used;

    used += (size + 15) & ~(size_t)15;
    return used <= sizeof memory ? block : NULL;
}

void free(void *block)
{
    if (block != NULL && (size_t)((char *)block - memory) >= sizeof memory)
        _exit(6); /* not one of its own */
}

int main(void)
{
    char *volatile block = malloc(100);

    strcpy(block, "its own");
    free(block);
    free(strdup("the C library's copy"));
    return block >= memory && block < memory + sizeof memory && used > 100 ? 0 : 1;
}
