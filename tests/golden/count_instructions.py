#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count_instructions.py [--update] MAKER COUNTS PROGRAM - instructions of the fast paths, by callgrind.

Runs PROGRAM with N and with 2 N calls of each scenario and compares what callgrind counts for each function
alone: the difference, divided by N, is what one call takes. Neither the loop nor the jump into the library
counts, as they are other functions. A function of the library that counts as well in the difference, and was
not asked for, means that the calls left the fast path.

COUNTS holds the numbers by what made the code: the compiler, or the assembler. The test fails when one differs, in either direction: a lower one is to be
committed (--update writes them) as well as a higher one explained. Exit status 77: no valgrind, or no numbers of
this maker.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

# name: scenario of calls.c, N, and what it counts: function, without its prefix -> name of the number
SCENARIOS = {
    "direct": (300, {"malloc": "malloc up to 2 KiB", "free": "free"}),
    "table": (8, {"malloc": "malloc up to 16 KiB", "free": "free up to 16 KiB"}),
    "realloc": (300, {"realloc": "realloc in place"}),
    "calloc_used": (300, {"calloc": "calloc of 64 used bytes, without memset", "free": "free"}),
    "calloc_new": (16, {"calloc": "calloc of new memory"}),
}
PREFIX = re.compile(r"(shardmm|smm_twin)_")


class Fault(Exception):
    """What makes the measurement, not its result, wrong."""


def parse_callgrind(text, library=None):
    """Instructions by function, each without what it calls; of the file named `library` only, if it is given."""
    names, objects, costs = {}, {}, Counter()
    function, skip, counts = None, False, True
    for line in text.splitlines():
        match = re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line) if library is not None else None
        if match:
            kind, number, path = match.groups()
            if path is not None:
                objects[number] = pathlib.PurePath(path).name
            if kind == "ob":
                counts = objects[number] == library
            continue
        match = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
        if match:
            kind, number, name = match.groups()
            if name is not None:
                # callgrind tells recursion and versions of symbols apart; we do not.
                names[number] = name.split("'")[0].split("@")[0]
            if kind == "fn":
                function = names[number]
        elif line.startswith("calls="):
            skip = True  # the next line is the cost of the call, counted at the callee
        elif re.match(r"(0x[0-9a-f]+|[+\-]?\d+|\*)( |$)", line):
            fields = line.split()
            if counts and not skip and function is not None and len(fields) >= 2:
                costs[function] += int(fields[-1])
            skip = False
    return costs


def run(valgrind, program, scenario, count):
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        command = [valgrind, "--tool=callgrind", f"--callgrind-out-file={out}", program, scenario, str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode != 0 or not out.is_file():
            raise Fault(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
        return parse_callgrind(out.read_text(encoding="utf-8"))


def measure(valgrind, program, scenario):
    """{name of the number: instructions a call}"""
    count, wanted = SCENARIOS[scenario]
    once = run(valgrind, program, scenario, count)
    twice = run(valgrind, program, scenario, 2 * count)
    more = Counter(twice)
    more.subtract(once)
    for function in list(more):
        name = PREFIX.sub("", function, count=1)
        if name != function:
            more[name] += more.pop(function)
    for function, extra in more.items():
        if extra != 0 and function not in wanted and function.startswith("smm_"):
            raise Fault(f"{scenario}: the calls left the fast path: {extra} instructions more in {function}")
    numbers = {}
    for function, name in wanted.items():
        if more[function] <= 0 or more[function] % count != 0:
            raise Fault(f"{scenario}: {more[function]} instructions for {count} calls of {function}")
        numbers[name] = more[function] // count
    return numbers


def measure_all(valgrind, program):
    numbers = {}
    with ThreadPoolExecutor(max_workers=2) as pool:
        for found in pool.map(lambda scenario: measure(valgrind, program, scenario), SCENARIOS):
            for name, number in found.items():
                if numbers.setdefault(name, number) != number:
                    raise Fault(f"{name} takes {number} instructions in one scenario, {numbers[name]} in another")
    return numbers


def main():
    arguments = sys.argv[1:]
    update = arguments[:1] == ["--update"]
    if update:
        del arguments[0]
    if len(arguments) != 3:
        sys.exit(__doc__.splitlines()[0])
    compiler, counts_path, program = arguments[0], pathlib.Path(arguments[1]), arguments[2]
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("skipped: no valgrind here, which counts the instructions")
        sys.exit(77)
    counts = json.loads(counts_path.read_text(encoding="utf-8"))
    if not update and compiler not in counts:
        print(f"skipped: {counts_path.name} has no numbers for {compiler}, only for {', '.join(counts)}")
        sys.exit(77)
    try:
        numbers = measure_all(valgrind, program)
    except Fault as fault:
        sys.exit(str(fault))
    expected = counts.get(compiler, {})
    if update:
        counts[compiler] = numbers
        counts_path.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    failed = False
    for name in sorted(set(numbers) | set(expected)):
        is_now, was = numbers.get(name), expected.get(name)
        failed |= is_now != was
        print(f"{name}: {is_now}" + ("" if is_now == was else f", was {was}"))
    sys.exit(1 if failed and not update else 0)


if __name__ == "__main__":
    main()
