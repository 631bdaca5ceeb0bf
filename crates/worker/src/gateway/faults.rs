//! Sorts what the HTTP client reports into faults, without passing on its words: they may quote
//! what was sent or received.

use std::error::Error;
use std::io;

use hyper_util::client::legacy;

use super::connector::ConnectFault;
use super::stall::Stalled;
use crate::classify::Fault;

/// Why there is no head.
pub(super) fn before_head(err: &legacy::Error) -> Fault {
    let mut last_hyper = None;
    for link in Chain(Some(err)) {
        if let Some(fault) = link.downcast_ref::<ConnectFault>() {
            return (*fault).into();
        }
        if link.is::<Stalled>() {
            return Fault::Stall;
        }
        last_hyper = link.downcast_ref::<hyper::Error>().or(last_hyper);
    }
    match last_hyper {
        _ if err.is_connect() => Fault::Connect,
        Some(err) => on_connection(err),
        None => Fault::Internal,
    }
}

/// Why there is no head on a connection that stood.
pub(super) fn on_connection(err: &hyper::Error) -> Fault {
    if err.is_parse() || (unasked(err) && !err.is_user()) {
        return Fault::MalformedHead;
    }
    // The client times nothing before the head but the answer to its ping.
    match () {
        () if err.is_user() => Fault::Internal,
        () if err.is_timeout() => Fault::Dead,
        () => Fault::Reset,
    }
}

/// Whether the server spoke before it was asked: what is left when nothing else is said.
fn unasked(err: &hyper::Error) -> bool {
    let known = err.is_incomplete_message() || err.is_canceled() || err.is_closed();
    !known && !err.is_timeout() && err.source().is_none()
}

/// Why the body is not whole.
pub(super) fn inside_body(err: &hyper::Error) -> Fault {
    for link in Chain(Some(err)) {
        if link.is::<Stalled>() {
            return Fault::Stall;
        }
        let Some(io) = link.downcast_ref::<io::Error>() else { continue };
        if matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) {
            return Fault::LyingBody;
        }
    }
    Fault::CutBody
}

/// An error and its causes. An `io::Error` passes over what it wraps, so it is asked for that.
struct Chain<'a>(Option<&'a (dyn Error + 'static)>);

impl<'a> Iterator for Chain<'a> {
    type Item = &'a (dyn Error + 'static);

    fn next(&mut self) -> Option<Self::Item> {
        let link = self.0?;
        let wrapped = link.downcast_ref::<io::Error>().and_then(|io| io.get_ref());
        self.0 = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => link.source(),
        };
        Some(link)
    }
}
