//! The Dockerfile: what it builds, and what its last stage puts together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::Table;

use crate::rendered::{Rendered, list, pods, root};
use crate::valid::{EXAMPLES, KUSTOMIZED};

/// What links a binary without any library of the system.
pub(crate) const STATIC: &str = "target-feature=+crt-static";

/// The last stage of a Dockerfile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// What it begins with.
    pub(crate) base: String,
    /// What is copied: the stage it comes from, source and target.
    pub(crate) copies: Vec<(Option<String>, String, String)>,
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// User and group.
    pub(crate) user: String,
    /// What stands before the words of a container, and what it runs without any.
    pub(crate) entrypoint: Vec<String>,
    /// The same.
    pub(crate) command: Vec<String>,
}

/// The Dockerfile's text.
pub(crate) fn dockerfile() -> String {
    fs::read_to_string(root().join("deploy/Dockerfile")).expect("a Dockerfile")
}

/// The instructions, each in one line and without comments.
fn instructions(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    joined.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

impl Image {
    /// Reads the last stage.
    ///
    /// # Panics
    ///
    /// On an instruction that this does not know: what it does would be missing in the replay.
    pub(crate) fn read(text: &str) -> Self {
        let mut image = Self::default();
        for line in instructions(text) {
            let (word, rest) = line.split_once(' ').expect("an instruction has words");
            let words: Vec<&str> = rest.split_whitespace().collect();
            if word == "FROM" {
                image = Self { base: words[0].to_owned(), ..Self::default() };
            } else if image.base == "scratch" {
                image.take(word, rest, &words);
            }
        }
        image
    }

    fn take(&mut self, word: &str, rest: &str, words: &[&str]) {
        let list = || serde_json::from_str(rest).expect("words in JSON");
        match (word, words) {
            ("COPY", [source, target]) => {
                self.copies.push((None, (*source).to_owned(), (*target).to_owned()));
            }
            ("COPY", [from, source, target]) => {
                let stage = from.strip_prefix("--from=").expect("a stage").to_owned();
                self.copies.push((Some(stage), (*source).to_owned(), (*target).to_owned()));
            }
            ("ENV", [pair]) => {
                let (name, value) = pair.split_once('=').expect("NAME=VALUE");
                self.environment.push((name.to_owned(), value.to_owned()));
            }
            ("USER", [user]) => self.user = (*user).to_owned(),
            ("ENTRYPOINT", _) => self.entrypoint = list(),
            ("CMD", _) => self.command = list(),
            other => panic!("the replay does not know {other:?}"),
        }
    }

    /// Puts the image together in an empty folder, of `binaries` built as the Dockerfile does.
    pub(crate) fn lay(&self, binaries: &Path, into: &Path) {
        assert_eq!(self.base, "scratch", "the image begins with nothing");
        for (stage, source, target) in &self.copies {
            let from = match (stage.as_deref(), source.as_str()) {
                (Some("build"), "/out/") => binaries.to_owned(),
                // The certificates of the distribution are the same in every Debian.
                (Some("build"), path) if path.starts_with("/etc/ssl/") => path.into(),
                (None, path) => root().join(path),
                other => panic!("the replay does not know where {other:?} comes from"),
            };
            copy(&from, &into.join(target.trim_start_matches('/')), target.ends_with('/'));
        }
    }
}

/// Copies as COPY does: what a folder holds, or a file into a folder.
fn copy(from: &Path, to: &Path, into: bool) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder") {
            let entry = entry.expect("an entry");
            copy(&entry.path(), &to.join(entry.file_name()), false);
        }
        return;
    }
    let to = if into { to.join(from.file_name().expect("a name")) } else { to.to_owned() };
    fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    fs::copy(from, to).expect("a copy");
}

