#!/bin/sh
# Holds a running API against what it says of itself:
#
#     schemathesis.sh FOLDER install      then      schemathesis.sh FOLDER URL CONFIG
#
# The first needs python3 with venv and a PyPI to ask, and does nothing when it is run again. The second takes a minute at
# most; what it writes stays in the folder.
set -eu

WANT="schemathesis==4.32.5"
SECONDS_AT_MOST=30

folder=${1:?usage: schemathesis.sh FOLDER install|URL [CONFIG]}
mkdir -p "$folder"
cd "$folder"
if [ "$2" = install ]; then
    # What is installed, written last: half an installation is done again.
    # Its program names its folder: one that was moved elsewhere is made anew.
    if [ "$(cat installed 2>/dev/null)" = "$WANT" ] && venv/bin/schemathesis --version >/dev/null 2>&1; then
        exit 0
    fi
    rm -rf venv installed
    python3 -m venv venv
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    venv/bin/python -m pip install --quiet --only-binary :all: "$WANT"
    venv/bin/schemathesis --version
    printf '%s' "$WANT" >installed
    exit 0
fi
exec venv/bin/schemathesis --config-file "$3" run "$2" --max-time "$SECONDS_AT_MOST" --max-examples 30 \
    --seed 1 --continue-on-failure --no-color
