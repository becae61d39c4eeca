#!/bin/sh
# Proves three commands on a fresh machine: a bare system (debootstrap minbase) that has only make
# and python3, a clone of HEAD in it, `make bench`, `make test` and `make test-setup` run in a chroot.
# As root.
#
# FRESH=FOLDER makes the system there, or uses it again, and keeps it. Without FRESH it is removed,
# however this script ends. TARGETS names other targets. AS=user runs them as a user
# without root: root installs the packages of the line that set-up printed for that user, no others.
#
# exit codes: 0 all passed; 75 no such system can be made here, and stderr says why; else that of make
#
# No mirror or index is named here. Suite, mirror, keys, proxies, certificates and pip's settings are
# carried in from the machine. All mounts belong to a mount namespace and all processes to a PID
# namespace: both end with this script, even if it is killed.
set -eu
cd "$(dirname "$0")/.."
targets=${TARGETS:-bench test test-setup}
CANNOT=75 # EX_TEMPFAIL of sysexits.h

say() { echo "test-fresh: $*"; }
cannot() {
    say "no bare system here: $*" >&2
    exit $CANNOT
}

# --- Outside: whether it can be done, the namespaces, the folder that goes at the end.

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null && return
    { apt-get -qq update && apt-get -qq -y --no-install-recommends install "$2"; } >/dev/null 2>&1 || true
    command -v "$1" >/dev/null || cannot "$2 is not installed and apt-get cannot install it"
}

# Replaces the (sub)shell. setpriv: what it starts is killed when this script is.
namespaces() { exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc "$@"; }

outside() {
    [ "$(id -u)" = 0 ] || cannot "debootstrap and chroot need root"
    need debootstrap debootstrap
    need git git
    why=$(namespaces true 2>&1) || cannot "namespaces are refused: $why"
    git rev-parse -q --verify HEAD >/dev/null 2>&1 || cannot "git finds no commit to clone in $(pwd)"
    if [ -n "${FRESH:-}" ]; then
        mkdir -p "$FRESH"
        system=$(cd "$FRESH" && pwd)
        remover=
    else
        system=$(mktemp -d "${TMPDIR:-/var/tmp}/sparkle-fresh.XXXXXX")
        # The remover waits for the lock, which this process gives back by ending, however it ends.
        exec 9<"$system"
        flock 9
        setsid sh -c 'flock 8; for i in 1 2 3 4 5; do
            rm -rf --one-file-system "$0" && break; sleep 1; done' "$system" 8<"$system" 9<&- \
            </dev/null >/dev/null 2>&1 &
        remover=$!
    fi
    inside=
    trap 'status=$?; finish' EXIT
    trap 'exit 143' HUP INT TERM
    # In the background, so that a signal is handled at once.
    namespaces sh tools/test_fresh.sh --inside "$system" </dev/null 9<&- &
    inside=$!
    wait "$inside"
}

finish() {
    trap - EXIT
    if [ -n "$inside" ]; then
        kill -KILL "$inside" 2>/dev/null || true
        wait "$inside" 2>/dev/null || true
    fi
    if [ -n "$remover" ]; then
        exec 9<&-
        wait "$remover" || true
    else
        say "system kept in $system"
    fi
    exit "$status"
}

# --- Inside the namespaces: the system.

from_apt() { # FORMAT FILTER: what apt knows of this release
    apt-get indextargets --format "$1" 'Created-By: Packages' "Codename: $suite" "$2"
}
main_mirror() { from_apt '$(REPO_URI)' 'Component: main' | head -n 1; }

make_system() {
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=$(main_mirror)
    [ -n "$mirror" ] || { apt-get -qq update >/dev/null 2>&1 || true; mirror=$(main_mirror); }
    [ -n "$mirror" ] || cannot "apt knows no mirror of this system's release"
    # On itself: the root of the chroot is a mount then, without which unshare(1) is refused in it.
    mount --bind "$system" "$system" || cannot "mount is refused"
    [ ! -e "$system/etc/fresh" ] || return 0
    say "making a bare $suite in $system"
    # A mirror that does not answer must leave time to run in place.
    timeout 900 debootstrap --variant=minbase --include=make,python3 "$suite" "$system" "$mirror" >"$system/log" 2>&1 ||
        cannot "debootstrap failed: $(tail -n 3 "$system/log" | tr '\n' ' ')"
    chmod 755 "$system" # mktemp made it for root alone
    touch "$system/etc/fresh"
}

