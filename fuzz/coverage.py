#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coverage.py TRACE SOURCES - the lines that a trace (lcov) says were reached, by directory of SOURCES, and those that
were not. Exit status 1 when a directory that the fuzzers are for is below its bound."""

import collections
import os
import sys

BOUND = 90
MEASURED = ("small", "medium", "large", "heap", "entry")


def read(path, sources):
    """File below `sources`: line: how often, of all programs together."""
    files = collections.defaultdict(lambda: collections.defaultdict(int))
    name = None
    with open(path, encoding="utf-8") as trace:
        for line in trace:
            key, _, value = line.strip().partition(":")
            if key == "SF":
                name = os.path.relpath(os.path.realpath(value), sources)
            elif key == "DA" and not name.startswith(".."):
                number, count = value.split(",")[:2]
                files[name][int(number)] += int(count)
    return files


def ranges(numbers):
    """12, 13, 14, 20 as 12-14 20."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def main():
    trace, sources = sys.argv[1], os.path.realpath(sys.argv[2])
    files = read(trace, sources)
    if not files:
        sys.exit("coverage.py: the trace has no line of the sources")
    directories = collections.defaultdict(lambda: [0, 0])
    print("not reached:")
    for name in sorted(files):
        lines = files[name]
        missed = [number for number, count in lines.items() if count == 0]
        total = directories[os.path.dirname(name)]
        total[0] += len(lines) - len(missed)
        total[1] += len(lines)
        if missed:
            print(f"  src/{name}: {ranges(missed)}")
    print()
    short = []
    for directory, (reached, lines) in sorted(directories.items()):
        share = 100 * reached / lines
        bound = f", at least {BOUND}" if directory in MEASURED else ""
        print(f"src/{directory:10} {reached:5} of {lines:5} lines, {share:5.1f} %{bound}")
        if directory in MEASURED and share < BOUND:
            short.append(directory)
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
