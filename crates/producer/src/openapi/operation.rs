//! What is told of one method of a path.

use crate::openapi::Shape;
use crate::problem::Kind;

/// The entry of one method of a path.
pub(crate) struct Operation {
    /// Names it for those who generate code.
    pub(crate) id: &'static str,
    /// What it is for.
    pub(crate) summary: &'static str,
    /// What may stand in the query and in headers.
    pub(crate) parameters: &'static [Parameter],
    /// What its body may be.
    pub(crate) body: &'static [Input],
    /// How it is answered where nothing is refused.
    pub(crate) answers: &'static [Answer],
    /// What it refuses, beside what any call is refused for.
    pub(crate) refusals: &'static [Kind],
}

/// Something that a call may say beside path and body.
pub(crate) enum Parameter {
    /// `?wait=`.
    Wait,
    /// `?generation=`.
    Generation,
    /// `?state=`.
    State,
    /// `?cursor=`.
    Cursor,
    /// `?limit=`.
    Limit,
    /// `Prefer: wait=`.
    Prefer,
    /// `Idempotency-Key`.
    IdempotencyKey,
    /// `?tenant=`: whose.
    Tenant,
    /// `?queue=`: only of one queue.
    Queue,
    /// `?limit=` of operators' lists.
    Rows,
    /// `?outcome=` of dead letters.
    Outcome,
    /// `?failure=` of dead letters.
    Failure,
    /// `?older_seconds=` of dead letters.
    Older,
    /// `?younger_seconds=` of dead letters.
    Younger,
    /// `?cursor=` of dead letters.
    DeadCursor,
}

/// One kind of body.
pub(crate) struct Input {
    /// Its content type.
    pub(crate) kind: &'static str,
    pub(crate) shape: Shape,
}

/// One way to be answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// When.
    pub(crate) when: &'static str,
    /// Its content type.
    pub(crate) kind: &'static str,
    pub(crate) shape: Shape,
    /// Headers that it may have.
    pub(crate) headers: &'static [&'static str],
    /// Operations on the request that its body tells of.
    pub(crate) leads_to: &'static [&'static str],
}

impl Answer {
    /// JSON of a shape.
    pub(crate) const fn json(status: u16, when: &'static str, shape: Shape) -> Self {
        Self { status, when, kind: "application/json", shape, headers: &[], leads_to: &[] }
    }

    /// The same with headers.
    pub(crate) const fn with(self, headers: &'static [&'static str]) -> Self {
        Self { headers, ..self }
    }

    /// The same, about a request on which there are further calls.
    pub(crate) const fn leading_to(self, leads_to: &'static [&'static str]) -> Self {
        Self { leads_to, ..self }
    }
}
