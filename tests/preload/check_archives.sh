#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_archives.sh LIBSHARDMM.A LIBSHARDMM-MALLOC.A
#
# A static library hides nothing: every global symbol of libshardmm.a, internal ones too, begins with
# shardmm_ or smm_, so that no program can collide with it. libshardmm-malloc.a has the overriding names of
# exports.txt besides, and who takes one of them takes all: a program whose linker took one from here and another
# from the C library would mix two allocators.

# shellcheck source=tests/preload/symbols.sh
. "$(dirname -- "$0")/symbols.sh"

api=$1 override=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

archived "$api" >"$work/api"
archived "$override" >"$work/override"
listed "$(dirname -- "$0")/exports.txt" >"$work/listed"
grep '^shardmm_' "$work/listed" >"$work/calls"
grep -v '^shardmm_' "$work/listed" >"$work/family"
for list in api override calls family; do
    expect_some "$work/$list"
done

# awk, because grep's status tells "nothing found" from "found", and here nothing is what we want.
expect_none "${api##*/} has global symbols without our prefix" \
    awk '!/^(shardmm|smm)_/' "$work/api"
expect_none "public calls missing in ${api##*/}" comm -13 "$work/api" "$work/calls"

# What C++ compilers put beside the code, weak, and the same in every program: the reference to the handler
# of exceptions, clang's call of std::terminate(), and without optimisation inline functions of the C++ library.
awk '!/^(shardmm|smm)_/ && !/^DW\.ref\./ && !/^__clang_call_terminate$/ && !/^_ZNK?St/' \
    "$work/override" >"$work/foreign"
expect_none "${override##*/} has global symbols that are neither ours nor listed" \
    comm -23 "$work/foreign" "$work/family"
expect_none "listed, missing in ${override##*/}" comm -13 "$work/foreign" "$work/family"
expect_none "public calls missing in ${override##*/}" comm -13 "$work/override" "$work/calls"

# operator new and delete may be the program's own, and are objects of their own.
grep -v '^_Z' "$work/family" >"$work/malloc_family"
while read -r name; do
    ld -r -u "$name" -o "$work/linked.o" "$override"
    nm -g --defined-only "$work/linked.o" | awk '{ print $3 }' | sort >"$work/linked"
    expect_none "a program that takes $name does not take from ${override##*/}" \
        comm -13 "$work/linked" "$work/malloc_family"
done <"$work/malloc_family"

finish
