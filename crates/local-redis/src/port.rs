//! Free ports on the loopback address.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where ports are drawn from: below the range from which systems take the source ports of outgoing connections.
///
/// Inside that range a client that redials a dead server can be given the server's own port, connect to itself, and
/// keep the server from ever coming back.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;
const TRIES: usize = 200;

/// How long a system may take to say whether anybody listens.
const SOON: Duration = Duration::from_secs(1);

/// What this process has been given: two draws may fall on one port before whoever got it first listens there.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A loopback port that nobody listens on at this moment, and that this process was not given before.
///
/// Another process may take it before it is used: whoever listens on it must be ready to ask again.
pub fn free_port() -> io::Result<u16> {
    for _ in 0..TRIES {
        let port = FIRST + random_below(COUNT);
        if is_free(port) && is_first(port) {
            return Ok(port);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Whether nobody listens there.
///
/// Asked by a call, not by listening: a process that is being started just now would hold a copy of the listener for a moment,
/// and keep from the port whoever it was found for.
fn is_free(port: u16) -> bool {
    let call = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), SOON);
    call.is_err_and(|err| err.kind() == io::ErrorKind::ConnectionRefused)
}

/// Notes that a port is given; false if it was before.
fn is_first(port: u16) -> bool {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port)
}

/// A number that differs from call to call and from process to process.
fn random_below(limit: u16) -> u16 {
    // Each `RandomState` has keys of its own.
    let drawn = RandomState::new().hash_one(0_u8) % u64::from(limit);
    u16::try_from(drawn).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on_and_is_no_source_port() {
        let port = free_port().unwrap();
        assert!((FIRST..FIRST + COUNT).contains(&port));
        assert!(is_free(port));
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port), "a port that is taken is never given out");
    }

    #[test]
    fn no_port_is_given_twice() {
        // Of so many, some fall on one port by chance.
        let ports: Vec<_> = (0..1000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
    }
}
