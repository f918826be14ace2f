/* SPDX-License-Identifier: MIT */
#include "control/stats.h"

#include <errno.h>
#include <string.h>

#include "base/geometry.h"
#include "base/text.h"
#include "control/options.h"
#include "heap/heap.h"
#include "large/large_cache.h"
#include "platform/platform.h"
#include "segment/account.h"
#include "segment/segment.h"

static void add_heap(struct shardmm_stats *stats, struct smm_heap *heap)
{
    int64_t blocks, bytes;

    smm_small_usage(&heap->small, &blocks, &bytes);
    stats->small_blocks += (uint64_t)blocks;
    stats->small_bytes += (uint64_t)bytes;
    stats->free_pages_bytes += (uint64_t)smm_load_relaxed(&heap->small.pool.dirty_count) * SMM_PAGE_SIZE;
    stats->medium_blocks += smm_medium_live_blocks(&heap->medium);
    stats->medium_bytes += smm_medium_live_bytes(&heap->medium);
    stats->free_medium_bytes += smm_medium_free_bytes(&heap->medium);
    stats->foreign_frees +=
        smm_load_relaxed(&heap->small.foreign_frees) + smm_load_relaxed(&heap->medium.foreign_frees);
    switch (smm_heap_state(heap)) {
    case SMM_HEAP_LIVE:
        stats->heaps_live++;
        break;
    case SMM_HEAP_WAITING:
        stats->heaps_waiting++;
        break;
    case SMM_HEAP_SHARED:
    case SMM_HEAP_ORPHAN:
        break;
    }
}

void smm_stats_collect(struct shardmm_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    stats->version = SHARDMM_STATS_VERSION;
    stats->struct_size = sizeof *stats;
    for (struct smm_heap *heap = smm_heap_first(); heap != NULL; heap = heap->next)
        add_heap(stats, heap);
    /* Read while threads run, a block may be missed where it was and where it is. */
    if ((int64_t)stats->small_blocks < 0 || (int64_t)stats->small_bytes < 0)
        stats->small_blocks = stats->small_bytes = 0;
    stats->large_blocks = smm_load_relaxed(&smm_large_usage.live_blocks);
    stats->large_bytes = smm_load_relaxed(&smm_large_usage.live_bytes);
    stats->foreign_frees += smm_load_relaxed(&smm_small_homeless_frees);
    smm_large_cache_usage(&stats->large_cache_blocks, &stats->large_cache_bytes);
    stats->segments = smm_segment_count();
    stats->committed = smm_load_relaxed(&smm_account.committed);
    stats->committed_peak = smm_load_relaxed(&smm_account.committed_peak);
    stats->reserved = smm_load_relaxed(&smm_account.reserved);
    stats->purges = smm_load_relaxed(&smm_account.purges);
    stats->purged_bytes = smm_load_relaxed(&smm_account.purged_bytes);
    stats->commits = smm_load_relaxed(&smm_account.commits);
    stats->failures = smm_load_relaxed(&smm_account.failures);
}

/* ---- Writing ---- */

static const struct field {
    const char *name;
    const char *meaning;
    size_t offset;
    bool bytes;
} fields[] = {
#define FIELD(name, meaning, bytes) {#name, meaning, offsetof(struct shardmm_stats, name), bytes}
    FIELD(committed, "committed now", true),
    FIELD(committed_peak, "committed at most", true),
    FIELD(reserved, "addresses reserved", true),
    FIELD(small_bytes, "small blocks in use", true),
    FIELD(small_blocks, "small blocks in use", false),
    FIELD(medium_bytes, "medium blocks in use", true),
    FIELD(medium_blocks, "medium blocks in use", false),
    FIELD(large_bytes, "large blocks in use", true),
    FIELD(large_blocks, "large blocks in use", false),
    FIELD(free_pages_bytes, "free pages kept", true),
    FIELD(free_medium_bytes, "free in arenas", true),
    FIELD(large_cache_bytes, "large blocks kept", true),
    FIELD(large_cache_blocks, "large blocks kept", false),
    FIELD(heaps_live, "heaps of threads", false),
    FIELD(heaps_waiting, "heaps that wait for a thread", false),
    FIELD(segments, "segments of 4 MiB", false),
    FIELD(foreign_frees, "frees by another thread", false),
    FIELD(purges, "times memory went back", false),
    FIELD(purged_bytes, "memory that went back", true),
    FIELD(commits, "times memory was taken", false),
    FIELD(failures, "requests that failed", false),
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static uint64_t field_value(const struct shardmm_stats *stats, const struct field *field)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + field->offset, sizeof value);
    return value;
}

static void pad(struct smm_text *line, size_t length)
{
    while (line->length < length)
        smm_text_string(line, " ");
}

