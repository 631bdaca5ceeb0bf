#!/bin/sh
# Installs wheels into a folder, without root:
#
#     wheels.sh FOLDER MODULE WHEEL...      then      FOLDER/python SCRIPT
#
# Just those that are named, not what they ask for. MODULE is imported to see that they work. Run again, it does nothing.
set -eu

folder=${1:?usage: wheels.sh FOLDER MODULE WHEEL...}
module=$2
shift 2
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# What is installed, written last: half an installation is done again.
stamp="$folder/installed"
want="$*"
# The interpreter names its folder: one that was moved elsewhere is made anew.
if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$folder/python" -c "import $module" 2>/dev/null; then
    exit 0
fi
rm -rf "$folder/venv" "$folder/packages" "$stamp"

# The interpreter with the packages in its path, whichever way they came.
write_python() {
    printf '#!/bin/sh\n%s\n' "$1" >"$folder/python"
    chmod +x "$folder/python"
}

# Debian's python3 has the module venv, but may lack what it needs to make one with pip in it.
if python3 -m venv "$folder/venv" >/dev/null 2>&1; then
    python="$folder/venv/bin/python"
    target=""
    write_python "exec '$python' \"\$@\""
elif python3 -m pip --version >/dev/null 2>&1; then
    rm -rf "$folder/venv"
    python=python3
    target="--target=$folder/packages"
    write_python "PYTHONPATH='$folder/packages' exec python3 \"\$@\""
else
    echo "wheels.sh: needs python3 (3.10 or newer) with venv or pip: apt-get install python3-venv" >&2
    exit 1
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
"$python" -m pip install --quiet --only-binary :all: --no-deps ${target:+"$target"} "$@"
"$folder/python" -c "import $module"
printf '%s' "$want" >"$stamp"
