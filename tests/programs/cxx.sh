#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# cxx_program.cc, built by meson and given as the argument.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() { needs "$1"; }

run() { "$1"; }

main "$@"
