//! Bodies whose shape or size is the point.

use super::MAX_DEPTH;
use super::json::{list, object, spaced, string};
use super::random::Random;

const WORDS: [&str; 24] = [
    "queue", "lease", "answer", "river", "stone", "seven", "quiet", "paper", "signal", "window",
    "copper", "winter", "engine", "garden", "letter", "bridge", "market", "shadow", "ticket",
    "thunder", "pencil", "orbit", "velvet", "harbour",
];
const MODELS: [&str; 4] = ["demo-model", "org/model-7b:v2", "gpt-4o-mini", "modèle-été"];
const ROLES: [&str; 2] = ["user", "assistant"];

/// The shortest bodies there are.
pub(super) const TINY: [&str; 12] = [
    "{}",
    "{ }",
    r#"{"":0}"#,
    r#"{"n":1}"#,
    r#"{"a":[]}"#,
    r#"{"a":""}"#,
    r#"{"a":null}"#,
    r#"{"model":""}"#,
    r#"{"messages":[]}"#,
    r#"{"messages":null}"#,
    r#"{"model":"m","messages":[]}"#,
    r#"{"messages":[{"role":"user","content":""}]}"#,
];

/// Exact sizes, at and beside the bounds where buffers end.
pub(super) const SIZES: [usize; 12] = [
    1023,
    1024,
    1025,
    4096,
    16_384,
    65_535,
    65_536,
    65_537,
    131_072,
    262_144,
    524_288,
    super::MAX_BODY,
];

/// So many words.
pub(super) fn sentence(random: &mut Random, words: usize) -> String {
    let words: Vec<&str> = (0..words).map(|_| random.pick(&WORDS)).collect();
    words.join(" ") + random.pick(&[".", "?", "!", " …"])
}

/// A message; its content is written already.
pub(super) fn message(role: &str, content: &str) -> String {
    object([("role", string(role).as_str()), ("content", content)])
}

/// A request with one user message and more fields; content and fields are written already.
pub(super) fn chat(random: &mut Random, content: &str, more: &[(&str, String)]) -> String {
    let messages = list([message("user", content)]);
    talk(random, &messages, more)
}

/// A request with these messages and more fields.
pub(super) fn talk(random: &mut Random, messages: &str, more: &[(&str, String)]) -> String {
    let mut fields =
        vec![("model", string(random.pick(&MODELS))), ("messages", messages.to_owned())];
    fields.extend(more.iter().cloned());
    // The order of fields means nothing, and is to be kept.
    let turn = random.below(fields.len());
    fields.rotate_left(turn);
    object(fields)
}

pub(super) fn tiny(_: &mut Random, nth: usize) -> String {
    TINY[nth].to_owned()
}

pub(super) fn plain(random: &mut Random, nth: usize) -> String {
    let content = sentence(random, 3 + nth);
    chat(random, &string(&content), &[("max_tokens", (16 * (nth + 1)).to_string())])
}

/// Lists and objects inside each other, down to the bound at the deepest.
pub(super) fn nested(random: &mut Random, nth: usize) -> String {
    // The body's own braces are one level.
    let levels = if nth == 0 { MAX_DEPTH - 1 } else { random.between(8, MAX_DEPTH - 1) };
    let mut inner = random.pick(&["null", "true", "0", "\"bottom\""]).to_owned();
    for level in 0..levels {
        inner = match random.below(3) {
            0 => list([inner]),
            1 => list(["1".to_owned(), inner, string(random.pick(&WORDS))]),
            _ => object([(format!("level {level}"), inner)]),
        };
    }
    let content = sentence(random, 4);
    chat(random, &string(&content), &[("metadata", inner)])
}

