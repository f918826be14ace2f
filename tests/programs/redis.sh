#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# redis-server under redis-benchmark, then with a known set of data: read back, saved by a forked child, and
# read back from that file by a second server. It listens on a free port of 127.0.0.1 of its own.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs redis-cli redis-benchmark redis-check-rdb "$PYTHON"
    # The server is the same binary as redis-check-rdb and goes by its name; Debian's package of that name
    # would start a service.
    ln -s "$(command -v redis-check-rdb)" redis-server
    "$PYTHON" - <<'PYTHON'
import random

rng = random.Random(3)
with open("load.txt", "w") as load, open("read.txt", "w") as read:
    for i in range(40000):
        print(f"SET string:{i} {'v' * rng.randrange(1, 300)}{i}", file=load)
    for i in range(0, 40000, 3):
        print(f"APPEND string:{i} {'a' * rng.randrange(1, 900)}", file=load)
    for i in range(0, 40000, 5):
        print(f"DEL string:{i}", file=load)
    for i in range(300):
        for j in range(100):
            print(f"RPUSH list:{i} {'e' * rng.randrange(1, 60)}{j}", file=load)
            print(f"HSET hash:{i} field{j} {'h' * rng.randrange(1, 60)}{j}", file=load)
            print(f"ZADD sorted:{i} {rng.randrange(1000)} member{j}", file=load)
        print(f"LRANGE list:{i} 0 -1", file=read)
        print(f"HGET hash:{i} field{i % 100}", file=read)
        print(f"ZRANGE sorted:{i} 0 -1 WITHSCORES", file=read)
    for i in range(0, 40000, 16):
        print(f"GET string:{i}", file=read)
    print("DBSIZE", file=read)
PYTHON
}

port='' server=''

client() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }

# A free port may be taken by another between its choice and the server's start: then choose again.
start_server() {
    local try
    for try in 1 2 3; do
        port=$(free_port)
        ../redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$PWD" \
            --daemonize no --logfile "$PWD/server-$try.log" &
        server=$!
        for _ in $(seq 200); do
            if [ "$(client ping 2>/dev/null)" = PONG ]; then
                return
            fi
            kill -0 "$server" 2>/dev/null || break
            sleep 0.05
        done
        kill -0 "$server" 2>/dev/null && break
    done
    printf 'redis-server does not answer:\n' >&2
    cat server-*.log >&2
    return 1
}

stop_server() {
    local status=0
    client shutdown nosave
    wait "$server" || status=$?
    server=
    printf 'server ended with status %s\n' "$status"
}

run() {
    trap 'if [ -n "$server" ]; then kill -9 "$server"; fi' EXIT
    start_server
    check_server "$server"

    # Its keys are random, and its figures too: only that it succeeds is compared.
    redis-benchmark -h 127.0.0.1 -p "$port" -q -P 16 -c 50 -n 100000 -r 50000 -d 120 \
        -t set,get,incr,lpush,lpop,sadd,hset,spop,zadd,mset >benchmark.txt
    grep -q 'requests per second' benchmark.txt
    client flushall

    # Inline commands, sent without waiting for each answer.
    client --pipe <../load.txt | grep '^errors'
    client dbsize
    client <../read.txt | sha256sum

    client bgsave
    while client info persistence | grep -q 'rdb_bgsave_in_progress:1'; do sleep 0.1; done
    client info persistence | grep 'rdb_last_bgsave_status'
    stop_server

    start_server
    client dbsize
    client <../read.txt | sha256sum
    stop_server
}

main "$@"
