//! The operators' calls, on a listener of their own. What they mean is the core's; here they are read and answered.
//!
//! A web page that an operator has open can reach a loopback address too. So whatever changes something must say that it
//! is JSON, which another origin may not without asking, and without keys only an address or `localhost` is a name that
//! is answered to, which keeps names out that were made to point here.

mod act;
mod acts;
mod ask;
mod dead;
mod look;
mod told;

use std::sync::Arc;

pub(crate) use act::{Limiting, Pausing, Pulling, Releasing};
pub(crate) use acts::Acts;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use holdfast_core::StoreError;
use holdfast_core::operate::ActError;
use holdfast_runtime::keys::Scope;

use crate::api::{method_not_allowed, not_found, observed};
use crate::app::App;
use crate::openapi::{Routes, get, post, put};
use crate::problem::{Kind, Problem};
use crate::store::{Again, Lost, outcome_unknown};
use crate::who::{Door, Who, guard};
pub(crate) use ask::Params;
pub(crate) use look::QueueRows;

/// The operators' calls as they are served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let door = Door { who: app.who.clone(), needs: |_| Scope::Operate };
    let routes = Routes::default()
        .at("/v1/ops/queues", [get(look::queues, told::QUEUES)])
        .at("/v1/ops/queues/{queue}", [get(look::queue, told::QUEUE)])
        .at("/v1/ops/queues/{queue}/why/{id}", [get(look::why, told::WHY)])
        .at("/v1/ops/queues/{queue}/pause", [post(act::pause, told::PAUSE)])
        .at("/v1/ops/queues/{queue}/resume", [post(act::resume, told::RESUME)])
        .at("/v1/ops/queues/{queue}/limit", [put(act::limit, told::LIMIT)])
        .at(
            "/v1/ops/queues/{queue}/requests/{id}/retry-now",
            [post(act::retry_now, told::RETRY_NOW)],
        )
        .at("/v1/ops/queues/{queue}/leases/{id}/release", [post(act::release, told::RELEASE)])
        .at("/v1/ops/queues/{queue}/dead", [get(dead::list, told::DEAD)])
        .at("/v1/ops/queues/{queue}/dead/redrive", [post(dead::redrive, told::REDRIVE)])
        .at("/v1/ops/queues/{queue}/dead/letters/{id}", [get(dead::show, told::DEAD_LETTER)])
        .at("/v1/ops/leases", [get(look::leases, told::LEASES)])
        .at("/v1/ops/workers", [get(look::workers, told::WORKERS)])
        .finish()
        .route_layer(middleware::from_fn_with_state(door, guard))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), own_name));
    observed(routes, app)
}

/// Turns away who asks for another name than ours, where nothing but the address keeps others out.
async fn own_name(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_keyed = matches!(app.who, Who::Keyed(..));
    let named = request.uri().authority().map(|it| it.as_str().to_owned());
    let named = named.or_else(|| Some(request.headers().get(HOST)?.to_str().ok()?.to_owned()));
    if is_keyed || named.as_deref().is_some_and(is_own) {
        return next.run(request).await;
    }
    let detail = "without keys, operators' calls go to an IP address or to localhost";
    Problem::new(Kind::ForeignHost, detail).into_response()
}

/// Whether an authority is an IP address or `localhost`, with a port or without.
fn is_own(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok()
}

/// Why an action was not done, as its caller is told.
fn refused(err: ActError) -> Problem {
    match err {
        ActError::Store(err) => unanswered(err),
        ActError::Overtaken { version } => {
            let detail = "somebody's word came first: look what it says, then name its version";
            Problem::new(Kind::Overtaken, detail).with("version", version)
        }
        ActError::Unheard { version, changed, unheard, ref source } => {
            tracing::warn!(error = %holdfast_core::Chain(source), unheard, "a word was not heard");
            Problem::new(Kind::OutcomeUnknown, err.to_string())
                .with("version", version)
                .with("shards_changed", changed)
                .with("shards_unheard", unheard)
        }
        err @ ActError::TooSmall { .. } => {
            Problem::new(Kind::InvalidOperation, err.to_string()).with("field", "in_flight")
        }
        ActError::Unknown => {
            Problem::new(Kind::UnknownRequest, "nothing is kept under this id for this tenant")
        }
        ActError::Elsewhere(told) => Problem::new(Kind::NotApplicable, told),
        // The log says so too. What it did until then stands.
        ActError::Abandoned => outcome_unknown(Again::Call),
        ActError::Filter(fault) => {
            Problem::new(Kind::InvalidOperation, fault.to_string()).with("field", fault.field)
        }
    }
}

/// Why a look gave nothing, as its caller is told.
fn unseen(err: ActError) -> Problem {
    match err {
        ActError::Store(err) => unread(err),
        other => refused(other),
    }
}

/// Redis did not answer an action.
fn unanswered(err: StoreError) -> Problem {
    lost(err).problem()
}

/// Redis did not answer a look.
fn unread(err: StoreError) -> Problem {
    lost(err).unread().problem()
}

fn lost(err: StoreError) -> Lost {
    tracing::warn!(error = %holdfast_core::Chain(&err), "an operator's call failed");
    Lost { may_have_run: err.may_have_run(), error: Some(err) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_only_an_address_or_localhost_is_answered_to() {
        for own in ["127.0.0.1", "127.0.0.1:8081", "[::1]:8081", "localhost:8081", "LOCALHOST"] {
            assert!(is_own(own), "{own}");
        }
        for foreign in
            ["", "evil.example", "evil.example:8081", "localhost.evil:1", "127.0.0.1.evil"]
        {
            assert!(!is_own(foreign), "{foreign}");
        }
    }
}
