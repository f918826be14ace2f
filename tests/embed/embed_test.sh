#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# embed_test.sh subproject|installed      builds and runs consumer/; README.md beside this tells more.
#
# Works in a temporary directory on the tree that it lies in. CC and CXX choose the compilers.

set -euo pipefail

directory=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
source_root=$(dirname -- "$(dirname -- "$directory")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

read -r -a c_compiler <<<"${CC:-cc}"
read -r -a cxx_compiler <<<"${CXX:-c++}"

quietly() {
    if ! "$@" >"$work/log" 2>&1 </dev/null; then
        printf 'failed: %s\n' "$*"
        cat "$work/log"
        return 1
    fi
}

# All tests of the consumer, and no others.
expect_four_tests() {
    if ! grep -Eq '^Ok: +4 *$' "$work/log"; then
        printf 'not the four tests of the consumer:\n'
        cat "$work/log"
        return 1
    fi
}

copy_consumer() {
    mkdir "$work/$1"
    cp "$directory"/consumer/* "$work/$1/"
}

# A consumer writes dependency('shardmm') and nothing else: no wrap file, no options.
subproject() {
    copy_consumer consumer
    mkdir "$work/consumer/subprojects"
    ln -s "$source_root" "$work/consumer/subprojects/shardmm"
    # A copy that is installed on this machine must not answer in place of the subproject.
    quietly meson setup --force-fallback-for=shardmm --wrap-mode=nodownload "$work/build" "$work/consumer"
    quietly meson test -C "$work/build" --print-errorlogs
    # The library's tests are off in a subproject.
    expect_four_tests
}

# build_and_run NAME ARGUMENT FLAG...    In C and in C++, as a makefile would. ARGUMENT is the programs'.
build_and_run() {
    local name=$1 argument=$2
    shift 2
    quietly "${c_compiler[@]}" -std=c11 -O2 "$directory/consumer/consumer.c" -o "$work/$name-c" "$@" -pthread
    quietly "${cxx_compiler[@]}" -std=c++17 -O2 "$directory/consumer/consumer.cc" -o "$work/$name-cxx" "$@" -pthread
    printf '%s, C: ' "$name"
    "$work/$name-c" "$argument"
    printf '%s, C++: ' "$name"
    "$work/$name-cxx" "$argument"
}

installed() {
    local prefix=$work/prefix file flags=()
    quietly meson setup --prefix="$prefix" --libdir=lib -Dtests=disabled -Dbench=disabled \
        "$work/build" "$source_root"
    quietly meson install -C "$work/build"
    for file in lib/libshardmm.so lib/libshardmm.a lib/libshardmm-malloc.a \
        include/shardmm/shardmm.h include/shardmm/version.h; do
        [ -e "$prefix/$file" ] || {
            printf 'not installed: %s\n' "$file"
            return 1
        }
    done
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

    # The calls alone: malloc stays the C library's.
    read -r -a flags <<<"$(pkg-config --cflags --libs shardmm)"
    build_and_run calls alone "${flags[@]}"
    if "$work/calls-c" replaced 2>/dev/null; then
        printf 'shardmm.pc replaces malloc\n'
        return 1
    fi

    read -r -a flags <<<"$(pkg-config --cflags --libs shardmm-malloc)"
    build_and_run malloc replaced "${flags[@]}"

    # Neither needs anything at run time that is not on every machine.
    for file in calls-c malloc-c; do
        if ldd "$work/$file" | grep shardmm; then
            printf '%s needs the shared library\n' "$file"
            return 1
        fi
    done

    # The shared library, which replaces malloc too.
    read -r -a flags <<<"$(pkg-config --cflags shardmm)"
    build_and_run shared replaced "${flags[@]}" "-L$prefix/lib" -lshardmm "-Wl,-rpath,$prefix/lib"

    # A program that is static as a whole.
    read -r -a flags <<<"$(pkg-config --static --cflags --libs shardmm-malloc)"
    build_and_run static replaced -static "${flags[@]}"

    # Meson finds the installed library too.
    copy_consumer consumer
    quietly meson setup --wrap-mode=nofallback "$work/consumer-build" "$work/consumer"
    quietly meson test -C "$work/consumer-build" --print-errorlogs
    expect_four_tests
}

case ${1-} in
subproject | installed) "$1" ;;
*)
    printf 'usage: embed_test.sh subproject|installed\n' >&2
    exit 2
    ;;
esac
