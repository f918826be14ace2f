/* SPDX-License-Identifier: MIT */
#include "control/start.h"

#include <shardmm/version.h>

#include "base/text.h"
#include "control/fork.h"
#include "control/options.h"
#include "control/stats.h"
#include "heap/heap.h"
#include "platform/lock.h"
#include "platform/platform.h"
#include "segment/segment_map.h"

_Atomic(bool) smm_started;

static struct smm_lock start_lock;
/* smm_os_thread_id() of the thread that holds the lock, else 0: no other thread reads its own number there. */
static _Atomic(uintptr_t) starter;

bool smm_start_slow(void)
{
    bool done = true;

    /* Others may have put themselves before what is called below, and allocate there. Once the map is made the
     * shared heap serves them, since this thread is not told of its end yet. */
    if (smm_load_relaxed(&starter) == smm_os_thread_id())
        return smm_load_relaxed(&smm_segment_map.limit) != 0;
    smm_lock_acquire(&start_lock);
    smm_store_relaxed(&starter, smm_os_thread_id());
    if (!smm_load_relaxed(&smm_started)) {
        smm_options_start();
        done = smm_segment_map_init();
        if (done) {
            smm_heap_start();
            smm_store_release(&smm_started, true);
        }
    }
    smm_store_relaxed(&starter, 0);
    smm_lock_release(&start_lock);
    return done;
}

static void greet(void)
{
    struct smm_text line;

    smm_text_clear(&line);
    smm_text_string(&line, "shardmm: version " SHARDMM_VERSION_STRING " in process ");
    smm_text_unsigned(&line, smm_os_process_id());
    smm_text_string(&line, "\n");
    smm_os_write(SMM_OS_STDERR, line.bytes, line.length);
}

/* What waits for the process to be set up further than the first malloc() may find it. */
__attribute__((constructor)) static void start_late(void)
{
    (void)smm_start();
    smm_options_start();
    smm_stats_start();
    smm_fork_start();
    /* Opens a file. Later the process may have locked itself in, where that is answered by a signal. */
    (void)smm_os_huge_available();
    if (smm_option_verbose() >= 1)
        greet();
}

__attribute__((destructor)) static void end_late(void)
{
    smm_stats_at_exit();
}
