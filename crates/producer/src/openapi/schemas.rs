//! The shapes of bodies and parameters.
//!
//! What the service writes is described by its own types; what it reads, field by field, so that one without a shape does not
//! compile.

use holdfast_core::operate::{
    Acted, DeadLetter, DeadPage, LeaseRow, Overruled, QueueRow, RedriveAsk, Redriven, Rows, Why,
    WorkerRow,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::batch::Line;
use crate::item::{Field, HORIZON, MAX_METADATA};
use crate::list::{Page, State};
use crate::operate::{Limiting, Pausing, Pulling, QueueRows, Releasing};
use crate::problem::{Kind, Told};
use crate::queues::{Described, Queues};
use crate::status::Status;

/// The shape of a body.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// An item to submit.
    Item,
    /// A list of them.
    Items,
    /// Them, one a line.
    ItemLines,
    /// An outcome a line.
    OutcomeLines,
    /// Where a request is.
    Status,
    /// Requests.
    Page,
    /// A queue.
    Queue,
    /// Queues.
    Queues,
    /// What a gateway answered, or a problem under 200.
    Anything,
    /// Queues as operators see them, and one.
    QueueRows,
    QueueRow,
    /// Where a request is and why.
    Why,
    /// Leases, and workers.
    Leases,
    Workers,
    /// A pause or resume, and a limit: what is asked, and what came of it.
    Pausing,
    Limiting,
    Overruled,
    /// A retry-now, and a release: what is asked, and what came of it.
    Pulling,
    Releasing,
    Acted,
    /// Dead letters, and one.
    DeadPage,
    DeadLetter,
    /// A redrive: what is asked, and what came of it.
    RedriveAsk,
    Redriven,
}

/// The shapes that are told under a name, and how others point to them: of what is written, and of what is read.
pub(super) struct Schemas {
    written: SchemaGenerator,
    read: SchemaGenerator,
    has_items: bool,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let generator = |mut settings: SchemaSettings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.into_generator()
        };
        let settings = SchemaSettings::draft2020_12;
        let (written, read) = (settings().for_serialize(), settings().for_deserialize());
        Self { written: generator(written), read: generator(read), has_items: false }
    }

    /// A shape, or the place where it is told.
    pub(super) fn of(&mut self, shape: Shape) -> Value {
        self.has_items |= matches!(shape, Shape::Item | Shape::Items);
        match shape {
            Shape::Item => json!({ "$ref": "#/components/schemas/Item" }),
            Shape::Items => json!({
                "type": "array", "minItems": 1, "items": { "$ref": "#/components/schemas/Item" },
            }),
            Shape::ItemLines => json!({ "type": "string", "minLength": 1 }),
            Shape::OutcomeLines => {
                self.named::<Line>();
                json!({ "type": "string" })
            }
            Shape::Status => self.named::<Status>(),
            Shape::Page => self.named::<Page>(),
            Shape::Queue => self.named::<Described>(),
            Shape::Queues => self.named::<Queues>(),
            Shape::Anything => json!({}),
            Shape::QueueRows => self.named::<QueueRows>(),
            Shape::QueueRow => self.named::<QueueRow>(),
            Shape::Why => self.named::<Why>(),
            Shape::Leases => self.named::<Rows<LeaseRow>>(),
            Shape::Workers => self.named::<Rows<WorkerRow>>(),
            Shape::Pausing => self.asked::<Pausing>(),
            Shape::Limiting => self.asked::<Limiting>(),
            Shape::Overruled => self.named::<Overruled>(),
            Shape::Pulling => self.asked::<Pulling>(),
            Shape::Releasing => self.asked::<Releasing>(),
            Shape::Acted => self.named::<Acted>(),
            Shape::DeadPage => self.named::<DeadPage>(),
            Shape::DeadLetter => self.named::<DeadLetter>(),
            Shape::RedriveAsk => self.asked::<RedriveAsk>(),
            Shape::Redriven => self.named::<Redriven>(),
        }
    }

    /// A problem of one of these types.
    pub(super) fn problem(&mut self, kinds: &[Kind]) -> Value {
        let types: Vec<String> =
            kinds.iter().map(|kind| format!("/problems/{}", kind.name())).collect();
        json!({
            "allOf": [self.named::<Told>()],
            "properties": { "type": { "enum": types } },
        })
    }

    fn named<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    fn asked<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// All that were told under a name.
    pub(super) fn finish(mut self) -> Value {
        let mut named = self.written.take_definitions(true);
        named.extend(self.read.take_definitions(true));
        if self.has_items {
            named.insert("Item".to_owned(), item());
        }
        Value::Object(named)
    }
}

/// An item, as `item` reads it.
fn item() -> Value {
    let properties: Map<String, Value> =
        Field::ALL.into_iter().map(|field| (field.name().to_owned(), field_shape(field))).collect();
    json!({
        "type": "object",
        "description": "A request. deadline and timeout exclude each other.",
        "properties": properties,
        "required": [Field::Payload.name()],
        "additionalProperties": false,
        "not": { "required": [Field::Deadline.name(), Field::Timeout.name()] },
    })
}

fn field_shape(field: Field) -> Value {
    let unix = |what: &str| {
        let days = HORIZON.as_secs() / 86_400;
        let told = format!("{what}, in Unix seconds, at most {days} days ahead.");
        json!({ "type": "integer", "minimum": 1, "description": told })
    };
    match field {
        Field::Id => id(),
        Field::Deadline => unix("When an answer is of no more use"),
        Field::Timeout => json!({
            "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$", "examples": ["90s"],
            "description": "The deadline from now, from 1ms to 30d.",
        }),
        Field::NotBefore => unix("The earliest start, before the deadline"),
        Field::Metadata => json!({
            "type": "object",
            "description": format!("Kept with the request; at most {MAX_METADATA} bytes."),
        }),
        Field::Payload => json!({
            "not": { "type": "null" },
            "description": "The body of the call to the gateway: any JSON but null, sent byte for byte.",
        }),
        Field::Path => json!({
            "type": "string", "pattern": "^/",
            "description": "Where at the gateway it goes: one of those that the queue allows.",
        }),
        Field::Headers => json!({
            "type": "object", "additionalProperties": { "type": "string" },
            "description": "Sent along, by names that the queue allows.",
        }),
    }
}

/// The rule for ids.
pub(super) fn id() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": 200,
        "pattern": r"^(?!\.{1,2}$)[A-Za-z0-9._~:@+=-]+$", "examples": ["hello-2"],
    })
}

/// The rule for names of queues.
pub(super) fn name() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9][a-z0-9._-]*$",
        "examples": ["default"],
    })
}

/// The states that a list can be asked for.
pub(super) fn state() -> Value {
    json!({ "type": "string", "enum": State::ALL.map(State::word) })
}
