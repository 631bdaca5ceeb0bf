//! What operators keep in files: keys, settings.

use holdfast_runtime::keys::{Key, KeyFile};
use holdfast_runtime::{Environment, Settings};
use toml::Table;

use super::rules::{is_name, tells_no_secret};
use crate::draws::Draws;

/// A file of keys.
pub(super) fn keys(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        presented(text);
    }
    match KeyFile::read(bytes) {
        Ok(file) => {
            let mut text = "# a comment\n".to_owned();
            for line in file.lines() {
                assert!(is_name(line.tenant.as_str()));
                assert!(line.name.as_deref().is_none_or(is_name));
                assert!(line.expires != Some(0));
                text.push_str(&format!("{line}\n"));
            }
            let again = KeyFile::read(text.as_bytes()).expect("what was written is read");
            let told = |file: &KeyFile| file.lines().iter().map(|it| it.to_string()).collect();
            let (once, twice): (Vec<String>, Vec<String>) = (told(&file), told(&again));
            assert_eq!(once, twice);
        }
        Err(refusal) => {
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!(!refusal.0.is_empty());
            assert!(refusal.0.iter().all(|fault| (1..=lines).contains(&fault.line)));
            tells_no_secret(&refusal.to_string());
        }
    }
}

/// A key as a caller presents it.
fn presented(text: &str) {
    let Some(key) = Key::read(text) else { return };
    assert_eq!(key.expose(), text);
    assert!(text.len() >= 4 + 43 && text.is_ascii());
    let line = format!("tenant=t scopes=read sha256={}", key.hash());
    let file = KeyFile::read(line.as_bytes()).expect("a line of a key");
    assert!(file.find(&key).is_some());
}

/// The settings: a file, then variables, each behind a byte that no text has.
pub(super) fn settings(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let Ok(text) = std::str::from_utf8(draws.piece()) else { return };
    let mut variables = Vec::new();
    while !draws.is_empty() {
        let piece = String::from_utf8_lossy(draws.piece()).into_owned();
        let (name, value) = piece.split_once('=').unwrap_or((&piece, ""));
        variables.push((format!("HOLDFAST_{name}"), value.to_owned()));
    }
    let environment = Environment::new(variables);
    match Settings::load(text, &environment) {
        Ok(settings) => {
            let shown = settings.show();
            shown.parse::<Table>().expect("what is shown is TOML");
            // In an address a password stands between these signs.
            assert!(!shown.contains(":S3CRET@"), "{shown}");
            if !shown.contains("***") {
                let again = Settings::load(&shown, &Environment::default());
                assert_eq!(again.map(|again| again.show()), Ok(shown), "shown is what is in force");
            }
        }
        Err(problems) => {
            let told = problems.to_string();
            assert!(!told.is_empty());
            assert!(!told.contains(char::is_control), "one line: {told:?}");
            if text.parse::<Table>().is_err() {
                let alone = Settings::load(text, &Environment::default());
                let told = alone.expect_err("no TOML").to_string();
                assert!(told.contains("is no TOML at line"), "{told}");
                tells_no_secret(&told);
            }
        }
    }
}
