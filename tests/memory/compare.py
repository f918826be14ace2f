#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py SCENARIO BOUND PROGRAM LIBRARY - one figure of memory.c with the library and without, in turn.

hello                   peak memory of a process that does nothing, at most BOUND KiB above the C library's
fork_with_many_threads  time of a fork, at most BOUND times the C library's: the lowest of several runs of each
"""

import os
import subprocess
import sys

RUNS = 7


def figure(program, scenario, library):
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    if library:
        environment["LD_PRELOAD"] = library
    done = subprocess.run([program, scenario], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return float(done.stdout.split()[-1])


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__.splitlines()[0])
    scenario, bound, program, library = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4]
    ours, theirs = [], []
    for _ in range(RUNS):
        ours.append(figure(program, scenario, library))
        theirs.append(figure(program, scenario, None))
    if scenario == "hello":
        above = min(ours) - min(theirs)
        print(f"peak memory {min(ours):.0f} KiB, C library {min(theirs):.0f} KiB: {above:.0f} above, at most {bound:.0f}")
    else:
        above = min(ours) / min(theirs)
        print(f"fork {min(ours):.0f} us, C library {min(theirs):.0f} us: {above:.2f} times, at most {bound:.2f}")
    sys.exit(0 if above <= bound else 1)


if __name__ == "__main__":
    main()
