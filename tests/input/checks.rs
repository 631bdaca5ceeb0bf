use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::*;

const FILE: &[u8] = include_bytes!("requests.jsonl");

/// Other seeds than the committed one have to do too.
const SEEDS: [u64; 4] = [SEED, 0, 1, u64::MAX];

#[test]
fn the_committed_file_is_what_the_generator_makes() {
    assert!(
        FILE == lines(SEED),
        "write it anew with: cargo test -p holdfast-tests -- --ignored writes_the_file_anew"
    );
}

#[test]
#[ignore = "writes into the source tree"]
fn writes_the_file_anew() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/input/requests.jsonl");
    std::fs::write(path, lines(SEED)).unwrap();
}

#[test]
fn there_are_at_least_200_requests_and_at_least_10_of_each_kind() {
    for seed in SEEDS {
        let bodies = bodies(&lines(seed));
        let ids: BTreeSet<&String> = bodies.iter().map(|(id, _)| id).collect();
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (id, _) in &bodies {
            *kinds.entry(id.rsplit_once('-').unwrap().0).or_default() += 1;
        }
        assert!(bodies.len() >= 200 && kinds.len() >= 12, "{kinds:?}");
        assert!(kinds.values().all(|count| *count >= 10), "{kinds:?}");
        assert_eq!(ids.len(), bodies.len(), "each id once");
    }
}

#[test]
fn each_line_is_a_batch_line_whose_body_stands_where_the_file_says() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line<'a> {
        custom_id: String,
        method: String,
        url: String,
        #[serde(borrow)]
        body: &'a RawValue,
    }
    for seed in SEEDS {
        let file = lines(seed);
        let bodies = bodies(&file);
        let text = std::str::from_utf8(&file).unwrap();
        assert!(text.ends_with('\n') && !text.contains('\r') && !text.starts_with('\u{feff}'));
        assert_eq!(text.trim_end().split('\n').count(), bodies.len());
        for (line, (id, body)) in text.trim_end().split('\n').zip(&bodies) {
            let read: Line<'_> = serde_json::from_str(line).unwrap();
            assert_eq!((read.method.as_str(), read.url.as_str()), ("POST", "/v1/chat/completions"));
            assert_eq!(&read.custom_id, id);
            assert!(read.body.get().as_bytes() == body, "{id}");
        }
    }
}

#[test]
fn each_body_is_an_object_without_lone_surrogates_and_not_too_deep() {
    for seed in SEEDS {
        let bodies = bodies(&lines(seed));
        let mut deepest = 0;
        for (id, body) in &bodies {
            let text = std::str::from_utf8(body).unwrap();
            assert!(text.starts_with('{') && text.ends_with('}'), "{id}");
            let levels = depth(text, id);
            assert!(levels <= MAX_DEPTH, "{id}: {levels}");
            deepest = deepest.max(levels);
        }
        assert_eq!(deepest, MAX_DEPTH, "the bound itself is there");
    }
}

/// The levels of a value, by a reader that takes every string apart, also those of names.
fn depth(json: &str, id: &str) -> usize {
    let json = json.trim();
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json).unwrap();
        return 1 + items.iter().map(|item| depth(item.get(), id)).max().unwrap_or(0);
    }
    if json.starts_with('{') {
        let Fields(values) = serde_json::from_str(json).unwrap_or_else(|err| panic!("{id}: {err}"));
        return 1 + values.iter().map(|value| depth(value.get(), id)).max().unwrap_or(0);
    }
    if json.starts_with('"') {
        // A string type can't hold half a pair, so this is where one would fail.
        let _: String = serde_json::from_str(json).unwrap_or_else(|err| panic!("{id}: {err}"));
    }
    0
}

/// All values of an object, of names that come twice too.
struct Fields<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> serde::de::Visitor<'de> for All {
            type Value = Vec<&'de RawValue>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some((_, value)) = map.next_entry::<String, &'de RawValue>()? {
                    values.push(value);
                }
                Ok(values)
            }
        }
        json.deserialize_map(All).map(Fields)
    }
}

#[test]
fn bodies_are_from_2_bytes_to_1_megabyte_and_the_file_stays_small() {
    for seed in SEEDS {
        let file = lines(seed);
        let sizes: Vec<usize> = bodies(&file).iter().map(|(_, body)| body.len()).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&2), Some(&MAX_BODY)));
        assert_eq!(sizes.iter().filter(|size| **size > MAX_BODY / 2).count(), 1);
        for size in kinds::SIZES {
            assert!(sizes.contains(&size), "{size}");
        }
        assert!(file.len() < 4_000_000, "{}", file.len());
    }
}

#[test]
fn almost_every_kind_is_changed_by_a_reader_that_writes_again() {
    let all = bodies(FILE);
    let changed = |kind: &str| {
        let mut of_kind = all.iter().filter(|(id, _)| id.starts_with(kind));
        of_kind.any(|(_, body)| match serde_json::from_slice::<serde_json::Value>(body) {
            Ok(value) => serde_json::to_vec(&value).unwrap() != *body,
            Err(_) => true,
        })
    };
    for (kind, _, _) in KINDS {
        assert!(changed(kind), "{kind}");
    }
}

#[test]
fn what_is_named_is_there() {
    let has = |needle: &str| FILE.windows(needle.len()).any(|window| window == needle.as_bytes());
    for needle in [
        "9007199254740993",
        "1e400",
        ":-0.0",
        "\\u0000",
        "\\ud83e\\udd80",
        "\\/",
        "🦀",
        "e\u{301}",
        "\u{2028}",
        "\u{202b}",
        "\t",
        "data:image/png;base64,",
        "tool_calls",
        "json_schema",
        "logit_bias",
        "[[],{},\"\",null]",
    ] {
        assert!(has(needle), "{needle:?}");
    }
}
