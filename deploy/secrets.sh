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

for user in producer worker reclaimer operator; do
    password=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
    hash=$(printf '%s' "$password" | sha256sum | cut -d' ' -f1)
    acl=$(printf '%s\n' "$acl" | sed "s/#{$user}/#$hash/")
    if [ "$namespace" = --acl ]; then
        printf '%s %s\n' "$user" "$password" >&2
    else
        printf '%s\n' "$password" | secret "holdfast-redis-$user" password
    fi
done

if [ "$namespace" = --acl ]; then
    printf '%s\n' "$acl"
else
    printf '%s\n' "$acl" | secret holdfast-redis-users users.acl
fi
