#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run_mutants.py - breaks the library in each way that a table here lists, and demands that the tests see it.

    tests/mutants/run_mutants.py              all; a line for each, then "N killed, N survived, N broken"
    tests/mutants/run_mutants.py --list       their names, what is broken, and the tests that must see it
    tests/mutants/run_mutants.py --only NAME... [--repeat 5]

A mutant is an entry of a *.mutants file beside this script (README.md there tells the form): old text and new text
of files of src/. The old text must stand in the file exactly once, so that a mutant that no longer fits is a failure
and not one less. The tree is copied to a temporary directory, once for each job; there one mutant after another is
put in, the program that its entry names is built and run, and the test that it names must fail: by a check, a crash,
a report of the thread sanitizer, or by not coming to an end. Before that all programs must pass without a mutant.

Builds: `points` has the test points; `tsan` the thread sanitizer and the test points, for orders of memory, which
this processor would forgive. Exit status 0 when every mutant was killed by the test that its entry names.
"""

import argparse
import os
import pathlib
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTOCOLS = ROOT / "docs" / "protocols.md"

COMMON = ["-Doverride=false", "-Dtests=enabled", "-Dtest_points=true", "-Ddebug=true", "-Doptimization=1"]
BUILDS = {
    "points": COMMON,
    "tsan": COMMON + ["-Db_sanitize=thread", "-Db_lundef=false"],
}
# Seconds for one run of a program, and for one test in it; the slowest ones take a tenth of it on an idle machine.
LIMIT = {"points": 40, "tsan": 90}
HANG = {"points": 10, "tsan": 25}
BUILD_LIMIT = 300
OUTPUT_LIMIT = 4 << 20
HEADER = re.compile(r"(mutant|why|killer|file): (.*)")


class Fault(Exception):
    """Something is wrong with a table, a build or the tree: not with a test."""


class Mutant:
    def __init__(self, name, table, line):
        self.name, self.table, self.line = name, table, line
        self.why = ""
        self.build = self.program = self.test = ""
        self.edits = []  # (file, old, new)

    def fault(self, text):
        return Fault(f"{self.table}:{self.line}: {self.name}: {text}")


# ---- The tables ---------------------------------------------------------------------------------------


def read_table(path):
    mutants, mutant, target, mode, old, new = [], None, None, None, [], []

    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.name}:{number}"
        if mode == "old":
            if line == "+++":
                mode = "new"
            else:
                old.append(line)
        elif mode == "new":
            if line == "===":
                mutant.edits.append((target, "\n".join(old), "\n".join(new)))
                mode, old, new = None, [], []
            else:
                new.append(line)
        elif line == "---":
            if mutant is None or target is None:
                raise Fault(f"{where}: no mutant or no file is named yet")
            mode = "old"
        elif line and not line.startswith("#"):
            match = HEADER.fullmatch(line)
            if match is None:
                raise Fault(f"{where}: neither a field nor an edit")
            key, value = match.groups()
            if key == "mutant":
                mutant = Mutant(value, path.name, number)
                mutants.append(mutant)
                target = None
            elif mutant is None:
                raise Fault(f"{where}: no mutant is named yet")
            elif key == "why":
                mutant.why = value
            elif key == "file":
                target = value
            else:
                words = value.split()
                if len(words) != 3 or words[0] not in BUILDS:
                    raise mutant.fault("killer: BUILD PROGRAM TEST")
                mutant.build, mutant.program, mutant.test = words
    if mode is not None:
        raise Fault(f"{path.name}: the last edit has no end")
    return mutants


def read_tables():
    mutants = [mutant for path in sorted(HERE.glob("*.mutants")) for mutant in read_table(path)]
    names = set()

    for mutant in mutants:
        if mutant.name in names:
            raise mutant.fault("the name is there twice")
        names.add(mutant.name)
        if not (mutant.why and mutant.build and mutant.edits):
            raise mutant.fault("needs why, killer and an edit")
        for file, old, _ in mutant.edits:
            count = (ROOT / file).read_text().count(old)
            if count != 1:
                raise mutant.fault(f"the old text stands in {file} {count} times")
    return mutants


def check_protocols(mutants):
    """Every mutant and the test that kills it stand side by side in docs/protocols.md."""
    lines = PROTOCOLS.read_text().splitlines()
    missing = [mutant.name for mutant in mutants
               if not any(f"`{mutant.name}`" in line and f"`{mutant.test}`" in line for line in lines)]
    named = set(re.findall(r"^\| `([a-z0-9-]+)` \|", "\n".join(lines), re.MULTILINE))
    gone = sorted(named - {mutant.name for mutant in mutants})
    if missing or gone:
        raise Fault(f"docs/protocols.md: without its line: {missing or 'none'}; lines of no mutant: {gone or 'none'}")


# ---- Programs that are run ------------------------------------------------------------------------------


def limit_output():
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))


def tests_seen(output, status):
    """The tests that failed, and the one in which the program ended or hung."""
    failed = set(re.findall(r"^\[  (?:FAILED |ERROR  ) \] ([A-Za-z_]\w*)$", output, re.MULTILINE))
    begun = re.findall(r"^\[ RUN      \] (\w+)", output, re.MULTILINE)
    ended = set(re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] (\w+)", output, re.MULTILINE))
    if status != 0:
        failed.update(name for name in begun[-1:] if name not in ended)
    # A report of the sanitizer belongs to the test that was begun last before it. Other programs print no tests.
    for report in re.finditer(r"WARNING: ThreadSanitizer", output):
        before = re.findall(r"^\[ RUN      \] (\w+)", output[:report.start()], re.MULTILINE)
        failed.update(before[-1:] or ["before_the_first"])
    return failed


def run(command, limit, test=None, hang=0, **options):
    """Output and status; None as status when it was ended: the time was up, or the test has failed or hangs."""
    # A broken test may print without an end: into a file that may not grow for ever.
    with tempfile.TemporaryFile() as output, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=limit_output if test else None, **options) as process:
        started = time.monotonic()
        entered = None
        status = None
        while status is None and time.monotonic() - started < limit:
            try:
                status = process.wait(0.1 if test else limit)
            except subprocess.TimeoutExpired:
                if not test:
                    break
                text = os.pread(output.fileno(), OUTPUT_LIMIT, 0).decode(errors="replace")
                if test in tests_seen(text, 0):
                    break
                if test not in tests_seen(text, 1):
                    entered = None
                elif entered is None:
                    entered = time.monotonic()
                elif time.monotonic() - entered > hang:
                    break
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        return output.read().decode(errors="replace"), status


def how(output, status, test):
    """How the test saw the mutant."""
    if re.search(rf"^\[  (?:FAILED |ERROR  ) \] {test}$", output, re.MULTILINE):
        return "check"
    if "WARNING: ThreadSanitizer" in output:
        return "report"
    return "hang" if status is None else "crash"


class Job:
    """A copy of the tree with its builds."""

    def __init__(self, directory):
        self.tree = directory / "tree"
        self.builds = {}
        self.clean = set()  # programs that were seen to pass
        self.originals = {}  # file: its text without a mutant
        self.edited = []  # files with the mutant of now
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=shutil.ignore_patterns(
            ".git", "build*", "__pycache__"))

    def build(self, kind, program):
        directory = self.builds.get(kind)
        if directory is None:
            directory = self.tree.parent / kind
            output, status = run(["meson", "setup", *BUILDS[kind], str(directory), str(self.tree)], BUILD_LIMIT)
            if status != 0:
                raise Fault(f"meson setup: status {status}\n{output}")
            self.builds[kind] = directory
        where = "api" if program.startswith("api_") else "unit"
        target = f"tests/{where}/{program}"
        output, status = run(["ninja", "-C", str(directory), "-j2", target], BUILD_LIMIT)
        if status != 0:
            raise Fault(f"does not build:\n{output}")
        return directory / target

    def put(self, edits):
        """Puts the edits in and takes those of the mutant before out."""
        texts = {file: self.originals[file] for file in self.edited}
        for file, old, new in edits:
            if file not in self.originals:
                self.originals[file] = (self.tree / file).read_text()
            texts[file] = texts.get(file, self.originals[file]).replace(old, new)
        for file, text in texts.items():
            if (self.tree / file).read_text() != text:
                (self.tree / file).write_text(text)
        self.edited = [file for file, _, _ in edits]

    def try_program(self, kind, path, test):
        environment = dict(os.environ, TSAN_OPTIONS="halt_on_error=0 exitcode=66", CMOCKA_MESSAGE_OUTPUT="STDOUT")
        environment.pop("SMM_TEST_SEED", None)
        return run([str(path)], LIMIT[kind], test, HANG[kind], env=environment, cwd=path.parent)

    def check_clean(self, kind, program):
        if (kind, program) in self.clean:
            return
        self.put([])
        output, status = self.try_program(kind, self.build(kind, program), "none")
        if status != 0 or tests_seen(output, status):
            raise Fault(f"{program} fails without a mutant in the build {kind}, status {status}\n{output}")
        self.clean.add((kind, program))

    def try_mutant(self, mutant, repeat):
        """What became of it, and whether that is good."""
        self.check_clean(mutant.build, mutant.program)
        self.put(mutant.edits)
        try:
            path = self.build(mutant.build, mutant.program)
        except Fault as fault:
            return "broken", str(fault)
        by = set()
        for number in range(repeat):
            output, status = self.try_program(mutant.build, path, mutant.test)
            seen = tests_seen(output, status)
            if status == 0:
                return "survived", f"{mutant.program} passes" + (f", run {number + 1}" if repeat > 1 else "")
            if mutant.test not in seen:
                return "survived", (f"{mutant.test} does not see it, run {number + 1}; seen by "
                                    f"{', '.join(sorted(seen)) or 'no test'}, status {status}")
            by.add(how(output, status, mutant.test))
        return "killed", f"{mutant.program}: {mutant.test} ({', '.join(sorted(by))})"


# ---- All of them ----------------------------------------------------------------------------------------


def work(directory, todo, repeat, results):
    try:
        job = Job(directory)
    except (OSError, shutil.Error) as error:
        results.put((None, "broken", str(error), 0))
        return
    while True:
        try:
            mutant = todo.get_nowait()
        except queue.Empty:
            return
        started = time.monotonic()
        try:
            verdict, text = job.try_mutant(mutant, repeat)
        except Exception as fault:  # pylint: disable=broad-except
            # Whatever it is, the others go on, and this one counts as not killed.
            verdict, text = "broken", str(fault) or repr(fault)
        results.put((mutant, verdict, text, time.monotonic() - started))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the mutants and the tests that must kill them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (%(default)s)")
    parser.add_argument("--repeat", type=int, default=1, help="how often each must be killed (%(default)s)")
    arguments = parser.parse_args()

    try:
        mutants = read_tables()
        check_protocols(mutants)
    except (Fault, OSError) as fault:
        sys.exit(f"run_mutants.py: {fault}")
    if arguments.only:
        unknown = set(arguments.only) - {mutant.name for mutant in mutants}
        if unknown:
            sys.exit(f"run_mutants.py: no such mutant: {', '.join(sorted(unknown))}")
        mutants = [mutant for mutant in mutants if mutant.name in arguments.only]
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:44} {mutant.build:6} {mutant.program}: {mutant.test}\n    {mutant.why}")
        return
    # What is built together is tried together: a changed header costs a build of nearly everything.
    mutants.sort(key=lambda mutant: (mutant.build, mutant.program, mutant.edits[0][0]))
    todo, results = queue.Queue(), queue.Queue()
    jobs = max(1, min(arguments.jobs, len(mutants)))
    for mutant in mutants:
        todo.put(mutant)
    started = time.monotonic()
    counts = {"killed": 0, "survived": 0, "broken": 0}
    bad = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        threads = [threading.Thread(target=work, daemon=True, args=(
            pathlib.Path(scratch) / str(number), todo, arguments.repeat, results)) for number in range(jobs)]
        for thread in threads:
            thread.start()
        for _ in mutants:
            mutant, verdict, text, seconds = results.get()
            if mutant is None:
                sys.exit(f"run_mutants.py: {text}")
            counts[verdict] += 1
            print(f"{verdict:8} | {mutant.name:44} | {text} | {seconds:.1f} s", flush=True)
            if verdict != "killed":
                bad.append(f"{verdict}: {mutant.name}: {text.splitlines()[0]}")
        for thread in threads:
            thread.join()
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"{counts['killed']} killed, {counts['survived']} survived, {counts['broken']} broken"
          f" ({time.monotonic() - started:.0f} s)")
    sys.exit(0 if counts["killed"] == len(mutants) else 1)


if __name__ == "__main__":
    main()
