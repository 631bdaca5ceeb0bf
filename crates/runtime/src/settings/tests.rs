//! The settings as a whole.

use super::*;

const QUEUE: &str = "[queues.default]\ntarget = \"http://127.0.0.1:8000\"\n";

fn load(text: &str) -> Result<Settings, Problems> {
    Settings::load(text, &Environment::default())
}

fn faults(text: &str) -> Vec<String> {
    load(text).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_file_means_the_defaults() {
    let settings = load("").unwrap();
    assert!(settings.queues.is_empty());
}
