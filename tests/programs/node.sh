#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# node: objects, strings and buffers, worker threads, compression on the thread pool, in JavaScript.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs node
    cat >work.js <<'JS'
'use strict';
const crypto = require('crypto'), zlib = require('zlib'), util = require('util');
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');

function job(seed, rounds) {
  const next = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0);
  const map = new Map(), kept = [], hash = crypto.createHash('sha256');
  for (let i = 0; i < rounds; i++) {
    map.set('key' + next() % 5003, { i, text: 'v'.repeat(seed % 61), list: [i, seed] });
    if (i % 3 === 0) {
      const block = Buffer.allocUnsafeSlow(1 + next() % 20000).fill(i & 255);
      kept.push(block);
      if (kept.length > 300) hash.update(kept.splice(next() % 300, 1)[0]);
    }
  }
  return hash.update(JSON.stringify([...map])).digest('hex');
}

async function main() {
  console.log(job(1, 100000));
  const workers = [2, 3, 4, 5].map((seed) => new Promise((done, failed) => {
    new Worker(__filename, { workerData: seed }).on('message', done).on('error', failed);
  }));
  (await Promise.all(workers)).forEach((line) => console.log(line));
  const packed = await Promise.all(Array.from({ length: 24 }, (_, i) =>
    util.promisify(zlib.gzip)(Buffer.from(('line ' + i + '\n').repeat(60000)))));
  const plain = await Promise.all(packed.map((p) => util.promisify(zlib.gunzip)(p)));
  console.log(crypto.createHash('sha256').update(Buffer.concat(plain)).digest('hex'));
}

if (isMainThread) main(); else parentPort.postMessage(job(workerData, 40000));
JS
}

run() { node ../work.js; }

main "$@"
