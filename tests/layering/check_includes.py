#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_includes.py SOURCE_DIR - the floors of src/ know only the floors below them.

    base < platform < segment < small | medium | large < heap < control < entry < api

small, medium and large do not know each other either. System headers beyond the C standard's stand in platform/
and in api/override_* only; everything else asks platform/platform.h. The public headers count as C's own: they
name types and no code. Prints every include that breaks this, and fails when there is one.
"""

import pathlib
import re
import sys

FLOORS = [
    ("base",),
    ("platform",),
    ("segment",),
    ("small", "medium", "large"),
    ("heap",),
    ("control",),
    ("entry",),
    ("api",),
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}

C11_HEADERS = {
    "assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h", "inttypes.h", "iso646.h", "limits.h",
    "locale.h", "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h",
    "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h", "tgmath.h", "threads.h", "time.h",
    "uchar.h", "wchar.h", "wctype.h",
}
PUBLIC = re.compile(r"shardmm/[a-z_]+\.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]*)"|<([^>]*)>|(.*))', re.MULTILINE)
SUFFIXES = {".c", ".cc", ".h", ".inc"}


def fault_of_own(path, name, source):
    """What is wrong with #include "name" in src/path, or None."""
    floor = path.parts[0]
    target = pathlib.PurePosixPath(name)
    if not (source / target).is_file():
        return f'"{name}" is not a file of src/, named from there'
    if target.suffix != ".h":
        return f'"{name}" is not a header'
    other = target.parts[0]
    if other not in LEVEL:
        return f'"{name}" is on no floor'
    if other == floor or LEVEL[other] < LEVEL[floor]:
        return None
    side = "beside" if LEVEL[other] == LEVEL[floor] else "above"
    return f'"{name}" is {side} {floor}/'


def may_use_the_system(path):
    return path.parts[0] == "platform" or (path.parts[0] == "api" and path.name.startswith("override_"))


def fault_of_system(path, name):
    if PUBLIC.fullmatch(name):
        # Its types are what control/ and api/ give out. Below, nothing depends on the public interface.
        return None if LEVEL[path.parts[0]] >= LEVEL["control"] else f"<{name}> below control/"
    if name in C11_HEADERS or may_use_the_system(path):
        return None
    return f"<{name}> is no header of the C standard's"


def faults_of(path, text, source):
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        own, system, other = match.groups()
        if own is not None:
            fault = fault_of_own(path, own, source)
        elif system is not None:
            fault = fault_of_system(path, system)
        else:
            fault = f"what is included is not a name: {other}"
        if fault is not None:
            yield f"src/{path}:{line}: {fault}"


def self_test(source):
    """The rules themselves, on includes that are known to be right and wrong."""
    right = [
        ("heap/x.c", '#include "small/page.h"'),
        ("small/x.c", '#include "platform/report.h"\n#include <string.h>'),
        ("platform/x.c", "#include <sys/mman.h>"),
        ("api/override_x.c", "#include <malloc.h>"),
        ("control/x.h", "#include <shardmm/shardmm.h>"),
    ]
    wrong = [
        ("small/x.c", '#include "medium/tlsf.h"'),
        ("base/x.h", '#  include "platform/platform.h"'),
        ("small/x.c", '  #include "heap/heap.h"'),
        ("heap/x.c", '#include "heap.h"'),
        ("heap/x.c", '#include "heap/heap.c"'),
        ("heap/x.c", "#include <pthread.h>"),
        ("api/x.c", "#include <malloc.h>"),
        ("small/x.c", "#include <shardmm/shardmm.h>"),
        ("heap/x.c", "#include HEADER"),
    ]
    for path, text in right:
        for fault in faults_of(pathlib.PurePosixPath(path), text, source):
            sys.exit(f"the check refuses what is right: {fault}")
    for path, text in wrong:
        if not list(faults_of(pathlib.PurePosixPath(path), text, source)):
            sys.exit(f"the check does not see what is wrong in {path}: {text}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    source = pathlib.Path(sys.argv[1])
    self_test(source)
    faults, files = [], 0
    for file in sorted(source.rglob("*")):
        path = pathlib.PurePosixPath(file.relative_to(source).as_posix())
        if path.suffix not in SUFFIXES:
            continue
        files += 1
        if path.parts[0] not in LEVEL:
            faults.append(f"src/{path}: on no floor")
            continue
        faults += faults_of(path, file.read_text(encoding="utf-8"), source)
    for fault in faults:
        print(fault)
    print(f"{files} files, {len(faults)} faults")
    # An empty directory is a mistake of the caller's.
    sys.exit(1 if faults or files == 0 else 0)


if __name__ == "__main__":
    main()
