//! `key new`, `key ls`: callers' keys. Nothing is asked or told over the network.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_runtime::keys::{Key, KeyFile, KeyLine};
use serde_json::json;

use crate::args::{Form, KeyLsArgs, KeyNewArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::table::table;
use crate::time;

/// Makes a key and prints it, this once, with the line that lets it in.
pub(crate) fn new(args: &KeyNewArgs, output: &mut Output) -> Result<(), Failure> {
    let key = Key::random();
    let line = KeyLine {
        tenant: args.tenant.clone(),
        scopes: args.scopes,
        expires: args.expires_in.map(|good| (since_1970() + good).as_secs()),
        name: args.name.as_ref().map(ToString::to_string),
        hash: key.hash(),
    };
    if args.output == Form::Json {
        return output.json(&json!({ "key": key.expose(), "line": line.to_string() }));
    }
    let key = key.expose();
    output.text(&format!(
        "The key, shown this once, for its caller:\n\n{key}\n\n\
         The line for the file that producer.keys_file names:\n\n{line}\n"
    ))
}

/// Checks a file whole and lists its keys by what is known of them.
pub(crate) fn list(args: &KeyLsArgs, output: &mut Output) -> Result<(), Failure> {
    let place = args.file.display();
    let content =
        std::fs::read(&args.file).map_err(|err| Failure::of_read(place.to_string(), &err))?;
    let keys = KeyFile::read(&content)
        .map_err(|faults| Failure::Input { place: place.to_string(), rule: faults.to_string() })?;
    let now_ms = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
    if args.output == Form::Json {
        let rows: Vec<_> = keys.lines().iter().map(|line| json_row(line, now_ms)).collect();
        return output.json(&rows);
    }
    let rows = keys.lines().iter().map(|line| row(line, now_ms)).collect();
    output.text(&table(&["TENANT", "SCOPES", "NAME", "EXPIRES", "SHA256"], rows))
}

fn json_row(line: &KeyLine, now_ms: u64) -> serde_json::Value {
    json!({
        "tenant": line.tenant.as_str(),
        "scopes": line.scopes.to_string().split(',').collect::<Vec<_>>(),
        "name": line.name,
        "expires": line.expires,
        "expired": line.has_expired(now_ms),
        "sha256": line.hash.to_string(),
    })
}

fn row(line: &KeyLine, now_ms: u64) -> Vec<String> {
    let expires = line.expires.map(|at| time::utc(at.saturating_mul(1000)));
    let expires = match expires {
        Some(at) if line.has_expired(now_ms) => format!("{at} (over)"),
        Some(at) => at,
        None => "never".to_owned(),
    };
    let name = line.name.clone().unwrap_or_default();
    // Enough to tell one from another.
    let hash = line.hash.to_string().chars().take(12).collect();
    vec![line.tenant.to_string(), line.scopes.to_string(), name, expires, hash]
}

#[expect(clippy::disallowed_methods, reason = "people set ends of keys by the clock on the wall")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
