#!/bin/sh
# Makes a folder the only thing that a program sees, as the runtime of a cluster would:
#
#     unshare --pid --fork --mount -- sh contain.sh ROOT UID:GID VARIABLES PROGRAM ARGUMENTS...
#
# The folder cannot be written, /proc and a few devices are laid over it, and the program becomes process 1 as that user, without
# capabilities and without a way to gain one. Its environment is what the file VARIABLES says, NAME=VALUE without spaces.
set -euf

root=$1 user=$2 variables=$(cat "$3")
shift 3

mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for device in null zero full random urandom; do
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -o remount,bind,ro "$root"
# shellcheck disable=SC2086 # a list of words
exec setpriv --no-new-privs env -i $variables \
    "$(command -v chroot)" --userspec="$user" --groups= "$root" "$@"
