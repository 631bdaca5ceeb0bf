//! `docs/configuration.md` has a row for every field, with its default, and no other row.

use std::collections::BTreeMap;

use super::{QUEUE, load};
use crate::settings::section::Field;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

/// Every field by section and name, with the default as the page spells it.
fn fields() -> BTreeMap<(String, String), String> {
    let settings = load(&format!("{QUEUE}[tenants.some]\n")).unwrap();
    let mut fields = BTreeMap::new();
    for section in &settings.shown {
        for field in &section.fields {
            let place = (section.kind.to_owned(), field.name.to_owned());
            assert!(fields.insert(place, default_of(field)).is_none(), "{field:?} is read twice");
        }
    }
    fields
}

fn default_of(field: &Field) -> String {
    match (field.default, &field.value) {
        // A default in words.
        (Some(words), _) if words.contains(' ') => words.to_owned(),
        (Some("") | None, None) | (Some(""), Some(_)) => "none".to_owned(),
        (Some(text), _) => format!("`{text}`"),
        (None, Some(_)) => "required".to_owned(),
    }
}

/// The rows of the page: section, field and default.
fn rows(page: &str) -> BTreeMap<(String, String), String> {
    let mut rows = BTreeMap::new();
    let mut section = String::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.trim_matches(['`', '[', ']']);
            section = name.split('.').next().unwrap_or_default().to_owned();
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let (true, [field, default, _meaning]) = (line.starts_with("| `"), &*cells) {
            let place = (section.clone(), field.trim_matches('`').to_owned());
            assert!(rows.insert(place, (*default).to_owned()).is_none(), "{line} stands twice");
        }
    }
    rows
}

#[test]
fn the_page_and_the_code_know_the_same_fields_with_the_same_defaults() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (documented, read) = (rows(&page), fields());
    assert!(read.len() > 50, "only {} fields found", read.len());
    for (place, default) in &read {
        assert_eq!(documented.get(place), Some(default), "{place:?} in docs/configuration.md");
    }
    for place in documented.keys() {
        assert!(read.contains_key(place), "docs/configuration.md has {place:?}, the code does not");
    }
}
