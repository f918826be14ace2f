/* SPDX-License-Identifier: MIT */
/* tlsf_entry.c - the index of free chunks on its own, for fuzz_targets/tlsf.rs: chunks by their number. */
#include <string.h>

#include "medium/tlsf.h"

enum { CHUNKS = 64 };

int tlsf_entry_chunks(void);
void tlsf_entry_clear(void);
void tlsf_entry_insert(int number, size_t size);
void tlsf_entry_remove(int number);
int tlsf_entry_take(size_t size);
int tlsf_entry_verify(void);

static struct smm_tlsf list;
static struct smm_chunk chunks[CHUNKS];

int tlsf_entry_chunks(void)
{
    return CHUNKS;
}

void tlsf_entry_clear(void)
{
    memset(&list, 0, sizeof list);
}

void tlsf_entry_insert(int number, size_t size)
{
    smm_store_relaxed(&chunks[number].size_flags, size | SMM_CHUNK_FREE);
    smm_tlsf_insert(&list, &chunks[number]);
}

void tlsf_entry_remove(int number)
{
    smm_tlsf_remove(&list, &chunks[number]);
    smm_store_relaxed(&chunks[number].size_flags, 0);
}

/* The number of the chunk, or -1. */
int tlsf_entry_take(size_t size)
{
    struct smm_chunk *const chunk = smm_tlsf_take(&list, size);

    if (chunk == NULL)
        return -1;
    smm_store_relaxed(&chunk->size_flags, 0);
    return (int)(chunk - chunks);
}

int tlsf_entry_verify(void)
{
    return smm_tlsf_verify(&list);
}
