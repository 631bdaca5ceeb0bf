//! Bodies with tools and schemas: JSON that carries JSON, also inside strings.

use super::json::{list, object, spaced, string};
use super::kinds::{chat, message, sentence, talk};
use super::random::Random;

const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "null"];
const NAMES: [&str; 6] = ["city", "unit", "$ref", "__proto__", "constructor", "größe"];

/// A JSON schema for an object of some fields.
fn object_schema(random: &mut Random, fields: usize) -> String {
    let described = (0..fields).map(|at| {
        let about = sentence(random, 3);
        let kind = random.pick(&TYPES);
        (NAMES[at % NAMES.len()], object([("type", string(kind)), ("description", string(&about))]))
    });
    let properties = object(described.collect::<Vec<_>>());
    let required = list(NAMES.iter().take(fields / 2).map(|name| string(name)));
    object([
        ("type", string("object")),
        ("properties", properties),
        ("required", required),
        ("additionalProperties", "false".to_owned()),
    ])
}

fn tool(random: &mut Random, name: &str, fields: usize) -> String {
    let about = sentence(random, 6);
    let parameters = object_schema(random, fields);
    let function =
        [("name", string(name)), ("description", string(&about)), ("parameters", parameters)];
    object([("type", string("function")), ("function", object(function))])
}

/// A call of a tool and its answer, between a question and the next turn.
pub(super) fn tools(random: &mut Random, nth: usize) -> String {
    let offered: Vec<String> =
        (0..=nth / 2).map(|at| tool(random, &format!("tool_{at}"), nth % 6)).collect();
    // Arguments are JSON in a string, with white space of the model's own.
    let arguments = object([
        ("city", string("São Paulo")),
        ("days", "[1,2.0]".to_owned()),
        ("deep", "{\"\":[]}".to_owned()),
    ]);
    let arguments = spaced(random, &arguments);
    let function = object([("name", string("tool_0")), ("arguments", string(&arguments))]);
    let id = format!("call_{:016x}", random.next());
    let call = object([("id", string(&id)), ("type", string("function")), ("function", function)]);
    let called = [
        ("role", string("assistant")),
        ("content", "null".to_owned()),
        ("tool_calls", list([call])),
    ];
    let result = [
        ("role", string("tool")),
        ("tool_call_id", string(&id)),
        ("content", string("{\"ok\": true}\n")),
    ];
    let (question, next) = (sentence(random, 6), sentence(random, 3));
    let messages = [
        message("user", &string(&question)),
        object(called),
        object(result),
        message("user", &string(&next)),
    ];
    let named = "{\"type\":\"function\",\"function\":{\"name\":\"tool_0\"}}";
    let choice = random.pick(&["\"auto\"", "\"required\"", "\"none\"", named]).to_owned();
    let more = [
        ("tools", list(offered)),
        ("tool_choice", choice),
        ("parallel_tool_calls", "false".to_owned()),
    ];
    talk(random, &list(messages), &more)
}

/// An answer that is to follow a schema.
pub(super) fn schema(random: &mut Random, nth: usize) -> String {
    let inner = object_schema(random, 1 + nth % 6);
    let items = object([("type", string("array")), ("items", inner), ("minItems", "0".to_owned())]);
    let pattern = string(r#"^[a-z"\\/]+\d{2,3}$"#);
    let tag = object([
        ("type", string("string")),
        ("pattern", pattern),
        ("enum", "[\"\",null]".to_owned()),
    ]);
    let properties =
        object([("items", items), ("tag", tag), ("next", "{\"$ref\":\"#\"}".to_owned())]);
    let whole = object([
        ("type", string("object")),
        ("properties", properties),
        ("required", "[]".to_owned()),
    ]);
    let named = [
        ("name", string(&format!("shape_{nth}"))),
        ("strict", "true".to_owned()),
        ("schema", whole),
    ];
    let format = object([("type", string("json_schema")), ("json_schema", object(named))]);
    let content = sentence(random, 8);
    chat(random, &string(&content), &[("response_format", format)])
}
