#!/bin/sh
# Proves the two commands on a fresh machine: a bare system (debootstrap minbase) that has only make
# and python3, a clone of HEAD in it, `make bench` and `make test` run in a chroot. As root.
#
# Nothing names a mirror or an index here: suite, mirror, keys, proxies, certificates and pip's
# settings are those of the machine it runs on, carried in. FRESH keeps the system (default: removed
# at the end when all went well); TARGETS names other targets than "bench test".
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "test-fresh: needs root for debootstrap and chroot" >&2; exit 1; }
keep=${FRESH:-}
system=${FRESH:-$(mktemp -d /var/tmp/sparkle-fresh.XXXXXX)}
targets=${TARGETS:-bench test}

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || { apt-get -qq update; apt-get -qq -y --no-install-recommends install "$2"; }
}
need debootstrap debootstrap
need git git

mounts=
release() {
    for at in $mounts; do umount -l "$at" 2>/dev/null || true; done
    mounts=
}
finish() {
    status=$?
    release
    if [ "$status" != 0 ] || [ -n "$keep" ] || grep -q " $system/" /proc/mounts; then
        echo "test-fresh: system kept in $system"
    else
        rm -rf --one-file-system "$system"
    fi
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
from_apt() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" "Component: main" | head -n 1; }
mirror=$(from_apt)
[ -n "$mirror" ] || { apt-get -qq update; mirror=$(from_apt); }
[ -n "$mirror" ] || { echo "test-fresh: apt knows no mirror of $suite" >&2; exit 1; }

if [ ! -e "$system/etc/debian_version" ]; then
    echo "test-fresh: making a bare $suite in $system"
    debootstrap --variant=minbase --include=make,python3 "$suite" "$system" "$mirror" >"$system.log" 2>&1 ||
        { tail -n 20 "$system.log" >&2; exit 1; }
    rm -f "$system.log"
fi

# What makes downloads work here: apt's and pip's settings, names, certificates.
copy() { # each path that exists, to the same place
    for path in "$@"; do
        [ ! -e "$path" ] || { mkdir -p "$system$(dirname "$path")" && cp -aL "$path" "$system$(dirname "$path")/"; }
    done
}
rm -f "$system/etc/apt/sources.list"
copy /etc/apt/apt.conf.d /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d /usr/share/keyrings /etc/resolv.conf /etc/hosts
copy /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf /etc/xdg/pip
rm -f "$system"/etc/apt/apt.conf.d/*docker* # these forbid apt to keep its lists
printf 'deb %s %s main\n' "$mirror" "$suite" >"$system/etc/apt/sources.list"
for config in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    [ ! -e "$config" ] || { mkdir -p "$system/root/.config/pip" && cp -L "$config" "$system/root/.config/pip/"; }
done

# Local folders that pip's settings point at (an index with the files beside it), /proc and /dev:
# mounted, they are the machine's own.
bind() {
    mkdir -p "$system$1"
    mount --bind "$1" "$system$1"
    mounts="$system$1 $mounts"
    [ "$1" = /dev ] || [ "$1" = /dev/shm ] || mount -o remount,bind,ro "$system$1"
}
python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^' ]+" | sed 's,^file://,,; s,/simple/*$,,' | while read -r path; do
    [ ! -d "$path" ] || echo "$path"
done | sort -u >"$system/binds"
while read -r path; do bind "$path"; done <"$system/binds"
mkdir -p "$system/proc" "$system/sys" "$system/dev"
mount -t proc proc "$system/proc" && mounts="$system/proc $mounts"
mount -t sysfs -o ro sysfs "$system/sys" && mounts="$system/sys $mounts"
bind /dev
[ ! -d /dev/shm ] || bind /dev/shm

rm -rf "$system/root/checkout"
git clone -q --no-hardlinks . "$system/root/checkout"

# The environment: only what concerns downloads.
settings=$(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|CURL_CA|[A-Za-z_]*(proxy|PROXY)=)' | cut -d= -f1)
enter() {
    for name in $settings; do
        eval "value=\$$name"
        set -- "$name=$value" "$@"
    done
    chroot "$system" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@" </dev/null
}
for target in $targets; do
    started=$(date +%s)
    echo "test-fresh: make $target"
    enter make -C /root/checkout "$target" || { echo "test-fresh: make $target FAILED"; exit 1; }
    echo "test-fresh: make $target took $(($(date +%s) - started)) s"
done
echo "test-fresh: $targets: all well on a bare $suite"
