#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# memory_limit.sh BUILD_DIRECTORY
#
# A program in a control group of its own with a limit of memory, with the library and with the C library's malloc.
# Takes root and control groups that can be written: run by .ci/run alone.
#
# Holds off: memory that is freed and not used again before more is taken, which a limit makes deadly; and, where there
# is too little for anybody, anything but the end that the system gives such a process.
set -euo pipefail

build=$(readlink -f -- "$1")
program=$build/tests/environments/memory_limit
library=$build/libshardmm.so
limit_mib=104 # the program has 64 MiB at most
more_mib=32   # above the C library's malloc: blocks of three kinds do not lend each other memory

# The first version has a hierarchy for memory, in which this process may be anywhere; the second has one for all.
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/shardmm-test
    limit_file=memory.limit_in_bytes peak_file=memory.max_usage_in_bytes
else
    group=/sys/fs/cgroup/shardmm-test
    limit_file=memory.max peak_file=memory.peak
fi
if ! mkdir "$group" 2>/dev/null || [ ! -w "$group/$limit_file" ]; then
    printf 'skipped: %s cannot be used\n' "${group%/*}"
    exit 77
fi
trap 'rmdir "$group"' EXIT

failures=0
status=0 peak=0

# limited PRELOAD ARGUMENT...   Sets status and peak, in MiB.
limited() {
    local preload=$1
    shift
    rmdir "$group"
    mkdir "$group"
    echo $((limit_mib << 20)) >"$group/$limit_file"
    status=0
    # The outer redirection is for what this shell says of a process that was killed.
    {
        (
            echo "$BASHPID" >"$group/cgroup.procs"
            LD_PRELOAD=$preload exec "$program" "$@"
        ) >/dev/null 2>&1 || status=$?
    } 2>/dev/null
    peak=$(($(<"$group/$peak_file") >> 20))
}

expect() {
    local what=$1
    shift
    if "$@"; then
        printf '%-70s passed\n' "$what"
    else
        printf '%-70s FAILED\n' "$what"
        failures=$((failures + 1))
    fi
}

limited '' rounds
theirs=$peak
expect "the C library's malloc: status $status, peak $peak MiB" [ "$status" -eq 0 ]
limited "$library" rounds
expect "memory that comes and goes: status $status, peak $peak MiB" \
    [ "$status:$((peak <= theirs + more_mib))" = 0:1 ]
# 128 + SIGKILL, of the system.
limited '' endless
expect "more than there is, the C library's malloc: status $status" [ "$status" -eq 137 ]
limited "$library" endless
expect "more than there is: status $status" [ "$status" -eq 137 ]
exit $((failures != 0))
