#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# conditions.sh CONDITION
#
# Runs the programs of this directory under a condition that the machine, the caller or another tool makes. Each
# condition is a function below, with the kind of fault that it holds off. The build directory's programs are in
# the environment: LIBRARY, EVERYTHING (to be preloaded), LINKED, STATIC, COUNTED, COUNTING, HOOKS, AUDIT, BARE_EXEC,
# RARE_CALLS and its source.
set -euo pipefail

skip() {
    printf 'skipped: %s\n' "$*"
    exit 77
}

as_root() { [ "$(id -u)" -eq 0 ] || skip "$1 takes root"; }

# preloaded COMMAND...   Not by the variable of this shell: what sets the condition up has its own malloc.
preloaded() { env LD_PRELOAD="$LIBRARY" "$@"; }

# under COMMAND...   The condition is a command that runs a program: the preloaded, the linked, and the static one.
under() {
    preloaded "$@" "$EVERYTHING"
    "$@" "$LINKED"
    "$@" "$STATIC"
}

# ---- Limits ------------------------------------------------------------------------------------------

# Holds off: spinning for another thread where only one can run at a time.
one_processor() { under taskset -c 0; }

# Holds off: reservations that are taken for granted (terabytes, or many times the memory in use).
little_address_space() {
    local program
    for program in /bin/true '/bin/ls /' 'sort /etc/passwd'; do
        # shellcheck disable=SC2086
        preloaded prlimit --as=$((64 << 20)) $program >/dev/null
    done
    # The program itself has 60 MB at once, and more in threads.
    preloaded prlimit --as=$((256 << 20)) "$EVERYTHING" --no-threads
    under prlimit --as=$((1 << 30)) --stack=$((1 << 20))
}

# Holds off: addresses that count as data. Linux counts what is writable.
little_data() {
    preloaded prlimit --data=$((96 << 20)) "$EVERYTHING" --no-threads
    under prlimit --data=$((512 << 20)) --stack=$((1 << 20))
}

# Holds off: slow paths with large buffers on the stack.
little_stack() { under prlimit --stack=$((96 << 10)); }

# Holds off: trusting that there is room below the stack; Linux then hands out addresses from below upwards.
endless_stack() { under prlimit --stack=unlimited; }

# Holds off: failing without a file, or keeping one open.
no_files() {
    prlimit --nofile=3 "$STATIC"
    preloaded prlimit --nofile=4 "$EVERYTHING" # the dynamic linker needs one
}

# Holds off: memory that is locked in secret, and threads of the allocator's own.
no_locked_memory_and_no_threads() {
    as_root 'becoming nobody'
    preloaded prlimit --memlock=0 setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs \
        prlimit --nproc=1 "$EVERYTHING" --no-threads
}

# ---- The address space -------------------------------------------------------------------------------

# Holds off: a guess of where the kernel maps.
layouts_of_the_address_space() {
    local options
    for options in -R -L '-R -L -3 -Z'; do
        # shellcheck disable=SC2086
        preloaded setarch x86_64 $options "$EVERYTHING"
        # shellcheck disable=SC2086
        setarch x86_64 $options "$STATIC"
    done
}

# ---- Huge pages --------------------------------------------------------------------------------------

# Holds off: depending on huge pages, or on there being none. (The settings of the machine: .ci/machine_settings.)
huge_pages_of_the_process() {
    local option
    preloaded "$EVERYTHING" --no-thp
    "$STATIC" --no-thp
    for option in HUGE_PAGES=never HUGE_PAGES=always PREFAULT=off; do
        preloaded env "SHARDMM_$option" "$EVERYTHING"
    done
}

# ---- What a process is given at its start ------------------------------------------------------------

# Holds off: files of the system that have to be there.
no_proc_and_no_sys() {
    as_root 'changing the root directory'
    local root status=0
    root=$(mktemp -d)
    cp -- "$STATIC" "$root/program"
    chroot "$root" /program || status=$?
    rm -rf "$root"
    return "$status"
}

# Holds off: writing into a file of the program's that got the number of standard error, and waiting for it.
no_standard_files() {
    local status=0
    under env SHARDMM_VERBOSE=0 <&- >&- 2>&-
    preloaded env SHARDMM_STATS=summary SHARDMM_VERBOSE=2 "$EVERYTHING" <&- >&- 2>&- || status=$?
    [ "$status" -eq 0 ]
}

# Holds off: an environment that is taken for granted, at its start or its end.
environments() {
    local i huge=()
    env -i "$LINKED"
    env -i LD_PRELOAD="$LIBRARY" "$EVERYTHING"
    "$BARE_EXEC" "$LINKED"
    "$BARE_EXEC" "$STATIC"
    for ((i = 0; i < 3000; i++)); do
        huge+=("VARIABLE_$i=${PATH:0:200}")
    done
    preloaded env "${huge[@]}" "$EVERYTHING"
}

