# SPDX-License-Identifier: MIT
"""Run one case of misuse: exactly the line that it announces on standard error, then SIGABRT.

usage: run_case.py program case
"""
import signal
import subprocess
import sys

program, case = sys.argv[1:]
about = subprocess.run([program, case, "about"], check=True, capture_output=True, text=True, timeout=30)
line = about.stdout.rstrip("\n").split(" ", 1)[1]
run = subprocess.run([program, case], capture_output=True, text=True, timeout=30, check=False)
expected = line.replace("@", run.stdout.strip()) + "\n"
if run.returncode != -signal.SIGABRT or run.stderr != expected:
    sys.exit(f"status {run.returncode}, not {-signal.SIGABRT}, or another line\n"
             f"expected: {expected!r}\nreported: {run.stderr!r}")
print(run.stderr, end="")
