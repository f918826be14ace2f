#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# machine_settings.sh BUILD_DIRECTORY
#
# The programs of this directory under settings of the whole machine: overcommit_memory 0, 1 and 2, and huge pages
# always, madvise and never. Changes them for the time of each run and sets them back, also when it is ended. Takes
# root, and a machine that nobody else needs at the time: not part of a suite, but of .ci/run.
#
# Holds off: reservations that the kernel counts as promised memory (nothing starts, or fork() fails, with
# overcommit_memory=2), and small processes that become large with huge pages for everybody.
set -euo pipefail

build=$(readlink -f -- "$1")
programs=$build/tests/environments
library=$build/libshardmm.so
overcommit=/proc/sys/vm/overcommit_memory
ratio=/proc/sys/vm/overcommit_ratio
huge=/sys/kernel/mm/transparent_hugepage/enabled
failures=0

for setting in "$overcommit" "$ratio" "$huge"; do
    if [ ! -w "$setting" ]; then
        printf 'skipped: %s cannot be written\n' "$setting"
        exit 77
    fi
done

before_overcommit=$(cat "$overcommit")
before_ratio=$(cat "$ratio")
before_huge=$(sed 's/.*\[\(.*\)\].*/\1/' "$huge")
restore() {
    echo "$before_overcommit" >"$overcommit"
    echo "$before_ratio" >"$ratio"
    echo "$before_huge" >"$huge"
}
trap restore EXIT
trap 'exit 1' HUP INT TERM

# run WHAT COMMAND...
run() {
    local what=$1
    shift
    if timeout 120 "$@"; then
        printf '%-40s passed\n' "$what"
    else
        printf '%-40s FAILED\n' "$what"
        failures=$((failures + 1))
    fi
}

all() {
    run "$1, preloaded" env LD_PRELOAD="$library" "$programs/everything_preloaded"
    run "$1, static" "$programs/everything_static"
    run "$1, forks" env LD_PRELOAD="$library" "$programs/fork_storm_preloaded_e" 100
}

for mode in 0 1 2; do
    # In per cent of the machine's memory. Sanitizers of other processes, say, would want more.
    echo "${OVERCOMMIT_RATIO:-200}" >"$ratio"
    echo "$mode" >"$overcommit"
    all "overcommit_memory=$mode"
    restore
done

# Compares `cat` while it waits, with and without the library, in KiB: what the kernel counts as promised to it
# (mappings that are accounted for), and the peak of what is resident.
compare() {
    run "$1: a small process" python3 - "$library" <<'PYTHON'
import os
import re
import subprocess
import sys


def measure(preload):
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, "LD_PRELOAD": preload})
    process.stdin.write(b"x\n")
    process.stdin.flush()
    process.stdout.readline()
    promised = 0
    with open(f"/proc/{process.pid}/smaps", encoding="ascii") as file:
        for part in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", file.read(), flags=re.M):
            flags = re.search(r"^VmFlags:(.*)", part, re.M)
            if flags and " ac" in flags[1]:
                promised += int(re.search(r"^Size: +(\d+)", part, re.M)[1])
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        resident = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])
    process.stdin.close()
    process.wait()
    return promised, resident


ours, theirs = measure(sys.argv[1]), measure("")
print(f"promised {ours[0]}, resident {ours[1]}; with the C library's malloc {theirs[0]}, {theirs[1]}")
sys.exit(ours[0] > theirs[0] + 20 * 1024 or ours[1] > theirs[1] + 1024)
PYTHON
}

for setting in always madvise never; do
    echo "$setting" >"$huge"
    all "huge pages: $setting"
    compare "huge pages: $setting"
    restore
done
exit $((failures != 0))
