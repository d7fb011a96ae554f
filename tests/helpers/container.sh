#!/bin/sh
# Becomes one container's process: a root of its own with the volumes mounted, a user of its own, no capabilities.
# Runs inside a network namespace and its private mount namespace (`ip netns exec`), so that nothing is left behind.
#   container.sh ROOT WORKDIR UID GID READONLY [ro=HOST:PATH | rw=HOST:PATH]... -- COMMAND...
set -e
root=$1 workdir=$2 user=$3 group=$4 readonly=$5
shift 5
mount -t tmpfs -o mode=0755 tmpfs "$root"
for name in usr etc bin sbin lib lib32 lib64; do
    if [ -L "/$name" ]; then
        cp -P "/$name" "$root/$name"
    elif [ -d "/$name" ]; then
        mkdir "$root/$name"
        mount --rbind "/$name" "$root/$name"
        mount -o remount,bind,ro "$root/$name"
    fi
done
mkdir -m 1777 "$root/tmp"
for name in proc dev; do
    mkdir "$root/$name"
    mount --rbind "/$name" "$root/$name"
done
while [ "$1" != -- ]; do
    kind=${1%%=*} pair=${1#*=}
    host=${pair%%:*} path=${pair##*:}
    mkdir -p "$root$path"
    mount --bind "$host" "$root$path"
    [ "$kind" = rw ] || mount -o remount,bind,ro "$root$path"
    shift
done
shift
[ "$readonly" = no ] || mount -o remount,ro "$root"
exec chroot "$root" /bin/sh -c 'cd "$0" && exec "$@"' "$workdir" \
    setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"
