//! Requests of many kinds, each of its own bytes.

use bytes::Bytes;

/// Each kind: its name, and what its messages and parameters are. `{id}` names the request.
const KINDS: &[&str] = &[
    // Short.
    r#""messages":[{"role":"user","content":"Say hello to {id}"}]"#,
    // A conversation.
    r#""messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What is 2 + 2?"},{"role":"assistant","content":"4"},{"role":"user","content":"And twice that, {id}?"}]"#,
    // Many scripts, and signs beyond the basic plane.
    r#""messages":[{"role":"user","content":"{id}: Grüße, 你好, שלום, नमस्ते, 👩‍🚀🇺🇳 and a \u0000 byte"}]"#,
    // Numbers that no float holds.
    r#""messages":[{"role":"user","content":"{id}"}],"seed":9007199254740993,"logit_bias":{"50256":-100},"big":12345678901234567890123,"zero":-0.0,"tiny":5e-324"#,
    // Tools, with nested schemas.
    r#""messages":[{"role":"user","content":"Weather for {id}?"}],"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"at":{"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"}}}},"required":[]}}}]"#,
    // What is empty stays empty.
    r#""messages":[{"role":"user","content":"{id}"}],"tools":[],"metadata":{},"stop":[null],"user_note":"""#,
    // Escapes, and spaces where nobody needs them.
    r#""messages" :  [ {"role":"user", "content":"{id}\t\"quoted\" \\ back \/ slash \u00e9 \ud83d\ude00\r\n"} ]"#,
    // Content in parts.
    r#""messages":[{"role":"user","content":[{"type":"text","text":"Describe {id}"},{"type":"text","text":"in one word"}]}],"temperature":0.1000000000000000055"#,
];

/// How many of the requests carry a long prompt: each so many-th.
const LONG_EVERY: usize = 10;
/// How long it is, in bytes.
const LONG: usize = 20_000;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its id; other runs have others.
    pub(crate) id: String,
    /// What the inference server must get, byte for byte.
    pub(crate) payload: Bytes,
}

impl Request {
    /// Each of them: the kinds in turn, some with long prompts.
    pub(crate) fn all(run: u32, count: usize) -> Vec<Self> {
        (1..=count).map(|number| Self::new(run, number)).collect()
    }

    fn new(run: u32, number: usize) -> Self {
        let id = format!("demo-{run:08x}-{number:04}");
        let kind = KINDS[number % KINDS.len()].replace("{id}", &id);
        let payload = if number.is_multiple_of(LONG_EVERY) {
            let prompt = "All work and no play. ".repeat(LONG / 22);
            format!(r#"{{"model":"stand-in","user":"{id}","prompt":"{prompt}",{kind}}}"#)
        } else {
            format!(r#"{{"model":"stand-in","user":"{id}",{kind}}}"#)
        };
        Self { id, payload: payload.into() }
    }

    /// The body of its submit. Its deadline is far beyond the demo's end.
    pub(crate) fn item(&self) -> Bytes {
        let head = format!(r#"{{"id":"{}","timeout":"30m","payload":"#, self.id);
        [head.as_bytes(), &self.payload, b"}"].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_request_is_json_and_no_two_have_the_same_bytes() {
        let requests = Request::all(7, 300);
        for request in &requests {
            let item: serde_json::Value = serde_json::from_slice(&request.item()).unwrap();
            assert_eq!(item["id"], request.id.as_str());
            assert!(item["payload"]["messages"].to_string().contains(&request.id));
        }
        let bytes: BTreeSet<&Bytes> = requests.iter().map(|request| &request.payload).collect();
        assert_eq!(bytes.len(), 300);
        assert!(requests.iter().any(|request| request.payload.len() > 19_000));
    }

    #[test]
    fn another_run_has_other_ids() {
        assert_ne!(Request::all(1, 1)[0].id, Request::all(2, 1)[0].id);
    }
}
