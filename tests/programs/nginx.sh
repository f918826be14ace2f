#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# nginx with two workers under eight clients at once: files, compressed, in ranges, and through a proxy to itself;
# reloaded under load.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs "$PYTHON"
    find_server /usr/sbin/nginx
    cp "$found" nginx
    drop_root .
    mkdir www
    "$PYTHON" - <<'PYTHON'
import random
rng = random.Random(9)
for i in range(40):
    with open(f"www/{i}.txt", "w") as file:
        file.write("".join(f"{rng.randrange(10**9)} line of file {i}\n" for _ in range(rng.randrange(1, 3000))))
PYTHON
    chmod -R a+rX www
    cat >client.py <<'PYTHON'
import gzip, hashlib, http.client, random, sys, threading

port, results = int(sys.argv[1]), {}

def client(number):
    rng, digest = random.Random(number), hashlib.sha256()
    for _ in range(10):
        link = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(12):
            path = rng.choice(("/", "/proxy/")) + f"{rng.randrange(42)}.txt"
            headers = rng.choice(({}, {"Accept-Encoding": "gzip"}, {"Range": f"bytes={rng.randrange(9)}-99"}))
            for name in range(rng.randrange(20)):
                headers[f"X-Filler-{name}"] = "f" * rng.randrange(200)
            try:
                link.request("GET", path, headers=headers)
                answer = link.getresponse()
            except ConnectionError:
                # A worker that the reload ended closes its idle connections: asked once more, it must answer.
                link.close()
                link.request("GET", path, headers=headers)
                answer = link.getresponse()
            body = answer.read()
            if answer.getheader("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            digest.update(b"%d" % answer.status + body)
        link.close()
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
    drop_root .. .
    port=$(free_port)
    [ "$(id -u)" -ne 0 ] || chown 65534 .
    cat >nginx.conf <<CONF
daemon off;
worker_processes 2;
pid $PWD/nginx.pid;
error_log $PWD/error.log;
events { worker_connections 256; }
http {
    access_log $PWD/access.log;
    client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3;
    uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
    gzip on; gzip_types text/plain; gzip_proxied any;
    large_client_header_buffers 8 8k;
    default_type text/plain;
    server {
        listen 127.0.0.1:$port;
        listen unix:$PWD/inner;
        root ${PWD%/*}/www;
        location /proxy/ { proxy_pass http://unix:$PWD/inner:/; }
    }
}
CONF
    chmod 644 nginx.conf
    "${unprivileged[@]}" ../nginx -e "$PWD/error.log" -p "$PWD" -c "$PWD/nginx.conf" &
    server=$!
    await bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
    check_server "$server"
    local worker workers
    workers=$(<"/proc/$server/task/$server/children")
    for worker in $workers; do
        check_server "$worker"
    done
    "$PYTHON" ../client.py "$port"
    kill -HUP "$server"
    "$PYTHON" ../client.py "$port"
    kill -QUIT "$server"
    wait "$server"
    server=
    printf 'ended\n'
}

main "$@"
