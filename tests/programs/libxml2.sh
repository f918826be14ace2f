#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The test suite of libxml2, built here from the distribution's source: parsers, XPath, schemas, every public function
# with sensible and senseless arguments. It counts its own errors; some tests fail without a network, with any malloc.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

programs=(runtest testrecurse testapi testdict testchar)

prepare() {
    local archives=("${unpacked%/*}"/sources/libxml2_*.orig.tar.*)
    if [ ! -e "${archives[0]}" ]; then
        printf 'skipped: the source of libxml2 is not there\n'
        exit 77
    fi
    tar -xf "${archives[0]}"
    cd libxml2-*/
    ./configure --quiet --disable-shared --without-python --without-lzma --without-zlib CFLAGS=-O1 >configure.out 2>&1
    make -s -j2 libxml2.la "${programs[@]}" >make.out 2>&1 || {
        tail -n 40 make.out
        return 1
    }
}

run() {
    local program
    cd ../libxml2-*/
    for program in "${programs[@]}"; do
        printf '== %s\n' "$program"
        # The order of messages differs where tests of it have threads.
        "./$program" 2>&1 | grep -E '^##|^Total|succeeded|^testing' || true
    done
}

main "$@"