/// Empty lists, objects and texts, each of which some reader takes for another.
pub(super) fn empties(random: &mut Random, nth: usize) -> String {
    const EMPTY: [&str; 8] =
        ["[]", "{}", "\"\"", "null", "[[]]", "[{}]", r#"{"":{}}"#, "[[],{},\"\",null]"];
    let fields = ["tools", "metadata", "stop", "logit_bias", "functions", "user", "", "x"];
    let from = random.below(EMPTY.len());
    let mut field = |at: usize| {
        (fields[(nth + at) % fields.len()], EMPTY[(from + at) % EMPTY.len()].to_owned())
    };
    let more: Vec<(&str, String)> = (0..5).map(&mut field).collect();
    let content = random.pick(&["\"\"", "[]", "null"]);
    chat(random, content, &more)
}

/// White space between tokens, as people and programs write it.
pub(super) fn spaces(random: &mut Random, nth: usize) -> String {
    let (first, second) = (sentence(random, 4), sentence(random, 2 + nth));
    let content = format!("{first}  {{ , }} : [ \\ \" {second}");
    let more = [
        ("stop", list([string(" "), string(","), string("\" , \"")])),
        ("metadata", "{}".to_owned()),
    ];
    let body = chat(random, &string(&content), &more);
    spaced(random, &body)
}

/// A name that comes twice; no reader that builds a map keeps both.
pub(super) fn twice(random: &mut Random, nth: usize) -> String {
    let content = sentence(random, 4);
    let fields = [
        ("model", string("first")),
        ("messages", list([message("user", &string(&content))])),
        ("seed", nth.to_string()),
        ("model", string("second")),
        ("seed", format!("{nth}.0")),
        ("metadata", object([("k", "1"), ("K", "2"), ("k", "3")])),
    ];
    object(fields.into_iter().take(4 + nth % 3))
}

/// A talk of many turns.
pub(super) fn turns(random: &mut Random, nth: usize) -> String {
    let mut messages = vec![message("system", &string("You are brief."))];
    for turn in 0..(3 + 4 * nth) {
        let words = random.between(1, 24);
        let content = sentence(random, words);
        messages.push(message(ROLES[turn % 2], &string(&content)));
    }
    let more = [("temperature", "0.7".to_owned()), ("n", "1".to_owned())];
    talk(random, &list(messages), &more)
}

/// Content in parts, with pictures as data URLs.
pub(super) fn images(random: &mut Random, nth: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = 50 << (nth / 2);
    let mut data = String::from("data:image/png;base64,iVBORw0KGgo");
    data.extend((0..groups * 4).map(|_| char::from(DIGITS[random.below(64)])));
    data.push('=');
    let question = sentence(random, 5);
    let text = object([("type", string("text")), ("text", string(&question))]);
    let url =
        object([("url", string(&data)), ("detail", string(random.pick(&["low", "high", "auto"])))]);
    let image = object([("type", string("image_url")), ("image_url", url)]);
    let parts = if random.flip() { [text, image] } else { [image, text] };
    chat(random, &list(parts), &[])
}

/// Prompts of some thousand words, with line ends.
pub(super) fn long(random: &mut Random, nth: usize) -> String {
    let mut prompt = String::new();
    while prompt.len() < 3_000 * (nth + 1) {
        let words = random.between(4, 30);
        prompt.push_str(&sentence(random, words));
        prompt.push_str(random.pick(&[" ", "\n", "\n\n", "\t"]));
    }
    let question = sentence(random, 6);
    let messages = [message("system", &string(&prompt)), message("user", &string(&question))];
    talk(random, &list(messages), &[("max_completion_tokens", "64".to_owned())])
}

/// Bodies of an exact size.
pub(super) fn sized(random: &mut Random, nth: usize) -> String {
    let frame = chat(random, "\"\"", &[]);
    let missing = SIZES[nth] - frame.len();
    let mut text = String::new();
    while text.len() < missing {
        text.push_str(random.pick(&WORDS));
        text.push(' ');
    }
    text.truncate(missing);
    frame.replacen(r#""content":"""#, &format!(r#""content":"{text}""#), 1)
}
