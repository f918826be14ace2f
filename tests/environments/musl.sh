#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# musl.sh SOURCE_DIRECTORY FILE...
#
# Builds the library's C files with musl-gcc, and runs programs with them in each way: static, static PIE, linked
# into a dynamic program, preloaded, and loaded late. (The C++ forms are left out: there is no C++ library for musl
# in the distribution.)
# Holds off: headers and behaviour of one C library taken for granted, and static programs in which two mallocs meet.
set -euo pipefail

skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

command -v musl-gcc >/dev/null || skip 'musl-gcc is not installed'

source_directory=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tests=$source_directory/tests
flags=(-std=gnu11 -O1 -mcx16 -fno-builtin -fvisibility=hidden -D_GNU_SOURCE -Wall -Wextra -Werror
    -DSMM_CHECKS=1 -DSMM_TEST_POINTS=0 -DSMM_HAVE_MALLINFO2=0 -I"$source_directory/include" -I"$source_directory/src")

# build DIRECTORY FLAG...   All files, two at a time.
# shellcheck disable=SC2016
build() {
    local directory=$work/$1 file
    shift
    mkdir -p "$directory"
    for file in "${files[@]}"; do
        printf '%s\0%s\0' "$file" "$directory/$(basename "$(dirname "$file")")_$(basename "$file" .c).o"
    done | xargs -0 -n 2 -P 2 bash -c 'musl-gcc "${@:1:$#-2}" -c "${@: -2:1}" -o "${@: -1}"' musl-gcc "${flags[@]}" "$@"
}

files=("$@")
build objects -fPIC -DSMM_TLS_DYNAMIC=0 -DSMM_TLS_MODEL='"initial-exec"'
build late -fPIC -DSMM_TLS_DYNAMIC=1 -DSMM_TLS_MODEL='"local-dynamic"'
ar rcs "$work/libshardmm-malloc.a" "$work"/objects/*.o
musl-gcc -shared -Wl,--version-script="$source_directory/src/api/shardmm.map" "$work"/objects/*.o -o "$work/libshardmm.so"
musl-gcc -shared -Wl,--version-script="$source_directory/src/api/shardmm.map" "$work"/late/*.o -o "$work/libshardmm_late.so"

program() {
    local name=$1
    shift
    musl-gcc "${flags[@]}" "$@" -o "$work/$name" -pthread
}

linked=(-DLINKED_STATICALLY)
for source in "$tests/environments/everything.c" "$tests/preload/threads.c"; do
    program static -static "${linked[@]}" "$source" "$work/libshardmm-malloc.a"
    program static_pie -static-pie -fPIE "${linked[@]}" "$source" "$work/libshardmm-malloc.a"
    program dynamic "${linked[@]}" "$source" "$work/libshardmm-malloc.a"
    program preloaded '-DFAMILY="malloc", "free", "calloc", "realloc", "posix_memalign"' "$source"
    for way in static static_pie dynamic; do
        printf '%s, %s\n' "$(basename "$source")" "$way"
        timeout 60 "$work/$way"
    done
    printf '%s, preloaded\n' "$(basename "$source")"
    # Not by the variable: "timeout" belongs to the other C library.
    timeout 60 /lib/ld-musl-x86_64.so.1 --preload "$work/libshardmm.so" "$work/preloaded"
done

# musl refuses to load a library with static thread-local storage late.
printf 'loaded late\n'
program loads_late "$tests/preload/dlopen_thread.c"
timeout 60 "$work/loads_late" "$work/libshardmm_late.so"
if timeout 60 "$work/loads_late" "$work/libshardmm.so" 2>"$work/refusal"; then
    printf 'a library with static thread-local storage was loaded late: README and option can be simpler\n'
    exit 1
fi
