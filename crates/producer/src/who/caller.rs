//! From a header to a caller.

use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use holdfast_core::model::TenantName;
use holdfast_runtime::keys::{Key, KeyFile, Scope, Scopes};
use tracing::error;

use crate::problem::{Kind, Problem};

/// Who calls, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Whose requests they see.
    pub(crate) tenant: TenantName,
    /// What they may do.
    pub(crate) scopes: Scopes,
    /// The name of their key, for people; none: it has no name, or there are no keys.
    pub(crate) key: Option<String>,
}

impl Caller {
    /// Refuses whose key has not this scope.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        let detail = format!("this key lacks the scope {}", scope.word());
        Err(Problem::new(Kind::Forbidden, detail).with("scope", scope.word()))
    }
}

/// Set by the guard: a route that nobody guards is closed.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            error!("a route has no guard");
            Problem::new(Kind::Internal, "nobody asked who calls; nothing was stored")
        })
    }
}

/// The caller whose key stands in the headers.
pub(super) fn by_key(keys: &KeyFile, headers: &HeaderMap, now_ms: u64) -> Result<Caller, Problem> {
    let refused = |detail: &'static str| Problem::new(Kind::Unauthorized, detail);
    let mut given = headers.get_all(AUTHORIZATION).into_iter();
    let only = given.next().ok_or_else(|| refused(MISSING))?;
    if given.next().is_some() {
        return Err(refused("Authorization stands there twice"));
    }
    let presented = presented(only).ok_or_else(|| refused(FORM))?;
    let key = Key::read(presented).ok_or_else(|| not_whole(presented))?;
    let line = keys.find(&key).ok_or_else(|| refused("this key is not known here"))?;
    if line.has_expired(now_ms) {
        return Err(refused("this key has expired"));
    }
    let (tenant, scopes, key) = (line.tenant.clone(), line.scopes, line.name.clone());
    Ok(Caller { tenant, scopes, key })
}

const MISSING: &str = "a key is needed: Authorization: Bearer hfk_…";
const FORM: &str = "Authorization must be Bearer and a key, which begins with hfk_";

/// What stands in `Bearer KEY`, and begins like a key. The scheme is written in any case.
fn presented(value: &HeaderValue) -> Option<&str> {
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    let key = key.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && key.starts_with(Key::PREFIX)).then_some(key)
}

/// One that begins like a key was cut short or mistyped, most likely.
fn not_whole(presented: &str) -> Problem {
    let (prefix, digits) = (Key::PREFIX, Key::DIGITS);
    let detail = match presented.len() < prefix.len() + digits {
        true => format!("this key is not whole: {digits} characters follow {prefix}"),
        false => format!("this is no key: {digits} letters, digits, - and _ follow {prefix}"),
    };
    Problem::new(Kind::Unauthorized, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(keys: &KeyFile, values: &[&str], now_ms: u64) -> (Kind, String) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        let problem = by_key(keys, &headers, now_ms).map(|caller| caller.tenant).unwrap_err();
        (problem.kind(), format!("{problem:?}"))
    }

    #[test]
    fn a_known_key_is_its_tenant_and_its_scopes() {
        let key = Key::random();
        let line =
            format!("tenant=acme scopes=read expires=2000000000 name=ci sha256={}", key.hash());
        let keys = KeyFile::read(line.as_bytes()).unwrap();
        for scheme in ["Bearer", "bearer", "BEARER "] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, format!("{scheme} {}", key.expose()).parse().unwrap());
            let caller = by_key(&keys, &headers, 0).unwrap();
            assert_eq!((caller.tenant.as_str(), caller.key.as_deref()), ("acme", Some("ci")));
            assert!(caller.needs(Scope::Read).is_ok());
            let refused = caller.needs(Scope::Submit).unwrap_err();
            assert_eq!(refused.kind(), Kind::Forbidden);
            assert!(format!("{refused:?}").contains("submit"));
        }
    }

    #[test]
    fn every_other_caller_is_unauthorized_and_not_quoted() {
        let (key, unknown) = (Key::random(), Key::random());
        let line = format!("tenant=acme scopes=read expires=2000000000 sha256={}", key.hash());
        let keys = KeyFile::read(line.as_bytes()).unwrap();
        let (good, other) =
            (format!("Bearer {}", key.expose()), format!("Bearer {}", unknown.expose()));
        let odd = format!("{good}!");
        let basic = format!("Basic {}", key.expose());
        for (values, now_ms, told) in [
            (&[][..], 0, "a key is needed"),
            (&[""], 0, "must be Bearer"),
            (&["Bearer"], 0, "must be Bearer"),
            (&["Bearer S3CRET"], 0, "must be Bearer"),
            (&[key.expose()], 0, "must be Bearer"),
            (&[&basic], 0, "must be Bearer"),
            (&["Bearer hfk_S3CRET"], 0, "this key is not whole: 43 characters follow hfk_"),
            (&[&good[..good.len() - 1]], 0, "this key is not whole"),
            (&[&odd], 0, "this is no key: 43 letters"),
            (&[&other], 0, "not known"),
            (&[&good, &good], 0, "twice"),
            (&[&good], 2_000_000_000_000, "expired"),
        ] {
            let (kind, problem) = refusal(&keys, values, now_ms);
            assert_eq!(kind, Kind::Unauthorized, "{problem}");
            assert!(problem.contains(told), "{problem}");
            for secret in [key.expose(), unknown.expose(), "S3CRET"] {
                assert!(!problem.contains(secret), "{problem}");
            }
        }
    }
}
