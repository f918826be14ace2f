# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# build.sh - quiet builds of the build directory that tools/run and tools/test share. Needs packages.sh.

# Runs a command without its output; shows it when the command fails.
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 </dev/null || status=$?
    [ "$status" -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return "$status"
}

# Both take a lock in the build directory, so that two at once take turns. It is on a descriptor of a
# subshell: no program inherits it.

# configure_release SOURCE BUILD [OPTION...]   Makes the release build where there is none.
configure_release() (
    source_dir=$1 build_dir=$2
    shift 2
    [ ! -f "$build_dir/build.ninja" ] || return 0
    mkdir -p "$build_dir"
    exec 9>"$build_dir/.lock"
    flock 9
    # Another may have made it meanwhile.
    [ ! -f "$build_dir/build.ninja" ] || return 0
    say "${0##*/}: configuring $build_dir"
    quietly meson setup --buildtype=release "$@" "$build_dir" "$source_dir" ||
        die "meson could not configure the build (see above)"
)

# build_targets BUILD [TARGET...]   Brings the targets (all, if none) up to date.
build_targets() (
    build_dir=$1
    shift
    exec 9>"$build_dir/.lock"
    flock 9
    # A dry run costs nothing, and tells whether there is a wait that needs a word.
    if ! ninja -C "$build_dir" -n "$@" 2>/dev/null | grep 'no work to do' >/dev/null; then
        say "${0##*/}: building"
    fi
    quietly ninja -C "$build_dir" "$@" ||
        die "the build failed (see above; if $build_dir is broken, remove it)"
)
