"""Reads manifests from standard input, checks each against the schema of its kind, and prints what it read as JSON:

{"objects": [...], "faults": ["Deployment x: spec.replica: ..."], "unknown": ["ScaledObject"]}

Strictly: a field that the schema does not have is a fault. Each object is checked for the oldest and the newest version
of Kubernetes that the manifests are meant for.
"""

import json
import sys

import kubernetes_validate as schemas
import yaml

# preStop.sleep, without which a producer's end needs a shell, is there from 1.30 on unless it is switched off.
VERSIONS = ["1.30", "1.37"]


class Strict(yaml.SafeLoader):
    """Also refuses a key that stands twice in one mapping, which YAML does not allow and parsers take."""

    def construct_mapping(self, node, deep=False):
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"stands twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def main():
    told = {"objects": [], "faults": [], "unknown": []}
    for thing in yaml.load_all(sys.stdin.read(), Loader=Strict):
        if not thing:
            continue
        told["objects"].append(thing)
        name = f"{thing['kind']} {thing['metadata']['name']}"
        try:
            for version in VERSIONS:
                schemas.validate(thing, version, strict=True)
        except schemas.SchemaNotFoundError:
            told["unknown"].append(thing["kind"])
        except schemas.ValidationError as fault:
            path = ".".join(str(step) for step in fault.path)
            told["faults"].append(f"{name}: {path}: {fault.message}")
    json.dump(told, sys.stdout)


main()
