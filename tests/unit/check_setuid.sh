#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_setuid.sh - a program with more rights than its caller must not read SHARDMM_ variables: with them the
# caller could have it write files, for example.
#
#   check_setuid.sh PROGRAM     PROGRAM --print prints the options, one "name=value" a line
set -euo pipefail

skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip 'making a set-user-id program of root takes root'
command -v setpriv >/dev/null || skip 'setpriv is not installed'

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
chmod 755 "$directory"
cp -- "$1" "$directory/program"

# print MODE   What the program says of its delay and its file, run by nobody.
print() {
    chmod "$1" "$directory/program"
    setpriv --reuid=65534 --regid=65534 --clear-groups \
        env SHARDMM_PURGE_DELAY=5 SHARDMM_STATS_FILE=/somewhere "$directory/program" --print |
        grep -E '^(purge_delay|stats_file)=' | sort | tr '\n' ' '
}

plain=$(print 0755)
setuid=$(print 4755)
[ "$plain" = 'purge_delay=5 stats_file=/somewhere ' ] || {
    printf 'without the bit: %s\n' "$plain"
    exit 1
}
if findmnt --noheadings --target "$directory" --output OPTIONS 2>/dev/null | grep -qw nosuid; then
    skip 'the temporary directory is on a file system without set-user-id'
fi
[ "$setuid" = 'purge_delay=1000 stats_file=(none) ' ] || {
    printf 'with the bit: %s\n' "$setuid"
    exit 1
}
