use std::{collections::BTreeSet, fs, path::Path};

use super::*;

/// The lines of a header that number keys or arguments: `KEYS[1] …`, `KEYS[2] …`.
fn numbered(header: &str, name: &str) -> Vec<usize> {
    let prefix = format!("{name}[");
    let number = |line: &str| line.strip_prefix(&prefix)?.split(']').next()?.parse().ok();
    header.lines().filter_map(number).collect()
}

#[test]
fn each_header_says_what_the_type_says() {
    for script in all() {
        let (flags, rest) = script.source.split_once('\n').unwrap();
        assert!(flags.starts_with("#!lua"), "{}: a flag line first", script.name);
        let needs_room = matches!(script.name, "submit" | "redrive");
        assert_eq!(
            flags.contains("allow-oom"),
            !needs_room,
            "{}: allow-oom on all but submit and redrive",
            script.name
        );
        let header = rest.strip_prefix("--[[\n").unwrap().split("\n]]").next().unwrap();
        assert!(
            header.starts_with(&format!("{}: ", script.name)),
            "{}: its name first",
            script.name
        );
        assert_eq!(
            numbered(header, "KEYS"),
            (1..=script.keys).collect::<Vec<_>>(),
            "{}",
            script.name
        );
        assert_eq!(
            numbered(header, "ARGV"),
            (1..=script.head).collect::<Vec<_>>(),
            "{}",
            script.name
        );
        let rows = format!("\nARGV rows of {}:", script.row);
        assert_eq!(header.contains("\nARGV rows of "), script.row > 0, "{}", script.name);
        assert!(
            script.row == 0 || header.contains(&rows),
            "{}: rows of {}",
            script.name,
            script.row
        );
        assert!(header.contains("\nReturns ") && header.contains("\nHolds "), "{}", script.name);
    }
}

#[test]
fn every_lua_file_is_a_script_of_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let name = |entry: fs::DirEntry| {
        entry.file_name().into_string().unwrap().strip_suffix(".lua").map(str::to_owned)
    };
    let files: BTreeSet<String> =
        fs::read_dir(folder).unwrap().filter_map(|entry| name(entry.unwrap())).collect();
    let listed: BTreeSet<String> = all().into_iter().map(|script| script.name.to_owned()).collect();
    assert_eq!(files, listed);
}

#[test]
fn no_script_speaks_json_or_builds_a_key() {
    for script in all() {
        for word in ["cjson", "hf1:", "cmsgpack"] {
            assert!(!script.text.contains(word), "{}: {word}", script.name);
        }
    }
}
