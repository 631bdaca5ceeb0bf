#!/bin/sh
# Installs a checker with the schemas of Kubernetes into a folder, about 100 MB, without root:
#
#     install.sh FOLDER      then      FOLDER/python check.py <MANIFESTS
#
# kubernetes-validate (Apache-2.0) carries the schemas of many versions; the rest is what it needs. Run again, it does nothing.
set -eu
exec sh "$(dirname "$0")/../wheels.sh" "${1:?usage: install.sh FOLDER}" kubernetes_validate \
    "kubernetes-validate==1.37.0" "attrs==26.1.0" "importlib_resources==7.1.0" "jsonschema==4.26.0" \
    "jsonschema-specifications==2025.9.1" "packaging==26.4" "PyYAML==6.0.4" "referencing==0.37.0" "rpds-py==2026.9.1" \
    "typing_extensions==4.16.0"
