//! Reads from a request the little that an answer depends on.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How much of the last user message is repeated, in characters.
const ECHO: usize = 80;

/// What a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Its `model`, if it is a string.
    pub(crate) model: Option<String>,
    /// The head of the last user message, of `prompt` or of `input`; empty if there is none.
    pub(crate) echo: String,
    pub(crate) stream: bool,
    /// `input` as it stands, for embeddings.
    pub(crate) inputs: Vec<String>,
}

/// The body is no JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAnObject;

/// Reads a body. Whatever is odd inside the object is passed over, not judged.
pub(crate) fn read(body: &[u8]) -> Result<Asked, NotAnObject> {
    let text = std::str::from_utf8(body).map_err(|_| NotAnObject)?;
    let names = ["model", "messages", "prompt", "input", "stream"];
    let [model, messages, prompt, input, stream] = fields(text, &names).ok_or(NotAnObject)?;
    let said = messages
        .and_then(last_of_user)
        .or_else(|| last_text(prompt?))
        .or_else(|| last_text(input?));
    Ok(Asked {
        model: model.and_then(string),
        echo: said.unwrap_or_default().chars().take(ECHO).collect(),
        stream: stream.is_some_and(|raw| raw.get() == "true"),
        inputs: input.map(parts).unwrap_or_default(),
    })
}

fn last_of_user(messages: &RawValue) -> Option<String> {
    let messages: Vec<&RawValue> = serde_json::from_str(messages.get()).ok()?;
    messages.into_iter().rev().find_map(|message| {
        let [role, content] = fields(message.get(), &["role", "content"])?;
        if string(role?)? == "user" { last_text(content?) } else { None }
    })
}

/// A string; or the last string, or text of a part, in a list.
fn last_text(raw: &RawValue) -> Option<String> {
    if let Some(text) = string(raw) {
        return Some(text);
    }
    let list: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    list.into_iter().rev().find_map(|part| {
        string(part).or_else(|| {
            let [text] = fields(part.get(), &["text"])?;
            string(text?)
        })
    })
}

/// The inputs to embed: a list of strings or of token lists is many, all else is one.
fn parts(raw: &RawValue) -> Vec<String> {
    match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(list) if list.iter().all(|it| it.get().starts_with(['"', '['])) => {
            list.into_iter().map(|it| it.get().to_owned()).collect()
        }
        _ => vec![raw.get().to_owned()],
    }
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// The named fields of an object, as they stand. Of a name that comes twice the last counts, as with most
/// readers.
fn fields<'a, const N: usize>(
    text: &'a str,
    names: &[&str; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = Fields(names).deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(found)
}

struct Fields<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(name) = map.next_key::<String>()? {
            let wanted = self.0.iter().zip(&mut found).find(|(wanted, _)| **wanted == name);
            match wanted {
                Some((_, place)) => *place = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(body: &str) -> String {
        read(body.as_bytes()).unwrap().echo
    }

    #[test]
    fn the_last_user_message_is_repeated_in_whatever_form_it_stands() {
        let before = r#"{"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"hm"},"#;
        assert_eq!(
            echo(&format!(r#"{before}{{"content":"laĺst\n","role":"user"}}]}}"#)),
            "laĺst\n"
        );
        let parts =
            r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url"}]}"#;
        assert_eq!(echo(&format!("{before}{parts}]}}")), "look");
        assert_eq!(echo(&format!(r#"{before}{{"role":"system","content":"no"}}]}}"#)), "first");
        assert_eq!(echo(r#"{"prompt":["a","b"]}"#), "b");
        assert_eq!(echo(r#"{"messages":[{"role":"user","content":"é"}],"seed":1e400}"#), "é");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "🦀".repeat(100));
        assert_eq!(echo(&body), "🦀".repeat(ECHO));
    }

    #[test]
    fn odd_objects_are_answered_and_anything_else_is_not() {
        for odd in
            ["{}", r#"{"messages":7}"#, r#"{"messages":[7,{"role":"user"}],"model":[]}"#, " {\n} "]
        {
            assert_eq!(read(odd.as_bytes()), Ok(Asked::default()), "{odd}");
        }
        for bad in ["", "[]", "null", "{", "{}x", r#"{"a":NaN}"#] {
            assert_eq!(read(bad.as_bytes()), Err(NotAnObject), "{bad}");
        }
        assert_eq!(read(b"{\"a\":\"\xff\"}"), Err(NotAnObject));
        let deep = format!("{{\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(deep.as_bytes()).is_ok(), "depth costs no stack");
    }

    #[test]
    fn a_name_that_comes_twice_counts_as_its_last() {
        assert_eq!(read(br#"{"model":"a","model":"b"}"#).unwrap().model.unwrap(), "b");
    }

    #[test]
    fn each_input_of_a_list_is_embedded() {
        let inputs = |body: &str| read(body.as_bytes()).unwrap().inputs.len();
        assert_eq!(inputs(r#"{"input":"one"}"#), 1);
        assert_eq!(inputs(r#"{"input":["one","two"]}"#), 2);
        assert_eq!(inputs(r#"{"input":[1,2,3]}"#), 1);
        assert_eq!(inputs(r#"{"input":[[1],[2,3]]}"#), 2);
    }
}
