//! Who calls: a key is a tenant and what it may do there.
//!
//! [`guard`] stands before every route, so that none can be forgotten: it finds the [`Caller`], refuses who may not, and
//! takes the key out of the request, so that nothing behind it can tell it. Handlers take the [`Caller`] as an argument.

mod caller;
mod guard;

use std::sync::Arc;

use axum::http::HeaderMap;
use holdfast_core::model::TenantName;
use holdfast_runtime::keys::{KeyFile, Scopes};
use holdfast_runtime::reread::Reread;

pub(crate) use caller::Caller;
pub(crate) use guard::{Door, guard, of_method};

use crate::app::Clock;
use crate::problem::Problem;

/// Whom all callers are, as long as there are no keys.
const ANYBODY: &str = "default";

/// Callers' keys, as they are now.
pub(crate) type Keys = Reread<KeyFile>;

/// Tells who a caller is.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// No keys: everybody is one tenant, and may do everything.
    Anybody(TenantName),
    /// Every caller needs a key; it expires by this clock.
    Keyed(Arc<Keys>, Arc<Clock>),
}

impl Who {
    /// By these keys, if there are any.
    pub(crate) fn new(
        keys: Option<Arc<Keys>>,
        clock: Arc<Clock>,
    ) -> Result<Self, holdfast_core::model::InvalidName> {
        match keys {
            Some(keys) => Ok(Self::Keyed(keys, clock)),
            None => ANYBODY.try_into().map(Self::Anybody),
        }
    }

    /// Who sends these headers; else the problem to tell.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        match self {
            Self::Anybody(tenant) => {
                Ok(Caller { tenant: tenant.clone(), scopes: Scopes::all(), key: None })
            }
            Self::Keyed(keys, clock) => caller::by_key(&keys.current(), headers, clock.now_ms()),
        }
    }
}
