//! What OpenAPI is told of operators' calls.

use crate::openapi::{Answer, Input, Operation, Parameter, Shape};
use crate::problem::Kind;

/// What a look may be refused for.
const LOOKS: &[Kind] = &[
    Kind::InvalidOperation,
    Kind::UnknownQueue,
    Kind::StoreUnreachable,
    Kind::StoreReadOnly,
    Kind::StoreDenied,
];

/// What an action may be refused for.
const ACTS: &[Kind] = &[
    Kind::InvalidOperation,
    Kind::NotApplicable,
    Kind::Overtaken,
    Kind::RequestTimeout,
    Kind::BodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::StoreFull,
    Kind::StoreUnreachable,
    Kind::StoreReadOnly,
    Kind::StoreDenied,
    Kind::OutcomeUnknown,
    Kind::Overloaded,
];

const fn input(shape: Shape) -> Input {
    Input { kind: "application/json", shape }
}

/// The entry of the list of queues; others are told of by what differs.
pub(super) const QUEUES: Operation = Operation {
    id: "listQueues",
    summary: "Every queue of the settings and of the registry",
    parameters: &[],
    body: &[],
    answers: &[Answer::json(200, "The queues", Shape::QueueRows)],
    refusals: LOOKS,
};

pub(super) const QUEUE: Operation = Operation {
    id: "getQueue",
    summary: "What a queue holds, and what operators say over its settings",
    answers: &[Answer::json(200, "The queue", Shape::QueueRow)],
    ..QUEUES
};

pub(super) const WHY: Operation = Operation {
    id: "why",
    summary: "Where a request is, and why",
    parameters: &[Parameter::Tenant],
    answers: &[Answer::json(200, "A sentence, a suggestion, and the facts", Shape::Why)],
    ..QUEUES
};

pub(super) const LEASES: Operation = Operation {
    id: "listLeases",
    summary: "What is leased, to whom, until when",
    parameters: &[Parameter::Queue, Parameter::Rows],
    answers: &[Answer::json(200, "The leases, those that lapse next first", Shape::Leases)],
    ..QUEUES
};

pub(super) const WORKERS: Operation = Operation {
    id: "listWorkers",
    summary: "Who is there, and how many leases each holds",
    answers: &[Answer::json(200, "The workers, those seen last first", Shape::Workers)],
    ..QUEUES
};

pub(super) const PAUSE: Operation = Operation {
    id: "pauseQueue",
    summary: "Stops the claims of a queue",
    parameters: &[],
    body: &[input(Shape::Pausing)],
    answers: &[Answer::json(200, "What was said before, and now", Shape::Overruled)],
    refusals: ACTS,
};

pub(super) const RESUME: Operation =
    Operation { id: "resumeQueue", summary: "Lets the claims of a queue go on", ..PAUSE };

pub(super) const LIMIT: Operation = Operation {
    id: "limitQueue",
    summary: "How many of a queue are in flight over all workers",
    body: &[input(Shape::Limiting)],
    ..PAUSE
};

pub(super) const RETRY_NOW: Operation = Operation {
    id: "retryNow",
    summary: "Pulls a back-off forward",
    parameters: &[Parameter::Tenant],
    body: &[input(Shape::Pulling)],
    answers: &[Answer::json(200, "What became of it", Shape::Acted)],
    refusals: ACTS,
};

pub(super) const RELEASE: Operation = Operation {
    id: "releaseLease",
    summary: "Ends a lease",
    body: &[input(Shape::Releasing)],
    ..RETRY_NOW
};

pub(super) const DEAD: Operation = Operation {
    id: "listDead",
    summary: "Dead letters; a page may be short or empty, the cursor goes on",
    parameters: &[
        Parameter::Tenant,
        Parameter::Outcome,
        Parameter::Failure,
        Parameter::Older,
        Parameter::Younger,
        Parameter::DeadCursor,
        Parameter::Rows,
    ],
    answers: &[Answer::json(200, "A page of them", Shape::DeadPage)],
    ..QUEUES
};

pub(super) const DEAD_LETTER: Operation = Operation {
    id: "getDead",
    summary: "All that is kept of a dead letter but its body",
    parameters: &[Parameter::Tenant],
    body: &[],
    answers: &[Answer::json(200, "The dead letter", Shape::DeadLetter)],
    refusals: &[
        Kind::NotApplicable,
        Kind::StoreUnreachable,
        Kind::StoreReadOnly,
        Kind::StoreDenied,
    ],
};

pub(super) const REDRIVE: Operation = Operation {
    id: "redrive",
    summary: "Counts dead letters, or runs again those that were counted",
    parameters: &[],
    body: &[input(Shape::RedriveAsk)],
    answers: &[Answer::json(200, "How far it came", Shape::Redriven)],
    refusals: ACTS,
};
