#!/bin/sh
# Draws a password for each user of Redis and prints the Secrets that the pods mount:
#
#     sh deploy/secrets.sh holdfast | kubectl apply -f -
#
# Redis gets hashes alone, each role its own password alone. Run again, it draws new ones: apply them, then restart Redis;
# the roles read theirs anew at each connection. `--acl` prints a file for a Redis of your own instead, and the passwords
# on stderr.
set -eu
umask 077

namespace=${1:?usage: secrets.sh NAMESPACE | secrets.sh --acl}
acl=$(cat "$(dirname "$0")/base/redis/users.acl")

# secret NAME KEY: a Secret whose one value is what comes in, line by line.
secret() {
    printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\n' "$1" "$namespace"
    printf '  labels: {app.kubernetes.io/name: holdfast, app.kubernetes.io/part-of: holdfast}\n'
    printf 'stringData:\n  %s: |\n' "$2"
    sed 's/^/    /'
}

# The SHA-256 of what comes in, by the tool that is there: macOS has the second.
sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# drawn WHAT TEXT: ends it all unless that is 32 bytes in hex. The end of a pipe says nothing of a tool that lacks at its start.
drawn() {
    [ "${#2}" -eq 64 ] && return
    printf 'secrets.sh: no %s: it needs od, tr, and sha256sum or shasum\n' "$1" >&2
    exit 1
}

# Nothing is told before all of it is there: whoever applies half of it locks the roles out.
told=
for user in producer worker reclaimer operator; do
    password=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
    drawn password "$password"
    hash=$(printf '%s' "$password" | sha256)
    drawn hash "$hash"
    acl=$(printf '%s\n' "$acl" | sed "s/#{$user}/#$hash/")
    if [ "$namespace" = --acl ]; then
        part="$user $password"
    else
        part=$(printf '%s\n' "$password" | secret "holdfast-redis-$user" password)
    fi
    told="$told$part
"
done

if [ "$namespace" = --acl ]; then
    printf '%s' "$told" >&2
    printf '%s\n' "$acl"
else
    users=$(printf '%s\n' "$acl" | secret holdfast-redis-users users.acl)
    printf '%s%s\n' "$told" "$users"
fi
