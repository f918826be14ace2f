/* SPDX-License-Identifier: MIT */
/* text.h - puts lines of text together without allocating, without locks and without locale: for reports
 * of misuse, which may come from any state of the process, and for statistics. */
#ifndef SMM_BASE_TEXT_H
#define SMM_BASE_TEXT_H

#include "base/compiler.h"

/* What does not fit is cut. `length` never exceeds the room. */
struct smm_text {
    char bytes[480];
    size_t length;
};

SMM_INLINE void smm_text_clear(struct smm_text *text)
{
    text->length = 0;
}

void smm_text_string(struct smm_text *text, const char *string);
void smm_text_unsigned(struct smm_text *text, uint64_t value);
void smm_text_address(struct smm_text *text, const void *address);
/* A number of bytes as people read it: "1.2 MiB". */
void smm_text_bytes(struct smm_text *text, uint64_t bytes);

#endif
