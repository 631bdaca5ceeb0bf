//! Every type of problem: its name, status and title.

use axum::http::StatusCode;

/// Declares the types once, so that the list cannot miss one.
macro_rules! kinds {
    ($($kind:ident: $status:ident, $name:literal, $title:literal;)+) => {
        /// A type of problem, as docs/problems.md explains it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = $title] $kind,)+
        }

        impl Kind {
            /// All of them, in the order of the page.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The stable name: the end of the type's URI and the heading of its explanation.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The status it is told with; an outcome is shown with 200.
            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status,)+ }
            }

            /// The same few words for every occurrence.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$kind => $title,)+ }
            }
        }
    };
}

kinds! {
    InvalidItem: BAD_REQUEST, "invalid-item", "The body is no item";
    InvalidBatch: BAD_REQUEST, "invalid-batch", "The body is no batch of items";
    TooDeep: BAD_REQUEST, "too-deep", "The body nests too deep";
    InvalidId: BAD_REQUEST, "invalid-id", "The id breaks the rule for ids";
    InvalidName: BAD_REQUEST, "invalid-name", "The queue's name breaks the rule for names";
    InvalidDeadline: BAD_REQUEST, "invalid-deadline", "A time cannot be used";
    DeadlinePassed: BAD_REQUEST, "deadline-passed", "A time lies in the past";
    InvalidQuery: BAD_REQUEST, "invalid-query", "A query parameter cannot be used";
    InvalidHeader: BAD_REQUEST, "invalid-header", "A header cannot be used";
    Unauthorized: UNAUTHORIZED, "unauthorized", "A key is needed";
    Forbidden: FORBIDDEN, "forbidden", "The key may not do this";
    InvalidOperation: BAD_REQUEST, "invalid-operation", "The operation cannot be done as it is said";
    NotFound: NOT_FOUND, "not-found", "There is nothing at this path";
    UnknownQueue: NOT_FOUND, "unknown-queue", "No such queue is declared";
    UnknownRequest: NOT_FOUND, "unknown-request", "No such request is kept";
    MethodNotAllowed: METHOD_NOT_ALLOWED, "method-not-allowed", "Another method is needed here";
    NotApplicable: CONFLICT, "not-applicable", "The request is somewhere else";
    Overtaken: CONFLICT, "overtaken", "Somebody else's word came first";
    ForeignHost: MISDIRECTED_REQUEST, "foreign-host", "Operators' calls are not answered under this name";
    RequestTimeout: REQUEST_TIMEOUT, "request-timeout", "The body came too slowly";
    BodyTooLarge: PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large";
    UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body must be JSON";
    IdReused: UNPROCESSABLE_ENTITY, "id-reused", "Other bytes are kept under this id";
    QueueFull: TOO_MANY_REQUESTS, "queue-full", "The queue is full";
    TenantOverLimit: TOO_MANY_REQUESTS, "tenant-over-limit", "The tenant is at its limit";
    StoreFull: TOO_MANY_REQUESTS, "store-full", "The store has no memory left";
    Internal: INTERNAL_SERVER_ERROR, "internal", "A fault of the service";
    StoreUnreachable: SERVICE_UNAVAILABLE, "store-unreachable", "The store cannot be reached";
    StoreReadOnly: SERVICE_UNAVAILABLE, "store-read-only", "The store takes no writes";
    StoreDenied: SERVICE_UNAVAILABLE, "store-denied", "The store denies the service a right";
    OutcomeUnknown: SERVICE_UNAVAILABLE, "outcome-unknown", "Whether it happened is not known";
    DurabilityUnavailable: SERVICE_UNAVAILABLE, "durability-unavailable", "The store cannot give the durability of the queue";
    Overloaded: SERVICE_UNAVAILABLE, "overloaded", "Too much is under way at once";
    Draining: SERVICE_UNAVAILABLE, "draining", "The service is stopping";
    DeadlineExceeded: OK, "deadline-exceeded", "The deadline passed without an answer";
    Cancelled: OK, "cancelled", "Cancelled before an answer";
    GaveUp: OK, "gave-up", "All attempts failed";
    KilledWorkers: OK, "killed-workers", "The request ended its workers too often";
    Unusable: OK, "unusable", "What is kept of the request cannot be used";
    AnswerTooLarge: OK, "answer-too-large", "The answer is larger than the queue allows";
}

impl Kind {
    /// When to come again, in seconds, if coming again is what helps.
    ///
    /// Drawn anew each time, so that those who were refused together do not return together;
    /// never above 120, where stock clients give up.
    pub(crate) fn retry_after(self) -> Option<u64> {
        let (least, most) = match self {
            Self::QueueFull => (5, 10),
            Self::TenantOverLimit => (2, 6),
            Self::StoreFull => (15, 30),
            Self::StoreReadOnly | Self::StoreDenied | Self::DurabilityUnavailable => (5, 10),
            Self::StoreUnreachable => (2, 5),
            Self::OutcomeUnknown | Self::Overloaded | Self::Draining => (1, 3),
            _ => return None,
        };
        Some(rand::random_range(least..=most))
    }

    /// Whether the connection ends with it: the rest of the body is not worth reading,
    /// or this process takes no more.
    pub(super) fn closes(self) -> bool {
        matches!(self, Self::BodyTooLarge | Self::RequestTimeout | Self::Draining)
    }
}
