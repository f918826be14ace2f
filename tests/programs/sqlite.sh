#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# The sqlite3 shell on a database in memory.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() { needs sqlite3; }

run() { sqlite3 -batch -bail :memory: <"$case_directory/sqlite.sql"; }

main "$@"
