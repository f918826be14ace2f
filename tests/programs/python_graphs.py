# SPDX-License-Identifier: MIT
"""Builds, crosses between threads, and drops graphs of objects; prints checksums. Called by python.sh."""

import gc
import json
import queue
import random
import threading
import zlib

THREADS = 4
ROUNDS = 3
NODES = 12000


class Node:
    """A node with an attribute dictionary, a list of links (cycles included) and a text."""

    def __init__(self, number, text):
        self.number = number
        self.text = text
        self.links = []
        self.extra = {"square": number * number, "half": number / 2}


def build(seed):
    rng = random.Random(seed)
    nodes = [Node(i, "n" * rng.randrange(1, 400) + str(i)) for i in range(NODES)]
    for node in nodes:
        for _ in range(rng.randrange(1, 5)):
            node.links.append(rng.choice(nodes))
    return nodes


def checksum(nodes):
    total = 0
    for node in nodes:
        total = zlib.crc32(f"{node.text}{node.extra}{[n.number for n in node.links]}".encode(), total)
    return total


def strings_and_buffers(seed):
    """Growing strings, byte arrays, large integers and JSON: realloc and blocks of every kind."""
    rng = random.Random(seed)
    grown = bytearray()
    for i in range(3000):
        grown += bytes([i & 255]) * rng.randrange(1, 2000)
    big = 3 ** (20000 + seed)
    tree = {f"key{i}": [rng.random() for _ in range(rng.randrange(1, 30))] for i in range(3000)}
    text = json.dumps(tree, sort_keys=True)
    again = json.loads(text)
    return zlib.crc32(grown), big % 1000000007, zlib.crc32(text.encode()), again == tree


def worker(index, incoming, outgoing, results):
    found = []
    for turn in range(ROUNDS):
        # Built here, checked and dropped by the neighbour.
        outgoing.put(build(index * 100 + turn))
        received = incoming.get()
        found.append(checksum(received))
        del received
        found.append(strings_and_buffers(index * 10 + turn))
    results[index] = found


def main():
    pipes = [queue.Queue() for _ in range(THREADS)]
    results = [None] * THREADS
    threads = [
        threading.Thread(target=worker, args=(i, pipes[i], pipes[(i + 1) % THREADS], results))
        for i in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, found in enumerate(results):
        print(index, found)
    print("collected", gc.collect() >= 0)


main()
