//! What an operator's call says: its path, its query, its body.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holdfast_core::model::{Identity, QueueName, RequestId, TenantName};
use holdfast_core::operate::Queue;
use serde::de::{DeserializeOwned, Error};

use super::unread;
use crate::app::App;
use crate::body;
use crate::id::{NAME_RULE, is_name};
use crate::problem::{Kind, Problem};
use crate::who::{Caller, Who};

/// The longest body of an operator's call: a thousand ids fit.
const BODY_LIMIT: usize = 2 << 20;

/// The queue that the path names: of the settings, or of the registry.
pub(super) struct Named(pub(super) Queue);

/// Who calls, for the audit line.
pub(super) struct Operator(pub(super) String);

/// The parameters of a query, each known, and there once.
pub(crate) struct Params(BTreeMap<&'static str, String>);

impl FromRequestParts<Arc<App>> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let name = path_param(parts, app, "queue").await?;
        let rule = || Problem::new(Kind::InvalidName, format!("a queue's name is {NAME_RULE}"));
        let name = QueueName::try_from(name.as_str()).map_err(|_| rule())?;
        if let Some(queue) = app.queues.get(&name) {
            return Ok(Self(Queue { name, shards: queue.policy.shards }));
        }
        let found = Queue::find(&app.store.redis, &name).await.map_err(unread)?;
        found.map(Self).ok_or_else(|| unregistered(name.as_str()))
    }
}

/// No queue of that name is in the settings of this process, or in the registry.
pub(super) fn unregistered(name: &str) -> Problem {
    // A filter holds anything; what could be no name is not repeated.
    if !is_name(name) {
        return Problem::new(Kind::UnknownQueue, "no queue of this name is declared or registered");
    }
    let detail = format!(
        "no queue {name} is declared or registered: GET /v1/ops/queues, or holdfastctl queue ls, lists those that are"
    );
    Problem::new(Kind::UnknownQueue, detail).with("queue", name)
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self(match (&app.who, caller.key) {
            (Who::Anybody(_), _) => "anybody".to_owned(),
            (_, Some(name)) => format!("{}/{name}", caller.tenant),
            (_, None) => caller.tenant.to_string(),
        }))
    }
}

/// The id that the path names; adopted ones hold anything.
pub(super) struct Id(RequestId);

impl FromRequestParts<Arc<App>> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let id = path_param(parts, app, "id").await?;
        let rule = || Problem::new(Kind::InvalidId, "an id has 1 to 1024 bytes");
        RequestId::try_from(id.as_str()).map(Self).map_err(|_| rule())
    }
}

impl Id {
    /// The request of that id and of the tenant that the query names, or of `default`.
    pub(super) fn of(self, params: &Params) -> Result<Identity, Problem> {
        let tenant = params.get("tenant").unwrap_or("default");
        let rule = || invalid_query("tenant", format!("a tenant's name is {NAME_RULE}"));
        let tenant = TenantName::try_from(tenant).map_err(|_| rule())?;
        Ok(Identity { tenant, id: self.0 })
    }
}

async fn path_param(parts: &mut Parts, app: &Arc<App>, name: &str) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, app).await.map_err(|_| {
        Problem::new(Kind::InvalidId, "the path is not UTF-8 once it is percent-decoded")
    })?;
    let found = params.iter().find(|(known, _)| *known == name);
    Ok(found.map_or_else(String::new, |(_, value)| value.to_owned()))
}

impl Params {
    /// Reads the part of the address behind the question mark. Values stand there as they are: none needs an escape.
    pub(crate) fn parse(
        text: Option<&str>,
        known: &'static [&'static str],
    ) -> Result<Self, Problem> {
        let mut params = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                let detail = match known {
                    [] => "this route takes no query parameters".to_owned(),
                    known => format!("the query parameters here are {}", known.join(", ")),
                };
                return Err(Problem::new(Kind::InvalidQuery, detail));
            };
            if params.insert(name, value.to_owned()).is_some() {
                return Err(invalid_query(name, "stands there twice".to_owned()));
            }
        }
        Ok(Self(params))
    }

    /// A value as it stands there.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The same as text of one's own.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let rule = || invalid_query(name, format!("{name} must be a whole number, in digits"));
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).map(Some).ok_or_else(rule)
    }

    /// How many rows: 100 unless something is said, at most 1000.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let limit = self.number("limit")?.unwrap_or(100);
        match usize::try_from(limit) {
            Ok(limit @ 1..=1000) => Ok(limit),
            _ => Err(invalid_query("limit", "limit must be from 1 to 1000".to_owned())),
        }
    }
}

fn invalid_query(name: &'static str, detail: String) -> Problem {
    Problem::new(Kind::InvalidQuery, detail).with("parameter", name)
}

/// Reads a body of JSON, which is told by place and never repeated.
pub(super) async fn read<T: DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    body::check_type(headers)?;
    let held = body::read(body, BODY_LIMIT, &app.memory).await?;
    parse(&held.bytes)
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    // A list would be taken for an object by its places.
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let read = if is_list { Err(Error::custom("a list")) } else { serde_json::from_slice(text) };
    read.map_err(|err: serde_json::Error| {
        let detail = "the body must be a JSON object with the fields of this call and no others";
        Problem::new(Kind::InvalidOperation, detail)
            .with("line", err.line())
            .with("column", err.column())
    })
}

#[cfg(test)]
mod tests {
    use holdfast_core::operate::DeadFilter;

    use super::*;

    #[test]
    fn a_body_is_an_object_and_no_list() {
        let read = |text: &str| parse::<DeadFilter>(text.as_bytes()).map(|it| it.tenant);
        assert_eq!(read(r#" {"tenant":"t"}"#).ok(), Some(Some("t".to_owned())));
        for wrong in [r#"["t"]"#, " [null, null]", "[]", "null", "\"t\"", ""] {
            assert_eq!(read(wrong).unwrap_err().kind(), Kind::InvalidOperation, "{wrong}");
        }
    }

    #[test]
    fn a_query_has_known_parameters_each_once() {
        let known: &[&str] = &["tenant", "limit"];
        let params = Params::parse(Some("tenant=t&limit=7"), known).ok().unwrap();
        assert_eq!((params.get("tenant"), params.limit().ok()), (Some("t"), Some(7)));
        assert_eq!(Params::parse(None, known).ok().unwrap().limit().ok(), Some(100));
        for text in ["tenants=t", "limit=1&limit=2", "Tenant=t", "x"] {
            let problem = Params::parse(Some(text), known).err().unwrap();
            assert_eq!(problem.kind(), Kind::InvalidQuery, "{text}");
        }
        for text in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=+7", "limit="] {
            assert!(Params::parse(Some(text), known).ok().unwrap().limit().is_err(), "{text}");
        }
    }
}
