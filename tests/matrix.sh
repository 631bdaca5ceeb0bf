#!/bin/sh
# The tests that speak to Redis, on each server: one row of a table a server.
#
#     matrix.sh [SERVER...]      as redis-7.0, redis-8, valkey-9
#
# A server that is not there is fetched; one that can't be had, and a suite that fails, is told in its cell, and makes it
# end with 1. What each suite said is kept in target/matrix. MATRIX_SUITES names fewer suites, MATRIX_SOAK another length.
set -u

cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- redis-7.0 redis-8 valkey-9
suites=${MATRIX_SUITES:-scripts walk it cases soak}
kept=target/matrix
mkdir -p "$kept"

# One suite, by its name in all packages that have one.
run() {
    case $1 in
        soak) cargo test -q --workspace --bench soak -- "${MATRIX_SOAK:-60s}" ;;
        *) cargo test -q --workspace --test "$1" ;;
    esac
}

# What came of it, added up over its programs.
cell() {
    if [ "$2" = soak ]; then
        awk '/^accepted / { accepted += $2 + $3 } /^clean/ { told = "clean" } /^FAILED/ { told = "failed" }
             END { if (told) print told ", " accepted " requests"; else print "did not run" }' "$1"
        return
    fi
    awk '/^test result:/ { passed += $4; failed += $6 }
         END { if (failed) print failed " failed of " passed + failed; else if (passed) print passed; else print "did not run" }' "$1"
}

failed=0
rows=
for server in "$@"; do
    row="| $server |"
    for suite in $suites; do
        log=$kept/$server-$suite.log
        HOLDFAST_TEST_SERVER=$server run "$suite" >"$log" 2>&1 || failed=1
        told=$(cell "$log" "$suite")
        echo "$server, $suite: $told" >&2
        row="$row $told |"
    done
    rows="$rows$row
"
done
echo "| server | $(echo "$suites" | sed 's/ / | /g') |"
echo "|---|$(echo "$suites" | sed 's/[a-z]* */---|/g')"
printf '%s' "$rows"
exit $failed
