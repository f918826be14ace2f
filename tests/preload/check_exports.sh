#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_exports.sh LIBSHARDMM.SO [LIBRARY...]
#
# The library exports exactly what exports.txt lists, and no name of the malloc family or of operator new
# and delete that the other libraries (the C and the C++ library) define is missing from it: one forgotten
# would let two allocators meet.

# shellcheck source=tests/preload/symbols.sh
. "$(dirname -- "$0")/symbols.sh"

library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

exported "$library" >"$work/exported"
listed "$(dirname -- "$0")/exports.txt" >"$work/listed"
expect_some "$work/exported"
expect_some "$work/listed"
expect_none "exported, not listed in exports.txt" comm -23 "$work/exported" "$work/listed"
expect_none "listed in exports.txt, not exported" comm -13 "$work/exported" "$work/listed"

# The C library's family by name; what only its own parts may call (GLIBC_PRIVATE) is none of ours.
#
# Whatever sounds like it counts, unless not_ours.txt says what else it is: a call that a later C library brings
# fails here until somebody has looked at it.
family='alloc|free|memalign|^mall|_mall|^_Z(nw|na|dl|da)'
listed "$(dirname -- "$0")/not_ours.txt" >"$work/not_ours"
for other; do
    nm -D --defined-only "$other" | awk '$3 !~ /GLIBC_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' |
        grep -E "$family" | grep -vxFf "$work/not_ours" | grep -v '^_ZN' | sort -u >"$work/family"
    expect_some "$work/family"
    expect_none "defined by ${other##*/}, missing here" comm -23 "$work/family" "$work/exported"
done

finish