copy() { # each path that exists, to the same place
    for path in "$@"; do
        [ ! -e "$path" ] || { mkdir -p "$system$(dirname "$path")" && cp -aL "$path" "$system$(dirname "$path")/"; }
    done
}

# What makes downloads work here: apt's and pip's settings, names, certificates.
carry_settings() {
    rm -f "$system/etc/apt/sources.list"
    copy /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d /usr/share/keyrings /etc/resolv.conf /etc/hosts
    copy /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf /etc/xdg/pip
    rm -f "$system"/etc/apt/apt.conf.d/*docker* # these forbid apt to keep its lists
    # Ubuntu has some of the packages in another component than main.
    components=$(from_apt '$(COMPONENT)' "Repo-URI: $mirror" | sort -u | tr '\n' ' ')
    printf 'deb %s %s %s\n' "$mirror" "$suite" "$components" >"$system/etc/apt/sources.list"
    for config in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
        [ ! -e "$config" ] || { mkdir -p "$system$home/.config/pip" && cp -L "$config" "$system$home/.config/pip/"; }
    done
}

mount_in() { # OPTION PATH: the machine's own, in the system
    mkdir -p "$system$2"
    mount "$1" "$2" "$system$2" || cannot "mount is refused"
}

mount_all() {
    mount_in --rbind /sys
    mount_in --rbind /dev
    mkdir -p "$system/proc" "$system/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm" || cannot "mount is refused"
    mount -t proc proc "$system/proc" || cannot "mount is refused"
    # Local folders that pip's settings name: an index, with the files beside it.
    python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^' ]+" | sed 's,^file://,,; s,/simple/*$,,' |
        sort -u >"$system/pip-folders"
    while read -r path; do
        [ ! -d "$path" ] || { mount_in --bind "$path" && mount -o remount,bind,ro "$system$path"; }
    done <"$system/pip-folders"
}

# --- Inside the system.

# Of the environment only what concerns downloads, and what the two commands are told.
settings=$(env | grep -E '^(CI|BENCH_ARGS|PYTEST_ADDOPTS|SPARKLE_REQUIRE|PIP_[A-Z_]*|SSL_CERT[A-Z_]*|REQUESTS_CA[A-Z_]*|CURL_CA[A-Z_]*|[A-Za-z_]*(proxy|PROXY))=' |
    cut -d= -f1)
enter() { # USER COMMAND...
    user=$1
    shift
    for name in $settings; do
        eval "value=\$$name"
        set -- "$name=$value" "$@"
    done
    chroot --userspec="$user:$user" "$system" \
        /usr/bin/env -i HOME="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@" </dev/null
}

# As a user: the packages of the one line, and nothing else, make all commands pass.
install_the_line() {
    enter "$as" make -C "$home/checkout" build >"$system/log" 2>&1 || true
    packages=$(sed -n 's/.*install with: sudo apt-get install //p' "$system/log")
    [ -n "$packages" ] || { cat "$system/log"; return 0; }
    say "as root: apt-get install $packages"
    enter root apt-get -qq update
    # Not quoted: a word for each package.
    enter root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $packages >/dev/null
    enter "$as" make -C "$home/checkout" preload >"$system/log" 2>&1 || { cat "$system/log"; exit 1; }
    ! grep "install with:" "$system/log" || { say "the first line was not complete"; exit 1; }
}

inside() {
    as=root home=/root
    # Nothing else that AS may say: some environments name an assembler by it.
    [ "${AS:-}" != user ] || as=user home=/home/user
    make_system
    mount_all
    grep -q "^$as:" "$system/etc/passwd" || enter root useradd --create-home "$as"
    carry_settings
    rm -rf "$system$home/checkout"
    git clone -q --no-hardlinks . "$system$home/checkout" || cannot "git cannot clone $(pwd)"
    enter root chown -R "$as:$as" "$home"
    enter root apt-get -qq update || cannot "apt-get reaches no mirror from it"
    enter root apt-get clean
    [ "$as" = root ] || install_the_line
    for target in $targets; do
        started=$(date +%s)
        say "make $target"
        enter "$as" make -C "$home/checkout" "$target" || {
            status=$?
            say "make $target FAILED"
            exit $status
        }
        say "make $target took $(($(date +%s) - started)) s"
    done
    say "$targets: all well on a bare $suite, as $as"
}

case ${1:-} in
--inside)
    system=$2
    inside
    ;;
*) outside ;;
esac
