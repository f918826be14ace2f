# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# packages.sh - installs what is missing to build and test, and says what. Sourced by tools/ and .ci/.
#
#   need PACKAGE COMMAND...    notes PACKAGE as missing unless COMMAND succeeds
#   need_build                 the packages of a build        need_tests     those of the unit tests
#   need_programs              those of tests/programs        need_matrix    those of .ci/run
#   need_environments          those of tests/environments    need_bench     those of tools/bench
#   need_rust                  those of rust-tests            need_fuzz      those of tools/fuzz
#   need_more_programs         those of suite programs-long
#   install_missing            installs what was noted; says so; fails with a clear message
#
# A check asks for the thing itself (a command, a .pc file, a compiler that links with a sanitizer), not
# for the package: a compiler that was installed by other means is as good. With nothing missing no
# network is used. All messages go to standard error: standard output belongs to the program that
# tools/run starts.

missing_packages=()
missing_checks=()

say() { printf '%s\n' "$*" >&2; }

die() {
    say "${0##*/}: $*"
    exit 1
}

need() {
    local package=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        missing_packages+=("$package")
        missing_checks+=("$(printf '%q ' "$@")")
    fi
}

# g++ also brings the C library's headers, which the package gcc only recommends.
need_build() {
    need gcc command -v "${CC:-gcc}"
    need g++ command -v "${CXX:-g++}"
    need meson command -v meson
    need ninja-build command -v ninja
    need nasm command -v nasm
}

need_tests() {
    need binutils command -v readelf
    need pkg-config command -v pkg-config
    need valgrind command -v valgrind
    need libcmocka-dev pkg-config --exists cmocka
    need python3 command -v python3
}

# redis-server is not among them: its package starts a service. redis-tools holds the same binary under
# another name, which the test calls by the name of the server.
need_programs() {
    need git command -v git
    need clang command -v clang
    need sqlite3 command -v sqlite3
    need libxml2-utils command -v xmllint
    need redis-tools command -v redis-check-rdb
    need redis-tools command -v redis-benchmark
}

# The servers of the suite 'programs-long' are unpacked instead of installed: their packages start a service.
need_more_programs() {
    need perl perl -Mthreads -MDigest::SHA -e 1
    need nodejs command -v node
    need openjdk-17-jdk-headless command -v javac
    need rustc command -v rustc
    need ghostscript command -v gs
    need util-linux command -v setpriv
    need make command -v make
    need xz-utils command -v xz
    need libevent-2.1-7 library libevent-2.1.so.7
    need libsasl2-2 library libsasl2.so.2
    need libssl3 library libssl.so.3
    need libpcre2-8-0 library libpcre2-8.so.0
    need libpq5 library libpq.so.5
    need libldap-2.5-0 library libldap-2.5.so.0
    need libxml2 library libxml2.so.2
    need libicu72 library libicuuc.so.72
    need libgssapi-krb5-2 library libgssapi_krb5.so.2
}

library() { [ -e "/usr/lib/x86_64-linux-gnu/$1" ] || [ -e "/lib/x86_64-linux-gnu/$1" ]; }

# unpack_servers   Unpacks those that are not installed where tests/programs/common.sh looks for them. With all
# there no network is used.
unpack_servers() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardmm list=() work
    [ -x /usr/sbin/nginx ] || [ -x "$cache/unpacked/usr/sbin/nginx" ] || list+=(nginx)
    [ -x /usr/bin/memcached ] || [ -x "$cache/unpacked/usr/bin/memcached" ] || list+=(memcached)
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null ||
        compgen -G "$cache/unpacked/usr/lib/postgresql/*/bin/psql" >/dev/null ||
        list+=(postgresql-15 postgresql-client-15)
    [ ${#list[@]} -gt 0 ] || return 0

    say "${0##*/}: unpacking ${list[*]} in $cache/unpacked"
    mkdir -p "$cache/unpacked"
    work=$(mktemp -d)
    if ! (
        cd "$work"
        apt-get -q download "${list[@]}" || { apt update && apt-get -q download "${list[@]}"; } || exit
        for package in *.deb; do dpkg-deb -x "$package" "$cache/unpacked" || exit; done
    ) >"$work/log" 2>&1 </dev/null; then
        cat "$work/log" >&2
        rm -rf "$work"
        die "could not unpack ${list[*]} (see above)"
    fi
    rm -rf "$work"
}

# download_sources   The source packages that tests/programs builds. The package lists of the machine stay as they are.
download_sources() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardmm/sources work
    ! compgen -G "$cache/libxml2_*.orig.tar.*" >/dev/null || return 0

    say "${0##*/}: downloading the source of libxml2 to $cache"
    work=$(mktemp -d)
    mkdir -p "$cache" "$work/lists/partial"
    if ! (
        cd "$work"
        # shellcheck disable=SC2016  # apt-get's own names
        apt-get indextargets --format 'deb-src $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
            grep -E '/debian/? ' | sort -u >sources.list
        options=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
            -o "Dir::State::lists=$work/lists")
        apt-get "${options[@]}" update || exit
        cd "$cache"
        apt-get "${options[@]}" source --download-only libxml2
    ) >"$work/log" 2>&1 </dev/null; then
        cat "$work/log" >&2
        rm -rf "$work"
        die "could not download the source of libxml2 (see above)"
    fi
    rm -rf "$work"
}

