#!/usr/bin/env bash
# SPDX-License-Identifier: MIT

export CASE_CC=gcc CASE_CXX=g++
exec bash "$(dirname -- "$0")/compiler.sh" "$@"