static void field_text(struct smm_text *line, const struct field *field, uint64_t value)
{
    smm_text_string(line, field->meaning);
    pad(line, 30);
    if (field->bytes)
        smm_text_bytes(line, value);
    else
        smm_text_unsigned(line, value);
    smm_text_string(line, "\n");
}

static void field_json(struct smm_text *line, const struct field *field, uint64_t value)
{
    smm_text_string(line, ",\"");
    smm_text_string(line, field->name);
    smm_text_string(line, "\":");
    smm_text_unsigned(line, value);
}

int smm_stats_print(enum shardmm_stats_format format, shardmm_write_fn *write, void *context)
{
    struct shardmm_stats stats;
    struct smm_text line;

    if (write == NULL || (format != SHARDMM_STATS_TEXT && format != SHARDMM_STATS_JSON))
        return EINVAL;
    smm_stats_collect(&stats);
    const bool json = format == SHARDMM_STATS_JSON;
    smm_text_clear(&line);
    if (json) {
        smm_text_string(&line, "{\"version\":");
        smm_text_unsigned(&line, stats.version);
        smm_text_string(&line, ",\"struct_size\":");
        smm_text_unsigned(&line, stats.struct_size);
    } else {
        smm_text_string(&line, "ShardMM " SHARDMM_VERSION_STRING "\n");
    }
    write(context, line.bytes, line.length);
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        smm_text_clear(&line);
        (json ? field_json : field_text)(&line, &fields[i], field_value(&stats, &fields[i]));
        write(context, line.bytes, line.length);
    }
    if (json)
        write(context, "}\n", 2);
    return 0;
}

/* ---- At exit ---- */

void smm_stats_start(void)
{
    smm_os_usage_start();
    if (smm_option_stats() != SMM_STATS_NONE && smm_option_stats_file() == NULL)
        smm_os_keep_stderr();
}

static void write_to_file(void *context, const char *text, size_t length)
{
    smm_os_write(*(int *)context, text, length);
}

static void seconds(struct smm_text *line, uint64_t microseconds)
{
    const uint64_t hundredths = microseconds / 10000;

    smm_text_unsigned(line, hundredths / 100);
    smm_text_string(line, hundredths % 100 < 10 ? ".0" : ".");
    smm_text_unsigned(line, hundredths % 100);
    smm_text_string(line, " s");
}

static void kind_summary(struct smm_text *line, uint64_t blocks, uint64_t bytes, const char *kind)
{
    smm_text_unsigned(line, blocks);
    smm_text_string(line, kind);
    smm_text_string(line, " (");
    smm_text_bytes(line, bytes);
    smm_text_string(line, ")");
}

static void print_summary(int file)
{
    struct shardmm_stats stats;
    struct smm_os_usage usage;
    struct smm_text line;

    smm_stats_collect(&stats);
    smm_os_usage_get(&usage);
    smm_text_clear(&line);
    smm_text_string(&line, "shardmm: committed ");
    smm_text_bytes(&line, stats.committed_peak);
    smm_text_string(&line, " at most, ");
    smm_text_bytes(&line, stats.committed);
    smm_text_string(&line, " now; the process was resident with ");
    smm_text_bytes(&line, usage.resident_peak);
    smm_text_string(&line, " at most\nshardmm: blocks in use: ");
    kind_summary(&line, stats.small_blocks, stats.small_bytes, " small");
    smm_text_string(&line, ", ");
    kind_summary(&line, stats.medium_blocks, stats.medium_bytes, " medium");
    smm_text_string(&line, ", ");
    kind_summary(&line, stats.large_blocks, stats.large_bytes, " large");
    smm_text_string(&line, "\nshardmm: ");
    smm_text_unsigned(&line, usage.page_faults);
    smm_text_string(&line, " page faults; time ");
    seconds(&line, usage.elapsed_us);
    smm_text_string(&line, ", user ");
    seconds(&line, usage.user_us);
    smm_text_string(&line, ", system ");
    seconds(&line, usage.system_us);
    smm_text_string(&line, "\n");
    smm_os_write(file, line.bytes, line.length);
}

void smm_stats_at_exit(void)
{
    const enum smm_stats_at_exit what = smm_option_stats();
    const char *const path = smm_option_stats_file();
    int file;

    if (what == SMM_STATS_NONE)
        return;
    if (smm_option_stats_pid() != 0 && smm_option_stats_pid() != smm_os_process_id())
        return;
    file = path != NULL ? smm_os_create(path) : smm_os_kept_stderr();
    if (file < 0)
        return;
    if (what == SMM_STATS_SUMMARY)
        print_summary(file);
    else
        (void)smm_stats_print(what == SMM_STATS_JSON ? SHARDMM_STATS_JSON : SHARDMM_STATS_TEXT, write_to_file, &file);
    if (path != NULL)
        smm_os_close(file);
}