# Holds off: settings of the C library's own malloc that reach ours.
settings_of_the_c_library() {
    local trace
    trace=$(mktemp)
    preloaded env MALLOC_CHECK_=3 MALLOC_PERTURB_=165 MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=0 MALLOC_MMAP_THRESHOLD_=1 \
        MALLOC_TRACE="$trace" GLIBC_TUNABLES=glibc.malloc.check=3:glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1 \
        "$EVERYTHING"
    if [ -s "$trace" ]; then
        printf 'calls were traced\n'
        return 1
    fi
    rm -f "$trace"
}

# ---- How the dynamic linker is told ------------------------------------------------------------------

# Holds off: constructors that run twice, and state that two copies of one file share.
preloaded_twice() {
    LD_PRELOAD="$LIBRARY $LIBRARY" "$EVERYTHING"
    LD_PRELOAD="$LIBRARY" "$LINKED"
}

# Holds off: two builds in one process that take each other's blocks, keys or names.
two_builds_in_one_process() {
    local directory status=0
    directory=$(mktemp -d)
    cp -- "$LIBRARY" "$directory/libshardmm_other.so"
    LD_PRELOAD="$LIBRARY $directory/libshardmm_other.so" "$EVERYTHING" || status=$?
    LD_PRELOAD="$directory/libshardmm_other.so $LIBRARY" "$EVERYTHING" || status=$?
    LD_PRELOAD="$directory/libshardmm_other.so $LIBRARY" "$LINKED" || status=$?
    rm -rf "$directory"
    return "$status"
}

# Holds off: names that only bind when they are called first, with locks held.
bound_at_once() {
    preloaded env LD_BIND_NOW=1 "$EVERYTHING"
    LD_BIND_NOW=1 "$LINKED"
}

