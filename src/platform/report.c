/* SPDX-License-Identifier: MIT */
#include "platform/report.h"

#include "base/check.h"
#include "base/text.h"
#include "platform/platform.h"

static const char *fault_text(enum smm_fault fault)
{
    switch (fault) {
    case SMM_FAULT_NONE:
        break;
    case SMM_FAULT_UNKNOWN:
        return "not a block of this allocator";
    case SMM_FAULT_INTERIOR:
        return "not the start of a block";
    case SMM_FAULT_FREED:
        return "freed before";
    case SMM_FAULT_OVERWRITTEN:
        return "the header that describes the block was overwritten";
    case SMM_FAULT_SIZE:
        return "the size does not belong to this block";
    }
    return "no fault";
}

void smm_report_misuse(const char *call, const void *address, enum smm_fault fault, const char *kind, size_t size)
{
    struct smm_text line;

    smm_text_clear(&line);
    smm_text_string(&line, "shardmm: ");
    smm_text_string(&line, call);
    smm_text_string(&line, "(");
    smm_text_address(&line, address);
    smm_text_string(&line, "): ");
    smm_text_string(&line, fault_text(fault));
    if (kind != NULL) {
        smm_text_string(&line, " (");
        smm_text_string(&line, kind);
        if (size != 0) {
            smm_text_string(&line, ", ");
            smm_text_unsigned(&line, size);
            smm_text_string(&line, " bytes");
        }
        smm_text_string(&line, ")");
    }
    smm_text_string(&line, "\n");
    smm_os_write(SMM_OS_STDERR, line.bytes, line.length);
    smm_os_abort();
}

void smm_report_reentry(void)
{
    static const char line[] = "shardmm: called while another call of this thread holds a lock: by a signal handler, or a "
                               "function in place of the system's\n";

    smm_os_write(SMM_OS_STDERR, line, sizeof line - 1);
    smm_os_abort_unhandled();
}

void smm_check_failed(const char *what, const char *file, unsigned line_number)
{
    struct smm_text line;

    smm_text_clear(&line);
    smm_text_string(&line, "shardmm: internal check failed: ");
    smm_text_string(&line, what);
    smm_text_string(&line, " at ");
    smm_text_string(&line, file);
    smm_text_string(&line, ":");
    smm_text_unsigned(&line, line_number);
    smm_text_string(&line, "\n");
    smm_os_write(SMM_OS_STDERR, line.bytes, line.length);
    smm_os_abort();
}
