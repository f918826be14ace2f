#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants bugs in a copy of the C sources, one at a time, and lets the property tests find them.

    rust-tests/mutants.py             all; fails when one is not found, or does not apply any more
    rust-tests/mutants.py NAME...     these             rust-tests/mutants.py --list    their names

Each bug is a text that stands in a file once, and what is put in its place: the sources themselves have no switches.
The tests run one after another, with their normal number of cases, until one fails. The sources without a bug must pass
the same way first. At the end stands a table: which test, after how many cases.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TARGET = os.path.join(HERE, "target", "mutants")
LIMIT_SECONDS = 300

TESTS = ["short_sequences_hold_from_the_start", "large_blocks_are_whole", "every_block_is_whole_in_one_thread",
         "blocks_go_from_thread_to_thread_by_turns", "threads_work_at_once"]

# name: file, what stands there, what is put in its place
BUGS = {
    "class-off-by-one": (
        "src/base/size_class.h",
        "smm_class_table[(size + SMM_BLOCK_ALIGN - 1) >> SMM_BLOCK_SHIFT]",
        "smm_class_table[size >> SMM_BLOCK_SHIFT]"),
    "realloc-copies-too-little": (
        "src/entry/realloc.c",
        "memcpy(to, block, before < size ? before : size);",
        "memcpy(to, block, (before < size ? before : size) - 1);"),
    "merge-forgets-neighbour": (
        "src/medium/medium.c",
        "        if (chunk_flags(next) & SMM_CHUNK_FREE)\n            size += free_remove(medium, arena, next);\n    }\n"
        "    if (chunk->prev_size != 0) {",
        "        if (chunk_flags(next) & SMM_CHUNK_FREE)\n            (void)free_remove(medium, arena, next);\n    }\n"
        "    if (chunk->prev_size != 0) {"),
    "foreign-count-not-subtracted": (
        "src/small/small.c",
        "page_set_used(page, smm_load_relaxed(&page->used) - (int32_t)count);",
        "page_set_used(page, smm_load_relaxed(&page->used));"),
    "calloc-trusts-dirty-page": (
        "src/small/page.c",
        "page->free_is_zero = page->fresh;",
        "page->free_is_zero = true;"),
    "calloc-trusts-dirty-block": (
        "src/entry/slow.c",
        "memset(block, 0, dirty < zero_bytes ? dirty : zero_bytes);",
        "memset(block, 0, (dirty < zero_bytes ? dirty : zero_bytes) / 2);"),
    "alignment-lost-in-realloc": (
        "src/entry/realloc.c",
        "        to = smm_malloc(size + extra);",
        "        to = (char *)smm_malloc(size + extra) + 8;"),
    "alignment-of-class-ignored": (
        "src/base/size_class.c",
        "(smm_class_size(size_class) & (alignment - 1)) != 0)",
        "(smm_class_size(size_class) & (alignment / 2 - 1)) != 0)"),
    "cache-returns-too-small": (
        "src/large/large_cache.c",
        "if (cached[i]->reserved < need)",
        "if (cached[i]->reserved < need / 2)"),
}


def tree_with(bug, into):
    """A copy of what the crate compiles, in which `bug` is planted."""
    for part in ("src", "asm", "include"):
        shutil.rmtree(os.path.join(into, part), ignore_errors=True)
        shutil.copytree(os.path.join(ROOT, part), os.path.join(into, part))
    shutil.copy(os.path.join(ROOT, "meson.build"), into)
    if bug is not None:
        name, old, new = BUGS[bug]
        path = os.path.join(into, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if text.count(old) != 1:
            sys.exit(f"mutants: {bug} does not apply: {name} has {text.count(old)} times: {old}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))


def environment(source):
    # In C, where the bugs are, and with nothing between the bug and the test that finds it.
    return dict(os.environ, LIBSHARDMM_SOURCE=source, LIBSHARDMM_ASM="0", MODEL_PLANTED_BUG="1", RUST_BACKTRACE="0")


def cargo(source, arguments):
    command = ["cargo", "test", "--locked", "--quiet", "-p", "model", "--test", "properties", "--target-dir", TARGET]
    process = subprocess.Popen(command + arguments, cwd=HERE, env=environment(source), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nno end after {LIMIT_SECONDS} seconds"
    return process.returncode, output


def running_case():
    """The case that ended the process: it is saved before it runs."""
    folder = os.path.join(TARGET, "tmp")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".running"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found = re.match(r"# .*, case (\d+)", file.readline())
            if found:
                return int(found.group(1))
    return None


def forget_runs():
    folder = os.path.join(TARGET, "tmp")
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        os.remove(os.path.join(folder, name))


def find(source):
    """The first test that fails, its case and what it says; None when all pass."""
    status, output = cargo(source, ["--no-run"])
    if status != 0:
        sys.exit(f"mutants: it does not compile\n{output}")
    for test in TESTS:
        forget_runs()
        status, output = cargo(source, ["--", "--exact", test])
        if status == 0:
            if "1 passed" not in output:
                sys.exit(f"mutants: no test {test}\n{output}")
            continue
        found = re.search(r"Test failed: (.*?) \(found in case (\d+)", output, re.DOTALL)
        if found:
            return test, int(found.group(2)), found.group(1)
        said = re.findall(r"^shardmm: .*|signal: \d+, \w+", output, re.MULTILINE)
        return test, running_case(), said[0] if said else output.strip().splitlines()[-1]
    return None


def main():
    names = sys.argv[1:] or list(BUGS)
    if names == ["--list"]:
        print("\n".join(BUGS))
        return 0
    for name in names:
        if name not in BUGS:
            sys.exit(f"mutants: no bug {name}; --list names them")
    rows = []
    survived = 0
    with tempfile.TemporaryDirectory() as source:
        for bug in [None] + names:
            started = time.monotonic()
            tree_with(bug, source)
            found = find(source)
            seconds = time.monotonic() - started
            if bug is None:
                if found is not None:
                    sys.exit(f"mutants: the sources as they are fail {found[0]}: {found[2]}")
                print(f"the sources as they are pass ({seconds:.0f} s)", flush=True)
                continue
            if found is None:
                survived += 1
                found = ("SURVIVED", "", "")
            rows.append((bug, found[0], str(found[1]), found[2][:70]))
            print(f"{bug}: {found[0]}, case {found[1]} ({seconds:.0f} s): {found[2]}", flush=True)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[3])
    print(f"{len(rows) - survived} passed, {survived} failed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