# Holds off: relying on the kernel's having started the program itself.
by_the_dynamic_linker() {
    local linker
    linker=$(readelf -lW "$EVERYTHING" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
    "$linker" --preload "$LIBRARY" "$EVERYTHING"
    "$linker" --inhibit-cache "$LINKED"
}

# A chain of programs, each started by the one before.
# Holds off: state that is inherited, and exec in a child of vfork() or of fork().
chains_of_programs() {
    preloaded bash -c 'for i in 1 2 3; do bash -c "/bin/true; (env /bin/true); ls / | cat >/dev/null; exec /bin/true"; done'
    preloaded find / -maxdepth 1 -exec true {} ';'
    preloaded xargs -n 1 -P 4 "$EVERYTHING" <<<'--any-malloc --any-malloc --any-malloc --any-malloc'
}

# ---- Other tools around malloc -----------------------------------------------------------------------

# Holds off: rarer calls (reallocarray, free_sized) that serve themselves, and get blocks of another malloc. Seen to
# fail when they did.
another_malloc_before() { LD_PRELOAD="$COUNTING $LIBRARY" "$COUNTED" before; }

# Holds off: calling a malloc behind ours.
another_malloc_after() { LD_PRELOAD="$LIBRARY $COUNTING" "$COUNTED" after; }

# Holds off: calling out, with locks held, to what others may have put before the C library's calls for files, time
# and thread-specific data; and a start that such a hook enters anew.
hooks_of_other_calls() {
    local both
    for both in "$HOOKS $LIBRARY" "$LIBRARY $HOOKS"; do
        timeout -k 1 20 env LD_PRELOAD="$both" "$EVERYTHING"
        timeout -k 1 20 env LD_PRELOAD="$both" SHARDMM_VERBOSE=2 SHARDMM_STATS=text "$EVERYTHING" --no-threads 2>/dev/null
    done
}

# Holds off: a start-up that depends on being the process's only user of a C library.
audited() {
    LD_AUDIT=$AUDIT LD_PRELOAD=$LIBRARY "$EVERYTHING"
    LD_AUDIT=$AUDIT "$LINKED"
}

# The C library's debugging malloc is such a library, too: with all of the family and a heap of its own.
# Holds off: internal calls that go past it.
debugging_malloc_of_the_c_library() {
    local debug
    debug=$("${CC:-cc}" -print-file-name=libc_malloc_debug.so.0)
    [ -e "$debug" ] || debug=$(ldconfig -p | sed -n 's/.*libc_malloc_debug.so.0.* => //p' | head -n 1)
    [ -e "$debug" ] || skip 'this C library has no libc_malloc_debug.so.0'
    LD_PRELOAD="$debug $LIBRARY" MALLOC_CHECK_=3 "$EVERYTHING" --any-malloc
    LD_PRELOAD="$LIBRARY $debug" MALLOC_CHECK_=3 "$EVERYTHING"
}

# memcheck OPTION... PROGRAM ARGUMENT...   Preloaded. Without the debug information, which may be newer than valgrind.
memcheck() {
    local options=() original program directory status=0
    while [[ $1 == -* ]]; do
        options+=("$1")
        shift
    done
    command -v valgrind >/dev/null || skip 'valgrind is not installed'
    directory=$(mktemp -d)
    original=$1
    program=$directory/program
    shift
    strip --strip-debug -o "$program" "$original"
    strip --strip-debug -o "$directory/libshardmm.so" "$LIBRARY"
    LD_PRELOAD=$directory/libshardmm.so valgrind -q --error-exitcode=9 "${options[@]}" "$program" "$@" || status=$?
    rm -rf "$directory"
    return "$status"
}

# Holds off: calls that memcheck does not replace and that get its blocks. Seen to fail with reallocarray().
valgrind_with_its_own_malloc() {
    memcheck --run-libc-freeres=yes "$RARE_CALLS"
    memcheck "$EVERYTHING" --once --no-threads --any-malloc
    SHARDMM_STATS=text memcheck "$RARE_CALLS" 2>/dev/null
}

# Holds off: tricks with addresses and instructions that a simulated processor does not do.
valgrind_with_our_malloc() {
    memcheck --undef-value-errors=no --soname-synonyms=somalloc=nouserintercepts --run-libc-freeres=no \
        "$EVERYTHING" --once --no-threads --any-malloc
}

# A program built with a sanitizer has its malloc. Preloaded, ours steps aside.
# Holds off: a start-up that fails, and calls that the sanitizer does not know.
sanitized_program() {
    local compiler directory status=0 preload runtime
    directory=$(mktemp -d)
    for compiler in gcc clang; do
        command -v "$compiler" >/dev/null || skip "$compiler is not installed"
        "$compiler" -fsanitize=address -fno-builtin -D_GNU_SOURCE -Wno-alloc-size-larger-than "$RARE_CALLS_SOURCE" \
            -o "$directory/program" 2>/dev/null ||
            "$compiler" -fsanitize=address -fno-builtin -D_GNU_SOURCE "$RARE_CALLS_SOURCE" -o "$directory/program"
        # gcc's runtime is a library that demands to be the first; clang's is in the program.
        runtime=$(ldd "$directory/program" | sed -n 's/.*libasan.*=> \(.*\) (.*/\1/p')
        preload="${runtime:+$runtime }$LIBRARY"
        LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 "$directory/program" || status=$?
        LD_PRELOAD=$LIBRARY ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 "$directory/program" || status=$?
        # Still a sanitizer: it sees what it is there for.
        if LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 "$directory/program" overflow 2>"$directory/report"; then
            printf 'the sanitizer of %s no longer sees a fault\n' "$compiler"
            status=1
        fi
        grep -q heap-buffer-overflow "$directory/report" || status=1
    done
    rm -rf "$directory"
    return "$status"
}

# ---- Another processor -------------------------------------------------------------------------------

# Holds off: instructions that only the processor which built the library has; and, since the simulation takes
# MADV_DONTNEED for a hint in some versions, memory that is taken for zero. tests/preload/check_code.py reads the
# code that does not run here.
old_processor() {
    local model
    command -v qemu-x86_64 >/dev/null || skip 'qemu-user is not installed'
    for model in core2duo Opteron_G2; do
        qemu-x86_64 -cpu "$model" "$STATIC" --once
    done
    # And it is an old one indeed.
    local directory status=0
    directory=$(mktemp -d)
    printf '%s\n' 'int main(void) {' '__asm__ volatile("vpxor %ymm0, %ymm0, %ymm0");' 'return 0; }' >"$directory/new.c"
    "$CC" -static "$directory/new.c" -o "$directory/new"
    if qemu-x86_64 -cpu core2duo "$directory/new" 2>/dev/null; then
        printf 'the simulated processor knows new instructions\n'
        status=1
    fi
    rm -rf "$directory"
    return "$status"
}

# ---- More rights than the caller ---------------------------------------------------------------------

# Holds off: options that let a caller write files with the rights of the program.
more_rights_than_the_caller() {
    as_root 'giving a program rights'
    local directory status=0
    directory=$(mktemp -d)
    chmod 755 "$directory"
    cp -- "$LINKED" "$directory/program"
    run_it() {
        setpriv --reuid=65534 --regid=65534 --clear-groups env SHARDMM_STATS=text SHARDMM_STATS_FILE="$directory/out/$1" \
            "$directory/program"
    }
    mkdir -m 777 "$directory/out"
    run_it plain || status=$?
    chmod u+s "$directory/program"
    run_it setuid || status=$?
    chmod u-s "$directory/program"
    if findmnt --noheadings --target "$directory" --output OPTIONS 2>/dev/null | grep -qw nosuid; then
        rm -rf "$directory"
        skip 'the temporary directory is on a file system without set-user-id'
    fi
    setcap cap_net_raw+ep "$directory/program" || skip 'no file capabilities here'
    run_it setcap || status=$?
    local written=("$directory"/out/*)
    if [ "${written[*]##*/}" != plain ]; then
        printf 'written: %s\n' "${written[*]##*/}"
        status=1
    fi
    rm -rf "$directory"
    return "$status"
}

declare -F "$1" >/dev/null || {
    printf 'no such condition: %s\n' "$1"
    exit 2
}
"$1"
