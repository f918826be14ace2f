#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs one case of this directory with and without the library; fails when they differ.

Prints time, user and system time, page faults and peak RSS of both. With --repeat the runs alternate
and the medians are printed. Where PROGRAMS_TABLE names a file, a row for a table of all cases is added to it.
README.md tells what a case is.
"""

import argparse
import ctypes
import difflib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
LIMIT_SECONDS = 100

# Some programs are linked with another malloc (Debian's redis-server with jemalloc). The C library put
# before it is what such a program is compared with; for all others this changes nothing.
BASELINE_PRELOAD = "libc.so.6"


class Run:
    """What one run printed, how it ended, and what it took."""

    def __init__(self, output, errors, status, wall, usage):
        self.output = output
        self.errors = errors
        self.status = status
        # Of the script and everything it started and waited for; peak RSS is that of the largest
        # process. It cannot fall below this driver's own, from which the script was forked.
        self.figures = {
            "time s": wall,
            "user s": usage.ru_utime,
            "system s": usage.ru_stime,
            "page faults": usage.ru_minflt + usage.ru_majflt,
            "peak RSS KiB": usage.ru_maxrss,
        }


PR_SET_CHILD_SUBREAPER = 36


def adopt():
    """Processes whose parent ends become children of this one, whatever session they have made."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("prctl: the processes of a case could get lost")


def children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(number) for number in file.read().split()]


def kill_children():
    """And then theirs, which become this one's; somebody else waits for them."""
    for _ in range(20):
        for child in children():
            os.kill(child, signal.SIGKILL)
        time.sleep(0.1)


def end_children():
    """Ends what a case has left; returns their names."""
    names = []
    while left := children():
        for child in left:
            with open(f"/proc/{child}/comm", encoding="utf-8") as file:
                names.append(file.read().strip())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return names


def terminated(*_):
    end_children()
    sys.exit(1)


def interpreter(case):
    return [sys.executable] if case.endswith(".py") else ["bash"]


def run_case(case, arguments, directory, library):
    """Runs the verb `run`, with `library` preloaded, or with the C library's malloc when it is None."""
    environment = case_environment()
    environment["LD_PRELOAD"] = library or BASELINE_PRELOAD
    # Read by common.sh, which fails when the wrong one is in the process.
    environment["EXPECTED_LIBRARY"] = library or ""
    started = time.monotonic()
    process = subprocess.Popen(
        interpreter(case) + [case, "run"] + arguments,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # A program that hangs must not outlive the test.
    alarm = threading.Timer(LIMIT_SECONDS, kill_children)
    alarm.start()
    streams = {}
    reader = threading.Thread(target=lambda: streams.update(errors=process.stderr.read()))
    reader.start()
    output = process.stdout.read()
    reader.join()
    _, wait_status, usage = os.wait4(process.pid, 0)
    alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(wait_status)
    left = end_children()
    if left:
        streams["errors"] += f"left running: {' '.join(left)}\n".encode()
        process.returncode = process.returncode or 1
    return Run(output, streams["errors"], process.returncode, time.monotonic() - started, usage)


def case_environment():
    """The same bytes for both runs: no locale, no configuration of the user, no options of the library."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHARDMM_", "GIT_", "PYTHON", "LC_", "MALLOC_")) and name != "LD_PRELOAD"
    }
    kept.update(LC_ALL="C.UTF-8", TZ="UTC", PYTHON=sys.executable)
    return kept


def differ(one, one_name, other, other_name):
    """Says whether two runs differ in status, output or errors, and shows how."""
    same = True
    if one.status != other.status:
        print(f"exit status: {one.status} {one_name}, {other.status} {other_name}")
        same = False
    for title in ("output", "errors"):
        texts = [getattr(run, title).decode(errors="replace").splitlines() for run in (one, other)]
        if getattr(one, title) != getattr(other, title):
            print(f"{title} differ:")
            lines = list(difflib.unified_diff(*texts, one_name, other_name, lineterm=""))
            print("\n".join(lines[:60]))
            same = False
    return not same


def show(run):
    print(f"exit status {run.status}, output and errors:")
    print((run.output + run.errors).decode(errors="replace"))


def table(without, with_library):
    print(f"{'':14}{'without':>12}{'with':>12}{'ratio':>8}")
    for name in without[0].figures:
        base = statistics.median(run.figures[name] for run in without)
        ours = statistics.median(run.figures[name] for run in with_library)
        form = ".2f" if isinstance(without[0].figures[name], float) else ".0f"
        ratio = f"{ours / base:8.2f}" if base else f"{'-':>8}"
        print(f"{name:14}{format(base, form):>12}{format(ours, form):>12}{ratio}")


def add_row(path, case, without, with_library):
    """One line of the table of all cases: time and peak memory of both, and their ratios."""
    fields = [f"{os.path.splitext(os.path.basename(case))[0]:14}"]
    for name, scale, form in (("time s", 1, ".2f"), ("peak RSS KiB", 1024, ".1f")):
        base, ours = (statistics.median(run.figures[name] for run in runs) for runs in (without, with_library))
        fields.append(f"{base / scale:10{form}}{ours / scale:10{form}}{ours / base:8.2f}")
    with open(path, "a", encoding="utf-8") as file:
        if file.tell() == 0:
            print(f"{'':14}{'time s':>10}{'with':>10}{'ratio':>8}{'peak MiB':>10}{'with':>10}{'ratio':>8}", file=file)
        print("".join(fields), file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", dest="preloaded", metavar="LIBRARY", required=True, help="libshardmm.so")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each kind")
    parser.add_argument("case", help="the script")
    parser.add_argument("arguments", nargs="*", help="passed on to the script")
    options = parser.parse_args()
    case = os.path.realpath(options.case)
    library = os.path.realpath(options.preloaded)
    arguments = [os.path.realpath(argument) for argument in options.arguments]
    if not os.path.exists(library):
        sys.exit(f"no such library: {library}")

    adopt()
    # Meson's, when the time is up.
    signal.signal(signal.SIGTERM, terminated)
    with tempfile.TemporaryDirectory(prefix="smm-program-") as top:
        prepared = subprocess.run(
            interpreter(case) + [case, "prepare"] + arguments,
            cwd=top,
            env=case_environment(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if prepared.returncode != 0:
            return prepared.returncode

        runs = {None: [], library: []}
        for _ in range(options.repeat):
            for which, done in runs.items():
                # The same name each time (compilers write it into objects), nothing left by another run.
                directory = os.path.join(top, "run")
                os.mkdir(directory)
                done.append(run_case(case, arguments, directory, which))
                shutil.rmtree(directory)

        without, with_library = runs[None], runs[library]
        first = without[0]
        if first.status != 0 or not first.output:
            show(first)
            print("the case fails without the library, or prints nothing: it tests nothing")
            return 1
        if any(differ(first, "without", run, "without, again") for run in without[1:]):
            print("the case differs from run to run without the library: it cannot be compared")
            return 1
        if any(differ(first, "without", run, "with the library") for run in with_library):
            return 1
        table(without, with_library)
        if os.environ.get("PROGRAMS_TABLE"):
            add_row(os.environ["PROGRAMS_TABLE"], case, without, with_library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
