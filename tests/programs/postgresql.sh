#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# PostgreSQL: a cluster made, pgbench with four clients, queries that sort, aggregate and parse much, a restart.
# The order of the transactions differs from run to run, the sums after them do not.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    local directories=(/usr/lib/postgresql/*/bin "$unpacked"/usr/lib/postgresql/*/bin) directory
    for directory in "${directories[@]}"; do
        if [ -x "$directory/postgres" ] && [ -x "$directory/pgbench" ] && [ -x "$directory/psql" ]; then
            ln -s "$directory" bin
            break
        fi
    done
    [ -e bin ] || { printf 'skipped: PostgreSQL is not installed\n'; exit 77; }
    drop_root .
    # What is unpacked lies in a home directory, which nobody may not enter.
    if [[ $(readlink bin) = "$unpacked"/* ]]; then
        rm bin
        mkdir -p usr/lib usr/share
        cp -a "$unpacked/usr/lib/postgresql" usr/lib
        cp -a "$unpacked/usr/share/postgresql" usr/share
        ln -s usr/lib/postgresql/*/bin bin
    fi
}

sql() { "${unprivileged[@]}" ../bin/psql -h "$PWD" -U test -d postgres -X -A -t -v ON_ERROR_STOP=1 "$@"; }

start_server() {
    "${unprivileged[@]}" "$(readlink -f ../bin)/postgres" -D "$PWD/data" -k "$PWD" -c listen_addresses= \
        -c fsync=off -c shared_buffers=16MB -c jit=off >>server.log 2>&1 &
    server=$!
    await sql -c 'select 1' || { cat server.log >&2; return 1; }
    check_server "$server"
}

stop_server() {
    kill -INT "$server"
    wait "$server"
    server=
}

run() {
    trap kill_server EXIT
    drop_root .. .
    [ "$(id -u)" -ne 0 ] || chown 65534 .
    "${unprivileged[@]}" "$(readlink -f ../bin)/initdb" -D "$PWD/data" -U test -A trust -N --no-locale -E UTF8 >initdb.log
    start_server
    "${unprivileged[@]}" ../bin/pgbench -h "$PWD" -U test -i -s 2 -q postgres >bench.log 2>&1
    "${unprivileged[@]}" ../bin/pgbench -h "$PWD" -U test -c 4 -j 2 -t 1000 --random-seed=7 postgres >>bench.log 2>&1
    grep 'transactions actually processed' bench.log
    local query
    # shellcheck disable=SC2016
    for query in \
        'select sum(abalance), count(*) from pgbench_accounts' \
        'select sum(tbalance) from pgbench_tellers' 'select sum(bbalance) from pgbench_branches' \
        'select count(*), sum(delta) from pgbench_history' \
        'select md5(string_agg(md5(i::text), $$,$$ order by md5(i::text))) from generate_series(1, 200000) i' \
        'select md5(jsonb_agg(jsonb_build_object($$k$$, i, $$v$$, repeat($$x$$, i % 90)))::text)
             from generate_series(1, 50000) i'; do
        sql -c "$query"
    done
    stop_server
    start_server
    sql -c 'select sum(abalance), count(*) from pgbench_accounts'
    stop_server
}

main "$@"