/// The programs that the build stage hands over.
pub(crate) fn programs(text: &str) -> BTreeSet<String> {
    let line = instructions(text).into_iter().find(|line| line.contains("for name in ")).unwrap();
    let names = line.split("for name in ").nth(1).unwrap().split(';').next().unwrap();
    names.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_last_stage_is_read_whole() {
    let text = "FROM a AS build\nRUN x && \\\n    y\n# c\nFROM scratch\nCOPY --from=build /out/ /bin/\nCOPY a /b\n\
        ENV PATH=/bin\nUSER 1:2\nCMD [\"x\", \"y\"]\n";
    let read = Image::read(text);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(read.copies[0], (Some("build".to_owned()), "/out/".to_owned(), "/bin/".to_owned()));
    assert_eq!(read.copies[1], (None, "a".to_owned(), "/b".to_owned()));
    assert_eq!((read.environment, read.user.as_str()), (vec![pair("PATH", "/bin")], "1:2"));
    assert_eq!(read.command, ["x", "y"]);
}

#[test]
fn the_image_has_every_program_that_a_container_starts_and_each_is_built() {
    let text = dockerfile();
    let programs = programs(&text);
    let image = Image::read(&text);
    assert_eq!(image.entrypoint, [""; 0], "the first word of a container is the program");
    assert!(programs.contains(&image.command[0]));
    let mut rendered = Vec::new();
    for folder in KUSTOMIZED {
        let Some(read) = Rendered::kustomized(folder) else { return };
        rendered.push(read);
    }
    for file in EXAMPLES {
        let Some(read) = Rendered::file(file) else { return };
        rendered.push(read);
    }
    let mut started = BTreeSet::new();
    for pod in rendered.iter().flat_map(|read| pods(&read.objects)) {
        for container in list(&pod.spec["containers"]) {
            let ours = container["image"].as_str().unwrap().contains("/holdfast:");
            let first = container["args"][0].as_str();
            started.extend(first.filter(|_| ours).map(str::to_owned));
            let (uid, gid) = image.user.split_once(':').unwrap();
            let context = &pod.spec["securityContext"];
            assert_eq!(context["runAsUser"].to_string(), uid, "{}", pod.owner);
            assert_eq!(context["runAsGroup"].to_string(), gid, "{}", pod.owner);
        }
    }
    assert_eq!(started, programs);
    let built: BTreeSet<String> = binaries_of_packages(&text);
    assert_eq!(built, programs);
}

/// The programs of the packages that the build names.
fn binaries_of_packages(text: &str) -> BTreeSet<String> {
    let build = instructions(text).into_iter().find(|line| line.contains("cargo build")).unwrap();
    let packages: Vec<&str> =
        build.split(" -p ").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    let manifests = fs::read_dir(root().join("crates")).unwrap();
    let manifests =
        manifests.map(|entry| fs::read_to_string(entry.unwrap().path().join("Cargo.toml")));
    manifests
        .map(|text| text.unwrap().parse::<Table>().unwrap())
        .filter(|it| packages.contains(&it["package"]["name"].as_str().unwrap()))
        .map(|it| {
            let named = it.get("bin").map(|bins| bins[0]["name"].clone());
            let name = named.unwrap_or_else(|| it["package"]["name"].clone());
            name.as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn the_image_is_built_locked_static_and_by_the_rust_of_the_workspace() {
    let text = dockerfile();
    let build = instructions(&text).into_iter().find(|line| line.contains("cargo build")).unwrap();
    for part in ["--release", "--locked", STATIC] {
        assert!(build.contains(part), "{part}: {build}");
    }
    let workspace: Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let rust = workspace["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(text.contains(&format!("ARG RUST={rust}-")), "the Dockerfile builds with another Rust");
}

#[test]
fn the_build_gets_the_workspace_and_nothing_that_lies_beside_it() {
    let ignored = fs::read_to_string(root().join("deploy/Dockerfile.dockerignore")).unwrap();
    let lines: Vec<&str> = ignored.lines().collect();
    assert_eq!(lines[0], "*", "everything stays out that is not named");
    for needed in ["!Cargo.toml", "!Cargo.lock", "!crates", "!tests"] {
        assert!(lines.contains(&needed), "{needed}");
    }
    assert!(!lines.iter().any(|line| line.contains("target") || line.contains(".git")));
}
