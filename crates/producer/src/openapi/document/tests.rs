use super::*;
use crate::openapi::Shape;

const ENTRY: Operation = Operation {
    id: "submitThing",
    summary: "Submit",
    parameters: &[Parameter::Wait],
    body: &[super::super::Input { kind: "application/json", shape: Shape::Item }],
    answers: &[Answer::json(202, "Kept", Shape::Status).leading_to(&["getThing"])],
    refusals: &[Kind::QueueFull, Kind::StoreFull, Kind::InvalidItem],
};

fn document() -> Value {
    of(&[("/v1/queues/{queue}/things/{id}", Method::POST, ENTRY)])
}

#[test]
fn an_entry_tells_parameters_body_answers_and_refusals() {
    let document = document();
    let path = &document["paths"]["/v1/queues/{queue}/things/{id}"];
    let names: Vec<&str> = path["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(names, ["queue", "id"]);
    let entry = &path["post"];
    assert_eq!(entry["operationId"], "submitThing");
    assert_eq!(entry["parameters"][0]["name"], "wait");
    let full = &entry["responses"]["429"];
    let types =
        &full["content"]["application/problem+json"]["schema"]["properties"]["type"]["enum"];
    assert_eq!(*types, json!(["/problems/queue-full", "/problems/store-full"]));
    assert_eq!(full["headers"]["Retry-After"]["schema"]["maximum"], 120);
    assert_eq!(entry["responses"]["400"]["headers"], Value::Null);
    let link = &entry["responses"]["202"]["links"]["getThing"];
    assert_eq!(link["parameters"]["path.id"], "$response.body#/id");
}

#[test]
fn every_shape_that_is_pointed_to_is_told() {
    let document = document();
    let text = document.to_string();
    let told = document["components"]["schemas"].as_object().unwrap();
    for rest in text.split("\"#/components/schemas/").skip(1) {
        let name = rest.split('"').next().unwrap();
        assert!(told.contains_key(name), "{name} of {:?}", told.keys().collect::<Vec<_>>());
    }
    assert!(told.contains_key("Item") && told.contains_key("Problem"));
}

#[test]
fn an_item_is_told_as_it_is_read() {
    let document = document();
    let item = &document["components"]["schemas"]["Item"];
    assert_eq!(item["additionalProperties"], false);
    let fields: Vec<&String> = item["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 8, "{fields:?}");
}
