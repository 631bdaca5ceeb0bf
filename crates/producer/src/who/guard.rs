//! What stands before every route.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use holdfast_runtime::keys::Scope;
use tracing::debug;

use super::Who;
use crate::api::not_handled;
use crate::problem::Problem;

/// Who is let in, and what each call takes.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// Tells who a caller is.
    pub(crate) who: Who,
    /// The scope that a call with this method needs.
    pub(crate) needs: fn(&Method) -> Scope,
}

/// What callers' routes need: what a method does is the same on all of them.
pub(crate) fn of_method(method: &Method) -> Scope {
    match *method {
        Method::GET | Method::HEAD => Scope::Read,
        Method::POST => Scope::Submit,
        Method::DELETE => Scope::Cancel,
        // No route of callers has another; one that gets one is closed to them until it says so.
        _ => Scope::Operate,
    }
}

/// Lets a caller with the right scope through, as a [`Caller`] in the request's extensions.
///
/// [`Caller`]: super::Caller
pub(crate) async fn guard(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let caller = match door.who.caller(request.headers()) {
        Ok(caller) => caller,
        // A caller that gave nothing is not told that it was wrong.
        Err(problem) if !request.headers().contains_key(AUTHORIZATION) => {
            return refused(problem, "");
        }
        Err(problem) => return refused(problem, r#", error="invalid_token""#),
    };
    let needed = (door.needs)(request.method());
    if let Err(problem) = caller.needs(needed) {
        let (scope, key) = (needed.word(), caller.key.as_deref().unwrap_or_default());
        debug!(tenant = %caller.tenant, key, scope, "a key lacks a scope");
        return refused(problem, &format!(r#", error="insufficient_scope", scope="{scope}""#));
    }
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// A refusal with the challenge of RFC 6750.
fn refused(problem: Problem, why: &str) -> Response {
    let mut response = not_handled(problem);
    if let Ok(challenge) = HeaderValue::try_from(format!(r#"Bearer realm="holdfast"{why}"#)) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
