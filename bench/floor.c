/* SPDX-License-Identifier: MIT */
/* floor.c - libshardmm-floor.so: the least that malloc and free can be, as a lower bound in the plots.
 *
 * A small block comes from a list of its thread and size class, and goes to that of whoever frees it. There is no
 * owner, no page comes back for another class, nothing returns to the system. The class of an address is a byte for
 * each 64 KiB: one load. Blocks above 1 KiB are cut from fresh memory, with their size in front, and stay used up.
 * Not for use: a program that runs long under it runs out of memory. */

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

void free_sized(void *block, size_t size); /* of C23 */

enum { SMALL_MOST = 1024, STEP = 16, CLASSES = SMALL_MOST / STEP + 1, CHUNK_SHIFT = 16, CHUNKS = 1 << 21 };
static const size_t chunk_size = (size_t)1 << CHUNK_SHIFT;

struct item {
    struct item *next;
};

static __thread struct item *lists[CLASSES] __attribute__((tls_model("initial-exec")));
static unsigned char chunk_class[CHUNKS]; /* 0: no small blocks */
static _Atomic uintptr_t base;
static _Atomic size_t used_chunks;

static uintptr_t take_chunks(size_t count, unsigned char class)
{
    uintptr_t start = atomic_load_explicit(&base, memory_order_acquire);
    if (start == 0) {
        void *all = mmap(NULL, (size_t)CHUNKS << CHUNK_SHIFT, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED)
            return 0;
        uintptr_t none = 0;
        start = ((uintptr_t)all + chunk_size - 1) & ~(chunk_size - 1);
        if (!atomic_compare_exchange_strong(&base, &none, start)) {
            munmap(all, (size_t)CHUNKS << CHUNK_SHIFT);
            start = none;
        }
    }
    /* The last one is lost to the alignment. */
    const size_t first = atomic_fetch_add(&used_chunks, count);
    if (count > CHUNKS || first + count > CHUNKS - 1)
        return 0;
    chunk_class[first] = class;
    return start + (first << CHUNK_SHIFT);
}

__attribute__((noinline)) static void *small_slow(size_t class)
{
    const size_t size = class * STEP;
    const uintptr_t chunk = take_chunks(1, (unsigned char)class);
    if (chunk == 0) {
        errno = ENOMEM;
        return NULL;
    }
    for (size_t at = chunk_size - chunk_size % size; at > size; at -= size) {
        struct item *item = (struct item *)(chunk + at - size);
        item->next = lists[class];
        lists[class] = item;
    }
    return (void *)chunk;
}

__attribute__((noinline)) static void *large(size_t alignment, size_t size)
{
    const size_t header = alignment > STEP ? alignment : STEP;
    if (size > PTRDIFF_MAX - header - chunk_size || alignment > chunk_size) {
        errno = ENOMEM;
        return NULL;
    }
    const uintptr_t chunk = take_chunks((header + size + chunk_size - 1) >> CHUNK_SHIFT, 0);
    if (chunk == 0) {
        errno = ENOMEM;
        return NULL;
    }
    ((size_t *)(chunk + header))[-1] = size;
    return (void *)(chunk + header);
}

static size_t class_of_address(const void *block)
{
    return chunk_class[((uintptr_t)block - atomic_load_explicit(&base, memory_order_relaxed)) >> CHUNK_SHIFT];
}

EXPORT void *malloc(size_t size)
{
    if (__builtin_expect(size > SMALL_MOST, 0))
        return large(STEP, size);
    const size_t class = (size + STEP - 1 + (size == 0)) / STEP;
    struct item *item = lists[class];
    if (__builtin_expect(item == NULL, 0))
        return small_slow(class);
    lists[class] = item->next;
    return item;
}

EXPORT void free(void *block)
{
    if (block == NULL)
        return;
    const size_t class = class_of_address(block);
    struct item *item = block;
    item->next = lists[class]; /* of class 0: a list that nobody takes from */
    lists[class] = item;
}

EXPORT size_t malloc_usable_size(void *block)
{
    if (block == NULL)
        return 0;
    const size_t class = class_of_address(block);
    return class != 0 ? class * STEP : ((size_t *)block)[-1];
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    if (block != NULL && bytes <= SMALL_MOST)
        memset(block, 0, bytes); /* larger ones are fresh */
    return block;
}

EXPORT void *realloc(void *block, size_t size)
{
    if (block == NULL)
        return malloc(size);
    const size_t old = malloc_usable_size(block);
    if (size <= old && size >= old / 2)
        return block;
    void *moved = malloc(size);
    if (moved != NULL) {
        memcpy(moved, block, old < size ? old : size);
        free(block);
    }
    return moved;
}

EXPORT void free_sized(void *block, size_t size)
{
    (void)size;
    free(block);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    return alignment <= STEP ? malloc(size) : large(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = aligned_alloc(alignment, size);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}
