//! An address that stays ours between two times of listening on it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::time::sleep;

/// As many connections as a listener lets wait, as in the standard library.
const BACKLOG: u32 = 1024;

/// How often, and how soon, an address that somebody still holds is tried again: for two seconds.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// A bound address. Callers are refused there while nobody listens.
///
/// A port that was only listened on and then let go may at once become the source port of some outgoing connection,
/// and can't be listened on again while that lives.
pub(crate) struct Place {
    address: SocketAddr,
    /// Bound and never listening: the system gives the port to no connection while this is open.
    _held: TcpSocket,
}

impl Place {
    /// Takes an address; a free port for port 0.
    pub(crate) fn take(address: SocketAddr) -> io::Result<Self> {
        let held = bound(address)?;
        Ok(Self { address: held.local_addr()?, _held: held })
    }

    /// The address, with its port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens there.
    ///
    /// Whoever starts a process holds what listened here before for a moment more: its child has a copy until it becomes a
    /// program of its own.
    pub(crate) async fn listen(&self) -> io::Result<TcpListener> {
        let mut tries = 0;
        loop {
            match bound(self.address).and_then(|socket| socket.listen(BACKLOG)) {
                Err(err) if err.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {
                    tries += 1;
                    sleep(PAUSE).await;
                }
                listening => return listening,
            }
        }
    }
}

/// Bound so that another socket of the same kind may listen on the address.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_place_is_listened_on_left_and_listened_on_again() {
        let place = Place::take((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        for _ in 0..3 {
            let refused = TcpStream::connect(place.address()).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let _listening = place.listen().await.unwrap();
            TcpStream::connect(place.address()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn no_connection_goes_out_from_a_held_port() {
        let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = target.local_addr().unwrap();
        let place = Place::take((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let from = |port| async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::LOCALHOST, port).into()).and(Ok(socket)).map(|it| it.connect(to))
        };
        let taken = from(place.address().port()).await.map(|_| ()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        from(0).await.unwrap().await.unwrap();
    }
}
