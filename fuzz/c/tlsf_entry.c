/* SPDX-License-Identifier: MIT */
/* tlsf_entry.c - the index of free chunks on its own, for fuzz_targets/tlsf.rs: chunks by their number. */
#include <string.h>

#include "medium/tlsf.h"

enum { CHUNKS = 64 };

int tlsf_entry_chunks(void);
void tlsf_entry_clear(void);
void tlsf_entry_insert(int number, unsigned size);
void tlsf_entry_remove(int number);
int tlsf_entry_take(unsigned size);
int tlsf_entry_verify(void);

static struct smm_tlsf list;
static struct smm_free_chunk chunks[CHUNKS];

int tlsf_entry_chunks(void)
{
    return CHUNKS;
}

void tlsf_entry_clear(void)
{
    memset(&list, 0, sizeof list);
}

void tlsf_entry_insert(int number, unsigned size)
{
    chunks[number].size = (uint16_t)size;
    smm_tlsf_insert(&list, &chunks[number]);
}

void tlsf_entry_remove(int number)
{
    smm_tlsf_remove(&list, &chunks[number]);
    chunks[number].size = 0;
}

/* The number of the chunk, or -1. */
int tlsf_entry_take(unsigned size)
{
    struct smm_free_chunk *const chunk = smm_tlsf_take(&list, size);

    if (chunk == NULL)
        return -1;
    chunk->size = 0;
    return (int)(chunk - chunks);
}

int tlsf_entry_verify(void)
{
    return smm_tlsf_verify(&list);
}
