#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# memcached with four threads under eight clients at once: what is read back while items are replaced, grow,
# are deleted and expire by a flush.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs "$PYTHON"
    find_server /usr/bin/memcached
    cp "$found" memcached
    drop_root .
    cat >client.py <<'PYTHON'
import hashlib, random, socket, sys, threading

results = {}

def client(number):
    rng = random.Random(number)
    link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    file = link.makefile("rwb")
    digest = hashlib.sha256()
    for i in range(150):
        batch = []
        for _ in range(40):
            key = f"{number}:{rng.randrange(3000)}"
            kind = rng.randrange(10)
            if kind < 4:
                value = b"v" * rng.choice((10, 100, 900, 6000))
                batch.append(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value))
            elif kind < 5:
                batch.append(b"append %s 0 0 5\r\nmore!\r\n" % key.encode())
            elif kind < 6:
                batch.append(b"delete %s\r\n" % key.encode())
            else:
                batch.append(b"get %s\r\n" % key.encode())
        file.write(b"".join(batch))
        file.flush()
        for command in batch:
            line = file.readline()
            digest.update(line)
            while command.startswith(b"get") and line != b"END\r\n":
                digest.update(file.read(int(line.split()[3]) + 2))
                line = file.readline()
    results[number] = digest.hexdigest()

threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
for number in range(8):
    print(results[number])
PYTHON
}

run() {
    trap kill_server EXIT
    drop_root ..
    port=$(free_port)
    "${unprivileged[@]}" ../memcached -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 256 &
    server=$!
    await bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
    check_server "$server"
    for _ in 1 2 3; do
        "$PYTHON" ../client.py "$port"
    done
    kill -TERM "$server"
    wait "$server"
    server=
    printf 'ended\n'
}

main "$@"
