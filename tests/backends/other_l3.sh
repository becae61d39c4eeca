#!/bin/sh
# Runs COMMAND where Linux tells an L3 of SIZE, as sysfs writes it, or no caches ("none"). As root.
#
#   sh tests/backends/other_l3.sh 307200K make test
#   sh tests/backends/other_l3.sh none sh tools/test_fresh.sh
#
# A copy of /sys/devices/system/cpu is mounted over it, in a mount namespace that ends with COMMAND.
# All CPUs share the L3. The chroot of test_fresh.sh has the same /sys.
set -eu
[ "${1-}" = --inside ] || exec unshare --mount sh "$0" --inside "$@"
size=$2
shift 2
cpus=/sys/devices/system/cpu
mount -t tmpfs tmpfs /mnt
cp -RP $cpus/. /mnt 2>/dev/null || true # some files cannot be read
for cpu in /mnt/cpu[0-9]*; do
    [ "$size" != none ] || { rm -rf "$cpu/cache"; continue; }
    mkdir -p "$cpu/cache"
    for index in "$cpu"/cache/index*; do
        ! grep -qs 3 "$index/level" || rm -r "$index"
    done
    mkdir "$cpu/cache/index3"
    echo 3 >"$cpu/cache/index3/level"
    echo Unified >"$cpu/cache/index3/type"
    echo "$size" >"$cpu/cache/index3/size"
    cp $cpus/online "$cpu/cache/index3/shared_cpu_list"
done
mount --bind /mnt $cpus
umount /mnt
exec "$@"
