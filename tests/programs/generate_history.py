# SPDX-License-Identifier: MIT
"""Writes a history for git fast-import: the same bytes each time. Called by git.sh."""

import random
import sys

COMMITS = 500
FILES = 60


def main():
    rng = random.Random(11)
    out = sys.stdout.buffer
    files = {f"file-{i}.txt": [f"line {j} of {i}" for j in range(rng.randrange(50, 600))] for i in range(FILES)}
    files["blob.bin"] = [rng.randbytes(400000).hex()]
    changed = list(files)
    for commit in range(COMMITS):
        message = f"change {commit}".encode()
        out.write(b"commit refs/heads/main\n")
        out.write(f"committer A <a@example.org> {1700000000 + commit * 60} +0000\n".encode())
        out.write(b"data %d\n%s\n" % (len(message), message))
        for name in changed:
            data = ("\n".join(files[name]) + "\n").encode()
            out.write(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data))
        changed = rng.sample(sorted(files)[1:], 6)
        for name in changed:
            lines = files[name]
            for _ in range(rng.randrange(1, 10)):
                lines[rng.randrange(len(lines))] = f"line {rng.randrange(100)} changed in {commit}"
            lines.insert(rng.randrange(len(lines)), f"line added in {commit}")


main()
