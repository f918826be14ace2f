#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# xmllint with XPath over a document of 20 MB.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

prepare() {
    needs xmllint "$PYTHON"
    "$PYTHON" - >document.xml <<'PYTHON'
import random

rng = random.Random(5)
print('<?xml version="1.0" encoding="UTF-8"?>\n<catalogue>')
written, number = 0, 0
while written < 20_000_000:
    number += 1
    names = " ".join(rng.choice(("amber", "birch", "cedar", "delta")) for _ in range(rng.randrange(1, 12)))
    parts = "".join(f'<part n="{i}"><weight>{rng.randrange(1000)}</weight></part>' for i in range(rng.randrange(6)))
    text = (f'<item id="i{number}" group="{rng.randrange(50)}"><name>{names}</name>{parts}'
            f'<price>{rng.randrange(100000) / 100}</price><!-- {number} --></item>')
    print(text)
    written += len(text) + 1
print('</catalogue>')
PYTHON
}

run() {
    local query
    for query in \
        'count(//item[part/weight > 500 and @group = 7])' \
        'sum(//item[@group mod 5 = 0]/price)' \
        '//item[count(part) = 5][contains(name, "amber birch cedar")]/name' \
        'string(//item[last()]/@id)'; do
        xmllint --xpath "$query" ../document.xml
        printf '\n'
    done
    xmllint --noblanks --format ../document.xml | sha256sum
}

main "$@"
