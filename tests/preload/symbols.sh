# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# symbols.sh - lists of symbols, one a line, sorted as `comm` wants them. Sourced by the checks.

set -euo pipefail
export LC_ALL=C

# listed FILE   The names of a list with comments.
listed() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1" | sort; }

# exported LIBRARY   What a shared library defines for others, without versions and their own symbols (A).
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }

# archived ARCHIVE   What the objects of an archive define for the linker.
archived() { nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' | sort -u; }

failures=0

# expect_none TEXT COMMAND...   The command must print nothing; TEXT says what it means when it does.
expect_none() {
    local text=$1 lines
    shift
    lines=$("$@")
    if [ -n "$lines" ]; then
        printf '%s:\n%s\n' "$text" "$lines"
        failures=$((failures + 1))
    fi
}

# expect_some FILE   A list that came out empty would agree with everything.
expect_some() {
    if [ ! -s "$1" ]; then
        printf 'no symbols found: %s\n' "$1"
        failures=$((failures + 1))
    fi
}

finish() { [ "$failures" -eq 0 ]; }
