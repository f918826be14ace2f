#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_elf.sh LIBSHARDMM.SO
#
# What the dynamic linker sees: a stack that is not executable, nothing of the C++ library needed, no text
# relocations, a TLS block of two pointers at most (a library that is loaded late gets little of it), and no
# unloading, since a thread's exit calls into it.

set -euo pipefail
export LC_ALL=C

library=$1
headers=$(readelf -lW "$library")
dynamic=$(readelf -dW "$library")
failures=0

fail() {
    printf '%s\n' "$*"
    failures=$((failures + 1))
}

# Type Offset VirtAddr PhysAddr FileSiz MemSiz Flg Align; the flags are one to three words.
stack_flags=$(awk '$1 == "GNU_STACK" { for (i = 7; i < NF; i++) printf "%s", $i }' <<<"$headers")
case $stack_flags in
RW) ;;
'') fail "no GNU_STACK header: the stack would be executable" ;;
*) fail "the stack has the rights $stack_flags" ;;
esac

writable_code=$(awk '$1 == "LOAD" { flags = ""; for (i = 7; i < NF; i++) flags = flags $i
                                    if (flags ~ /W/ && flags ~ /E/) print }' <<<"$headers")
[ -z "$writable_code" ] || fail "memory both writable and executable: $writable_code"

tls_bytes=$(($(awk '$1 == "TLS" { print $6 }' <<<"$headers")))
[ "$tls_bytes" -le 16 ] || fail "the TLS block has $tls_bytes bytes"

while read -r needed; do
    case $needed in
    libc.so.6 | ld-linux-x86-64.so.2 | libpthread.so.0 | libatomic.so.1) ;;
    *) fail "needs $needed" ;;
    esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' <<<"$dynamic")

case $dynamic in
*TEXTREL*) fail "has text relocations" ;;
esac
case $dynamic in
*NODELETE*) ;;
*) fail "may be unloaded: not linked with -z nodelete" ;;
esac
case $dynamic in
*'(SONAME)'*) ;;
*) fail "has no SONAME" ;;
esac

[ "$failures" -eq 0 ]
