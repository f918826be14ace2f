#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# A compiler compiling, archiving and linking a generated C and C++ program: the objects and the program
# must be the same bytes. The compilers are named by CASE_CC and CASE_CXX.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs "$CASE_CC" "$CASE_CXX" ar "$PYTHON"
    "$PYTHON" "$case_directory/generate_sources.py" .
}

run() {
    local source
    # The two at once, as make -j2 would.
    "$CASE_CC" -std=gnu11 -O2 -g -c ../tables.c -o tables.o &
    local c_compiler=$!
    "$CASE_CXX" -std=c++17 -O1 -g -c ../templates.cc -o templates.o
    wait "$c_compiler"
    ar rcD libtables.a tables.o
    "$CASE_CXX" templates.o libtables.a -o program
    for source in tables.o templates.o libtables.a program; do
        sha256sum "$source"
    done
    # A compiler that failed by a hair would be seen in what its program computes.
    ./program
    # An error path: messages are output too.
    if "$CASE_CC" -c ../broken.c -o broken.o 2>broken.txt; then
        printf 'broken.c was accepted\n'
    fi
    cat broken.txt
}

main "$@"
