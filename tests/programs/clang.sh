#!/usr/bin/env bash
# SPDX-License-Identifier: MIT

export CASE_CC=clang CASE_CXX=clang++
exec bash "$(dirname -- "$0")/compiler.sh" "$@"
