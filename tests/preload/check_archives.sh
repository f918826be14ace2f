#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_archives.sh LIBSHARDMM.A LIBSHARDMM-MALLOC.A
#
# A static library hides nothing: every global symbol of libshardmm.a, internal ones too, begins with
# shardmm_ or smm_, so that no program can collide with it. libshardmm-malloc.a has the overriding names of
# exports.txt besides, all of them in one object: a program whose linker took one of them from here
# and another from the C library would mix two allocators.

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

# `nm -A` names the object before each symbol: "archive:object:value type name".
nm -A -g --defined-only "$override" | awk 'NF == 3 { split($1, part, ":"); print part[2], $3 }' >"$work/members"
awk 'NR == FNR { family[$1]; next } $2 in family && $2 !~ /^_Z/ { print $1 }' "$work/family" "$work/members" |
    sort -u >"$work/homes"
if [ "$(wc -l <"$work/homes")" -ne 1 ]; then
    printf 'the malloc family of %s is not in one object:\n' "${override##*/}"
    cat "$work/homes"
    failures=$((failures + 1))
fi

finish
