//! Puts the document together.

use axum::http::Method;
use holdfast_core::script::MAX_ITEMS;
use serde_json::{Map, Value, json};

use super::operation::{Answer, Operation, Parameter};
use super::schemas::{Schemas, id, name, state};
use crate::problem::Kind;

/// What any call may be refused for.
const OF_ALL: [Kind; 6] = [
    Kind::InvalidQuery,
    Kind::InvalidHeader,
    Kind::Unauthorized,
    Kind::Forbidden,
    Kind::Internal,
    Kind::Draining,
];

/// The name of the one way to say who calls.
const KEY: &str = "key";

/// The document about these routes.
pub(super) fn of(entries: &[(&'static str, Method, Operation)]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for (path, method, operation) in entries {
        let item = paths.entry(*path).or_insert_with(|| json!({ "parameters": in_path(path) }));
        item[method.as_str().to_ascii_lowercase()] = entry(path, operation, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": holdfast_runtime::VERSION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        // Where the service has no keys, everybody may call.
        "security": [{}, { KEY: [] }],
        "components": {
            "schemas": schemas.finish(),
            "securitySchemes": { KEY: { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// The parameters that a path names itself.
fn in_path(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let shape = |part: &str| match part {
        "queue" => name(),
        // Operators see adopted ids as well, which hold anything.
        _ if is_for_operators(path) => json!({ "type": "string", "minLength": 1 }),
        _ => id(),
    };
    names
        .map(|part| json!({ "name": part, "in": "path", "required": true, "schema": shape(part) }))
        .collect()
}

fn is_for_operators(path: &str) -> bool {
    path.starts_with("/v1/ops/")
}

fn entry(path: &str, operation: &Operation, schemas: &mut Schemas) -> Value {
    let Operation { id, summary, parameters, body, answers, refusals } = operation;
    let parameters: Vec<Value> = parameters.iter().map(parameter).collect();
    let mut entry = json!({ "operationId": id, "summary": summary, "parameters": parameters });
    let content: Map<String, Value> = body
        .iter()
        .map(|input| (input.kind.to_owned(), json!({ "schema": schemas.of(input.shape) })))
        .collect();
    if !content.is_empty() {
        entry["requestBody"] = json!({ "required": true, "content": content });
    }
    let mut responses: Map<String, Value> = Map::new();
    for answer in *answers {
        responses.insert(answer.status.to_string(), response(answer, schemas));
    }
    for (status, kinds) in by_status(path, refusals) {
        responses.insert(status.to_string(), refusal(&kinds, schemas));
    }
    entry["responses"] = Value::Object(responses);
    entry
}

fn parameter(parameter: &Parameter) -> Value {
    let (name, place, about, schema) = match parameter {
        Parameter::Wait => (
            "wait",
            "query",
            "Seconds to wait for the end; shortened to what is granted.",
            json!({ "type": "integer", "minimum": 0 }),
        ),
        Parameter::Generation => (
            "generation",
            "query",
            "The one generation that is meant.",
            json!({ "type": "string", "pattern": "^[0-9a-fA-F]{16}$" }),
        ),
        Parameter::State => ("state", "query", "Only those in one state.", state()),
        Parameter::Cursor => (
            "cursor",
            "query",
            "Where to go on, as the page before gave it.",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" }),
        ),
        Parameter::Limit => (
            "limit",
            "query",
            "The most rows of a page.",
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_ITEMS }),
        ),
        Parameter::Prefer => (
            "Prefer",
            "header",
            "wait=N: seconds to wait for the end (RFC 7240).",
            json!({ "type": "string", "examples": ["wait=1"] }),
        ),
        Parameter::IdempotencyKey => (
            "Idempotency-Key",
            "header",
            "The id, where the body has none; bare, or in quotes.",
            json!({ "type": "string", "examples": ["hello-2"] }),
        ),
        Parameter::Tenant => ("tenant", "query", "Whose; default if nothing is said.", name()),
        Parameter::Queue => ("queue", "query", "Only of this queue.", name()),
        Parameter::Rows => ("limit", "query", "The most rows; 100 if nothing is said.", rows()),
        Parameter::Outcome => ("outcome", "query", "Only with this outcome.", text()),
        Parameter::Failure => {
            ("failure", "query", "Only those whose last failure has this code.", text())
        }
        Parameter::Older => {
            ("older_seconds", "query", "Only those that ended so long ago, or longer.", count())
        }
        Parameter::Younger => {
            ("younger_seconds", "query", "Only those that ended so long ago, or less.", count())
        }
        Parameter::DeadCursor => {
            ("cursor", "query", "Where to go on, as the page before gave it.", text())
        }
    };
    json!({ "name": name, "in": place, "required": false, "description": about, "schema": schema })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn rows() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 1000 })
}

fn response(answer: &Answer, schemas: &mut Schemas) -> Value {
    let Answer { when, kind, shape, headers, leads_to, .. } = answer;
    let headers: Map<String, Value> = headers
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "schema": { "type": "string" } })))
        .collect();
    let links: Map<String, Value> =
        leads_to.iter().map(|to| ((*to).to_owned(), link(to))).collect();
    json!({
        "description": when,
        "content": { *kind: { "schema": schemas.of(*shape) } },
        "headers": headers,
        "links": links,
    })
}

/// From the status of a request to another call on it.
fn link(operation: &str) -> Value {
    json!({
        "operationId": operation,
        "parameters": { "path.queue": "$response.body#/queue", "path.id": "$response.body#/id" },
    })
}

/// The refusals of an operation, those of any call among them, by their status.
fn by_status(path: &str, refusals: &[Kind]) -> Vec<(u16, Vec<Kind>)> {
    let mut of_path = Vec::new();
    if is_for_operators(path) {
        of_path.push(Kind::ForeignHost);
    }
    if path.contains("{queue}") {
        of_path.extend([Kind::InvalidName, Kind::UnknownQueue]);
    }
    if path.contains("{id}") {
        of_path.extend([Kind::InvalidId, Kind::UnknownRequest]);
    }
    let mut all: Vec<(u16, Vec<Kind>)> = Vec::new();
    for kind in OF_ALL.iter().chain(&of_path).chain(refusals).copied() {
        let status = kind.status().as_u16();
        match all.iter_mut().find(|(known, _)| *known == status) {
            Some((_, kinds)) if kinds.contains(&kind) => {}
            Some((_, kinds)) => kinds.push(kind),
            None => all.push((status, vec![kind])),
        }
    }
    all
}

fn refusal(kinds: &[Kind], schemas: &mut Schemas) -> Value {
    let titles: Vec<&str> = kinds.iter().map(|kind| kind.title()).collect();
    let mut refusal = json!({
        "description": titles.join("; "),
        "content": { "application/problem+json": { "schema": schemas.problem(kinds) } },
    });
    if kinds.iter().any(|kind| kind.retry_after().is_some()) {
        let seconds = json!({ "type": "integer", "minimum": 1, "maximum": 120 });
        refusal["headers"] = json!({ "Retry-After": { "required": true, "schema": seconds } });
    }
    refusal
}

#[cfg(test)]
mod tests;
