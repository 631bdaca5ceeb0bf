//! What a caller is told when something is refused, or when a request ended without an answer.
//!
//! RFC 9457. The type is the contract and has a heading of its name in docs/problems.md; the detail
//! is for people. Neither ever repeats what the caller sent.

mod kind;

use std::borrow::Cow;

use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub(crate) use self::kind::Kind;
use crate::item::{ItemError, TimeFault};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refusal, or an outcome that has no answer to show.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: Cow<'static, str>,
    members: Map<String, Value>,
}

impl Problem {
    /// A problem in words that are all our own.
    pub(crate) fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), members: Map::new() }
    }

    /// Adds a member that a program can read.
    pub(crate) fn with(mut self, member: &'static str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }

    /// The stable name of its type.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// When to come again, in seconds, if coming again is what helps.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.kind.retry_after()
    }

    /// The body that tells it.
    pub(crate) fn told(&self, status: StatusCode) -> Told<'_> {
        Told {
            r#type: format!("/problems/{}", self.kind.name()),
            title: self.kind.title(),
            status: status.as_u16(),
            detail: &self.detail,
            members: &self.members,
        }
    }

    /// The same, told under another status: an outcome is shown with 200.
    pub(crate) fn into_response_with(self, status: StatusCode) -> Response {
        // Strings and numbers only: writing them to memory does not fail.
        let json = serde_json::to_vec(&self.told(status)).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, PROBLEM_JSON)], json).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.kind.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        self.into_response_with(status)
    }
}

/// A problem as RFC 9457 has it.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub(crate) struct Told<'a> {
    /// The contract: its end is the heading of its section in docs/problems.md.
    r#type: String,
    /// The same few words for every problem of the type.
    title: &'a str,
    /// The status of the answer.
    status: u16,
    /// For people; may change.
    detail: &'a str,
    #[serde(flatten)]
    members: &'a Map<String, Value>,
}

impl From<ItemError> for Problem {
    fn from(err: ItemError) -> Self {
        let kind = match err {
            ItemError::TooDeep => Kind::TooDeep,
            ItemError::BadId => Kind::InvalidId,
            ItemError::Time { fault: TimeFault::Past, .. } => Kind::DeadlinePassed,
            ItemError::Time { .. }
            | ItemError::NotBeforeDeadline
            | ItemError::DeadlineAndTimeout => Kind::InvalidDeadline,
            _ => Kind::InvalidItem,
        };
        let mut problem = Self::new(kind, err.to_string());
        if let Some(field) = err.field() {
            problem = problem.with("field", field.name());
        }
        match err {
            ItemError::Syntax { line, column } => problem.with("line", line).with("column", column),
            ItemError::UnknownField { position } => problem.with("position", position),
            ItemError::Headers { fault } => match fault.position() {
                Some(position) => problem.with("position", position),
                None => problem,
            },
            _ => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn body_of(response: Response) -> Value {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn a_problem_has_the_members_of_rfc_9457_and_its_own() {
        let problem = Problem::new(Kind::QueueFull, "no room").with("field", "id");
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let expected = serde_json::json!({
            "type": "/problems/queue-full",
            "title": "The queue is full",
            "status": 429,
            "detail": "no room",
            "field": "id",
        });
        assert_eq!(body_of(response).await, expected);
    }

    #[tokio::test]
    async fn the_place_of_a_syntax_fault_can_be_read_by_a_program() {
        let problem = Problem::from(ItemError::Syntax { line: 3, column: 7 });
        assert_eq!(problem.kind(), Kind::InvalidItem);
        let body = body_of(problem.into_response()).await;
        assert_eq!((&body["line"], &body["column"]), (&3.into(), &7.into()));
    }

    #[tokio::test]
    async fn an_outcome_is_told_under_200_and_says_so() {
        let problem = Problem::new(Kind::Cancelled, "cancelled before an answer");
        let response = problem.into_response_with(StatusCode::OK);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(body_of(response).await["status"], 200);
    }

    #[test]
    fn retry_after_is_from_1_to_120_wherever_the_caller_should_come_again() {
        for kind in Kind::ALL.iter().copied() {
            let busy = matches!(kind.status().as_u16(), 429 | 503);
            for _ in 0..50 {
                let header =
                    Problem::new(kind, "").into_response().headers().get(RETRY_AFTER).cloned();
                let seconds: Option<u64> = header.map(|it| it.to_str().unwrap().parse().unwrap());
                assert_eq!(seconds.is_some(), busy, "{}", kind.name());
                assert!(seconds.is_none_or(|it| (1..=120).contains(&it)), "{}", kind.name());
            }
        }
    }

    #[test]
    fn a_connection_whose_body_was_not_read_is_closed() {
        for kind in [Kind::BodyTooLarge, Kind::RequestTimeout, Kind::Draining] {
            let response = Problem::new(kind, "").into_response();
            assert_eq!(response.headers()[CONNECTION], "close", "{}", kind.name());
        }
    }

    #[test]
    fn the_list_and_docs_problems_md_name_the_same_problems() {
        let page = include_str!("../../../docs/problems.md");
        let headings: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(headings, names, "same names, same order");
    }

    #[test]
    fn the_page_gives_each_problem_its_status() {
        let page = include_str!("../../../docs/problems.md");
        for kind in Kind::ALL {
            let section = page.split(&format!("### {}\n", kind.name())).nth(1).unwrap();
            let told = format!("**{}", kind.status().as_u16());
            assert!(section.trim_start().starts_with(&told), "{} starts with {told}", kind.name());
        }
    }

    #[test]
    fn no_two_problems_share_a_name() {
        let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
