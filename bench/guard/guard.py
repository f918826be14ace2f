#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""guard.py [--update] instructions MAKER | memory   FIGURES PROGRAM LIBRARY

Runs the scenarios of shardmm-bench at a small scale under the library and compares with the figures of the tree what
does not depend on the machine's speed. One that is outside its bounds fails, in either direction: what got better is
to be committed as well (--update writes the figures).

instructions   of the library's own code, by callgrind, in one thread: within 1 %. By MAKER, the compiler, with +nasm
               where the fast paths are in assembler. Exit status 77: no valgrind, or no figures of this maker.
memory         page faults of the work and peak memory of the process, and for idle-purge what is left after it;
               without huge pages, whose use depends on how fast they come. Threads that do not meet: faults within
               2 % and 16, memory within 3 % and 512 KiB. Threads that meet at random: the median of five runs
               within a factor of two.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"))
from count_instructions import parse_callgrind  # noqa: E402

# Scenarios of one thread, with a scale at which callgrind takes a second or two.
COUNTED = {
    "pairs": 0.01, "batches": 0.01, "cycle": 0.05, "strings": 0.01, "concat": 0.01, "arrays": 0.01, "objects": 0.02,
    "interfaces": 0.01, "pack": 0.01, "json": 0.05, "xml": 0.02, "maps": 0.05, "mixed": 0.01, "medium-8-16k": 0.01,
    "medium-16-256k": 0.01, "medium-64k-1m": 0.005,
}
SCALE = 0.05
SCALES = {"medium-8-16k": 0.02, "medium-16-256k": 0.02, "medium-64k-1m": 0.005, "cycle": 0.1, "grow": 0.25}
ONE_THREAD = ("grow", "medium-8-16k", "medium-16-256k", "medium-64k-1m")
MEETING = ("larson", "larson-waiting", "pool", "pool-waiting", "spawn", "threads", "pipeline")
MEETING_RUNS = 5


class Bound(NamedTuple):
    part: float
    amount: float

    def holds(self, was: float, now: float) -> bool:
        return abs(now - was) <= was * self.part + self.amount


INSTRUCTIONS = Bound(0.01, 0)
FAULTS = Bound(0.02, 16)
KIB = Bound(0.03, 512)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHARDMM_", "LD_"))}
    return {**kept, **more}


def preloaded(library: str) -> dict[str, str]:
    """Without huge pages: whether they come depends on how fast they do."""
    return environment(LD_PRELOAD=library, SHARDMM_HUGE_PAGES="never")


def run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode != 0 or "ld.so" in done.stderr:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def count_instructions(program: str, library: str, scenario: str) -> int:
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "callgrind.out"
        run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, "--only", scenario,
             "--scale", str(COUNTED[scenario])], preloaded(library))
        costs = parse_callgrind(out.read_text(encoding="utf-8"), pathlib.PurePath(library).name)
    total = sum(costs.values())
    if total == 0:
        sys.exit(f"{scenario}: callgrind saw no instruction of {library}")
    return total


def measure_instructions(program: str, library: str) -> dict[str, int]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(COUNTED, pool.map(lambda scenario: count_instructions(program, library, scenario), COUNTED)))


def measure_memory(program: str, library: str) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for line in run([program, "--list"], environment()).splitlines():
        scenario = line.split()[0]
        for threads in (1, 4):
            if (threads == 4 and scenario in ONE_THREAD) or (threads == 1 and scenario == "pipeline"):
                continue
            command = [program, "--only", scenario, "--threads", str(threads),
                       "--scale", str(SCALES.get(scenario, SCALE)), "--json"]
            runs: list[dict[str, Any]] = [
                json.loads(run(command, preloaded(library)))
                for _ in range(MEETING_RUNS if scenario in MEETING else 1)]
            # The C library's malloc must lead to the same data.
            runs_of_libc = [] if scenario.startswith("idle") else [json.loads(run(command, environment()))]
            if len({each["checksum"] for each in runs + runs_of_libc}) > 1:
                sys.exit(f"{scenario} x{threads}: the checksums differ")
            keys = ["faults", "peak_kib"] + (["left_kib"] if scenario == "idle-purge" else [])
            figures[f"{scenario} x{threads}"] = {key: statistics.median(each[key] for each in runs) for key in keys}
    return figures


def within(name: str, key: str, was: float, now: float) -> bool:
    if name.split()[0] in MEETING:
        return was / 2 <= now <= 2 * was
    return (FAULTS if key == "faults" else KIB).holds(was, now)


def report(name: str, was: float | None, now: float | None, good: bool) -> bool:
    change = f", was {was:.0f} ({100 * (now / was - 1):+.1f} %)" if was and now is not None and was != now else ""
    shown = "gone" if now is None else f"{now:.0f}"
    print(f"{name}: {shown}{', new' if was is None else change}{'' if good else '   <- out of bounds'}")
    return good


def main() -> int:
    arguments = sys.argv[1:]
    update = arguments[:1] == ["--update"]
    if update:
        del arguments[0]
    kind = arguments.pop(0) if arguments else ""
    maker = arguments.pop(0) if kind == "instructions" and arguments else ""
    if kind not in ("instructions", "memory") or len(arguments) != 3:
        sys.exit((__doc__ or "").splitlines()[0])
    path = pathlib.Path(arguments[0])
    # Meson names them relative to where the test runs, which the dynamic linker would look up elsewhere.
    program, library = (str(pathlib.Path(name).resolve()) for name in arguments[1:])
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    good = True
    if kind == "instructions":
        if shutil.which("valgrind") is None:
            print("skipped: no valgrind here, which counts the instructions")
            return 77
        was = figures.setdefault(kind, {}).get(maker, {})
        if not was and not update:
            print(f"skipped: {path.name} has no figures of {maker}, only of {', '.join(figures[kind])}")
            return 77
        counts = figures[kind][maker] = measure_instructions(program, library)
        for name in sorted({*was, *counts}):
            old, new = was.get(name), counts.get(name)
            good &= report(name, old, new,
                           update or (old is not None and new is not None and INSTRUCTIONS.holds(old, new)))
    else:
        was = figures.get(kind, {})
        found = figures[kind] = measure_memory(program, library)
        for name in sorted({*was, *found}):
            for key in sorted({*was.get(name, {}), *found.get(name, {})}):
                old, new = was.get(name, {}).get(key), found.get(name, {}).get(key)
                good &= report(f"{name} {key}", old, new,
                               update or (old is not None and new is not None and within(name, key, old, new)))
    if update:
        path.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
