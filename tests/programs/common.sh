# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# common.sh - what the cases share; README.md tells what a case is. A case defines prepare() and run()
# and ends with: main "$@"

set -euo pipefail

# Where the files of the cases are.
# shellcheck disable=SC2034
case_directory=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")

# needs PROGRAM...   Skips the test when one is missing.
needs() {
    local program
    for program; do
        if ! command -v "$program" >/dev/null; then
            printf 'skipped: %s is not installed\n' "$program"
            exit 77
        fi
    done
}

# A preloaded library that the dynamic linker did not take would make every comparison succeed.
# Programs started from here get the same environment as this shell.
check_library() {
    local maps
    maps=$(<"/proc/$$/maps")
    if [ -n "$EXPECTED_LIBRARY" ]; then
        case $maps in
        *" $EXPECTED_LIBRARY"*) return ;;
        esac
        printf 'the library is not loaded: %s\n' "$EXPECTED_LIBRARY" >&2
        exit 1
    fi
    case $maps in
    *libshardmm*)
        printf 'the library is loaded where it should not be\n' >&2
        exit 1
        ;;
    esac
}

main() {
    local verb=$1
    shift
    case $verb in
    prepare) prepare "$@" ;;
    run)
        check_library
        run "$@"
        ;;
    *)
        printf 'usage: %s prepare|run, called by run_program_test.py\n' "$0" >&2
        exit 2
        ;;
    esac
}
