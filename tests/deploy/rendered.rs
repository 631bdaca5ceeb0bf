//! The manifests as Kubernetes would get them.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::missing::skip;

/// Objects that were read, and what is wrong with them by their schemas.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Rendered {
    /// The objects.
    pub(crate) objects: Vec<Value>,
    /// What the schemas refuse.
    pub(crate) faults: Vec<String>,
    /// Kinds that have no schema here.
    pub(crate) unknown: Vec<String>,
}

/// The interpreter with the checker, installed once a process; or why there is none.
static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("manifests");
    let install = root().join("tests/deploy/install.sh");
    output(Command::new("sh").arg(install).arg(&folder), "").map(|_| folder.join("python"))
});

/// The folder that holds the workspace.
pub(crate) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the root").to_owned()
}

impl Rendered {
    /// What kustomize makes of a folder of `deploy/`. None where there is no kustomize or no checker.
    pub(crate) fn kustomized(folder: &str) -> Option<Self> {
        let path = root().join("deploy").join(folder);
        let standalone = output(Command::new("kustomize").arg("build").arg(&path), "");
        let text = match standalone {
            Err(told) if told.starts_with(NO_PROGRAM) => {
                output(Command::new("kubectl").arg("kustomize").arg(&path), "")
            }
            told => told,
        };
        match text {
            Ok(text) => Self::read(&text),
            Err(told) if told.starts_with(NO_PROGRAM) => {
                skip("manifests can't be rendered: there is neither kustomize nor kubectl");
                None
            }
            Err(told) => panic!("deploy/{folder}: {told}"),
        }
    }

    /// A file of `deploy/` as it stands.
    pub(crate) fn file(path: &str) -> Option<Self> {
        let path = root().join("deploy").join(path);
        Self::read(&std::fs::read_to_string(path).expect("a manifest"))
    }

    /// The Secrets that `secrets.sh` draws.
    pub(crate) fn secrets() -> Option<Self> {
        let script = root().join("deploy/secrets.sh");
        let text = output(Command::new("sh").arg(script).arg("holdfast"), "");
        Self::read(&text.expect("secrets.sh"))
    }

    /// Objects of a text. None where there is no checker.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let python = match &*PYTHON {
            Ok(python) => python,
            Err(told) => {
                skip(&format!(
                    "the schemas can't be installed (python3 with venv or pip, and a PyPI to ask): {told}"
                ));
                return None;
            }
        };
        let check = root().join("tests/deploy/check.py");
        let told = output(Command::new(python).arg(check), text).expect("check.py");
        Some(serde_json::from_str(&told).expect("JSON of check.py"))
    }

    /// Every object of a kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Value> {
        let kind = kind.to_owned();
        self.objects.iter().filter(move |object| object["kind"] == *kind)
    }

    /// One object by kind and name.
    pub(crate) fn object(&self, kind: &str, name: &str) -> &Value {
        let found = self.of_kind(kind).find(|object| object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// The settings file that the roles get.
    pub(crate) fn settings(&self) -> &str {
        let text = self.of_kind("ConfigMap").find_map(|map| map["data"]["holdfast.toml"].as_str());
        text.expect("a ConfigMap with holdfast.toml")
    }
}

/// How the error of a program that is not there begins.
const NO_PROGRAM: &str = "there is no ";

/// Runs a tool with this standard input and gives what it prints; its complaints are the error.
fn output(command: &mut Command, input: &str) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(err) if err.kind() == ErrorKind::NotFound => {
            return Err(format!("{NO_PROGRAM}{program}"));
        }
        started => started.map_err(|err| format!("{program}: {err}"))?,
    };
    let mut pipe = child.stdin.take().expect("a pipe");
    // It reads all of its input before it prints: nothing can get stuck.
    pipe.write_all(input.as_bytes()).map_err(|err| format!("{program}: {err}"))?;
    drop(pipe);
    let done = child.wait_with_output().map_err(|err| format!("{program}: {err}"))?;
    if done.status.success() {
        return Ok(String::from_utf8(done.stdout).expect("text"));
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&done.stderr)))
}

/// A pod of the manifests: what owns it, and its template.
pub(crate) struct Pod<'a> {
    /// Kind and name of what makes it.
    pub(crate) owner: String,
    /// Its labels.
    pub(crate) labels: &'a Value,
    /// Its spec.
    pub(crate) spec: &'a Value,
}

/// Every pod that the objects make.
pub(crate) fn pods(objects: &[Value]) -> Vec<Pod<'_>> {
    let pod = |object: &'_ Value| {
        let at = match object["kind"].as_str()? {
            "Pod" => "",
            "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => "/spec/template",
            "CronJob" => "/spec/jobTemplate/spec/template",
            _ => return None,
        };
        let place = |rest: &str| format!("{at}{rest}");
        Some((place("/metadata/labels"), place("/spec")))
    };
    objects
        .iter()
        .filter_map(|object| {
            let (labels, spec) = pod(object)?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Some(Pod {
                owner: format!("{} {name}", object["kind"].as_str().unwrap_or_default()),
                labels: object.pointer(&labels).unwrap_or(&Value::Null),
                spec: object.pointer(&spec).expect("a pod has a spec"),
            })
        })
        .collect()
}

/// The parts of a list; none where there is none.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
