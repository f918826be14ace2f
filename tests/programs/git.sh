#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# git: clone, repack from scratch with threads, fsck of a generated repository. Which deltas it finds depends
# on the threads, so what is compared is the contents, not the bytes of the packs.

# shellcheck source=tests/programs/common.sh
. "$(dirname -- "$0")/common.sh"

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null

prepare() {
    needs git "$PYTHON"
    git init -q --bare -b main origin.git
    "$PYTHON" "$case_directory/generate_history.py" | git -C origin.git fast-import --quiet
}

run() {
    git clone -q --no-local ../origin.git copy
    cd copy
    git -c pack.threads=4 repack -q -adf --depth=50 --window=40
    git fsck --full --strict --no-progress
    git rev-list --all --objects --no-object-names | LC_ALL=C sort | sha256sum
    git log -p --stat | sha256sum
    git grep -c 'line 7' | sha256sum
    git blame file-3.txt | sha256sum
    git status --short
}

main "$@"
