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

# check_server PID   The same for a server that was started: some drop what is preloaded, or come with a malloc.
check_server() {
    case $(<"/proc/$1/maps") in
    *libshardmm*) [ -n "$EXPECTED_LIBRARY" ] ;;
    *) [ -z "$EXPECTED_LIBRARY" ] ;;
    esac || {
        printf 'process %s does not run with the malloc that it should\n' "$(<"/proc/$1/comm")" >&2
        return 1
    }
}

# Where tools/lib/packages.sh unpacks the packages that would start a service when installed.
unpacked=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/shardmm/unpacked

# find_server PATH...   Sets `found` to the first of these files, on the machine or unpacked; or skips the test.
find_server() {
    local path root
    for path; do
        for root in '' "$unpacked"; do
            if [ -x "$root/$path" ]; then
                # shellcheck disable=SC2034
                found=$root/$path
                return
            fi
        done
    done
    printf 'skipped: %s is not installed\n' "${1##*/}"
    exit 77
}

free_port() {
    "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Sets `unprivileged` to what a command must begin with to run as nobody, whom the directory is opened to.
# The rest of this shell's rights is kept: it may end the process and read its maps.
drop_root() {
    unprivileged=()
    if [ "$(id -u)" -eq 0 ]; then
        needs setpriv
        # shellcheck disable=SC2034
        unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups)
        chmod 711 "$@"
    fi
}

# await COMMAND...   Until it succeeds, 20 seconds at most, and no longer than the process $server lives.
await() {
    local _
    for _ in $(seq 400); do
        if "$@" >/dev/null 2>&1; then
            return
        fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    printf 'the server does not answer\n' >&2
    return 1
}

# For a trap: nothing that was started stays, whatever failed.
kill_server() {
    local _
    [ -n "${server:-}" ] || return 0
    # In peace at first: only then does a server end its own children. What stays, the driver ends.
    kill -TERM "$server" 2>/dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$server" 2>/dev/null || return 0
        sleep 0.05
    done
    kill -KILL "$server" 2>/dev/null || true
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