need_environments() {
    need clang command -v clang
    need "$(clang_runtime_package)" links_with clang -fsanitize=address
    need musl-tools command -v musl-gcc
    need qemu-user command -v qemu-x86_64
    need libcap2-bin env PATH="$PATH:/usr/sbin:/sbin" setcap -h
    need util-linux command -v setarch
    need findutils command -v xargs
}

# Debian's own python3, which is what python3-matplotlib is for: another may come first in the search path.
need_bench() {
    local libraries=/usr/lib/x86_64-linux-gnu
    need python3-matplotlib /usr/bin/python3 -c 'import matplotlib'
    need libmimalloc2.0 test -e "$libraries/libmimalloc.so.2"
    need libjemalloc2 test -e "$libraries/libjemalloc.so.2"
    need libtcmalloc-minimal4 test -e "$libraries/libtcmalloc_minimal.so.4"
}

# Any cargo from 1.63 on; the tests of the bindings load libclang and read its headers.
need_rust() {
    need cargo cargo --version
    need rustc rustc --version
    need libclang-14-dev compgen -G '/usr/lib/llvm-*/lib/libclang*.so*'
}

need_fuzz() {
    need clang command -v clang
    need "$(clang_runtime_package)" links_with clang -fsanitize=address,undefined
    need "llvm-$(clang_version)" command -v "llvm-cov-$(clang_version)"
    need "llvm-$(clang_version)" command -v "llvm-symbolizer-$(clang_version)"
}

links_with() {
    local compiler=$1
    shift
    printf 'int main(void) { return 0; }\n' | "$compiler" -x c - -o /dev/null "$@"
}

clang_version() {
    local version
    version=$(clang -dumpversion 2>/dev/null) || version=14
    printf '%s\n' "${version%%.*}"
}

clang_runtime_package() { printf 'libclang-rt-%s-dev\n' "$(clang_version)"; }

need_matrix() {
    need clang command -v clang
    need lld command -v ld.lld
    need "$(clang_runtime_package)" links_with clang -fsanitize=address
}

apt() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
        # Without a terminal nobody can type a password: fail at once instead of waiting for it.
        [ -t 0 ] || as_root=(sudo -n)
    fi
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}

install_missing() {
    [ ${#missing_packages[@]} -gt 0 ] || return 0

    local list=() log check
    mapfile -t list < <(printf '%s\n' "${missing_packages[@]}" | sort -u)

    command -v apt-get >/dev/null 2>&1 ||
        die "missing: ${list[*]} (names of Debian packages); there is no apt-get here: install them by other means"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 ||
        die "missing: ${list[*]}; neither root nor sudo is at hand: let the administrator run apt-get install ${list[*]}"

    say "${0##*/}: installing ${list[*]}"
    log=$(mktemp)
    # A fresh machine has no package lists, an old one stale ones: fetch them only when it fails without.
    if ! apt install --no-install-recommends "${list[@]}" >"$log" 2>&1; then
        if ! { apt update && apt install --no-install-recommends "${list[@]}"; } >"$log" 2>&1; then
            cat "$log" >&2
            rm -f "$log"
            die "could not install ${list[*]} (see above)"
        fi
    fi
    rm -f "$log"

    hash -r
    for check in "${missing_checks[@]}"; do
        eval "$check" >/dev/null 2>&1 ||
            die "installed ${list[*]}, and this still fails: $check"
    done
    missing_packages=()
    missing_checks=()
}
