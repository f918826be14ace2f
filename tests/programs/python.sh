#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# python3, with every object from malloc, building and dropping large graphs of objects in threads.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() { needs "$PYTHON"; }

run() {
    PYTHONMALLOC=malloc PYTHONHASHSEED=1 "$PYTHON" "$case_directory/python_graphs.py"
}

main "$@"
