#!/bin/sh
# Installs a checker with the schemas of Kubernetes into a folder, about 100 MB, without root:
#
#     install.sh FOLDER      then      FOLDER/python check.py <MANIFESTS
#
# kubernetes-validate (Apache-2.0) carries the schemas of many versions; the rest is what it needs. Run again, it does nothing.
set -eu

WANT="kubernetes-validate==1.37.0 attrs==26.1.0 importlib_resources==7.1.0 jsonschema==4.26.0
jsonschema-specifications==2025.9.1 packaging==26.4 PyYAML==6.0.4 referencing==0.37.0 rpds-py==2026.9.1
typing_extensions==4.16.0"

folder=${1:?usage: install.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# What is installed, written last: half an installation is done again.
stamp="$folder/installed"
if [ "$(cat "$stamp" 2>/dev/null)" = "$WANT" ]; then
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
    echo "install.sh: needs python3 (3.10 or newer) with venv or pip: apt-get install python3-venv" >&2
    exit 1
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# shellcheck disable=SC2086 # a list of words
"$python" -m pip install --quiet --only-binary :all: --no-deps ${target:+"$target"} $WANT
"$folder/python" -c "import kubernetes_validate"
printf '%s' "$WANT" >"$stamp"
