//! A distance between a client and a server: each byte arrives half a round trip after it was sent.
//!
//! Threads that sleep, since the timers of the runtime go by whole milliseconds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Something put between, for as long as the bench lasts.
pub(crate) struct Distance {
    port: u16,
}

/// Bytes, and when they arrive; none: the sender is done.
type Sent = (Instant, Option<Vec<u8>>);

impl Distance {
    /// Puts so long a round trip before the server at `port`.
    pub(crate) fn put(port: u16, round_trip: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let own = listener.local_addr().expect("the port").port();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
                let again = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                carry(again(&client), again(&server), round_trip / 2);
                carry(server, client, round_trip / 2);
            }
        });
        Self { port: own }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Carries one direction: one thread reads as bytes come, another hands them over in time.
fn carry(mut from: TcpStream, to: TcpStream, way: Duration) {
    let (sender, receiver) = mpsc::channel::<Sent>();
    to.set_nodelay(true).expect("no delay but ours");
    thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        loop {
            // A connection that breaks ends like one that was closed.
            let read = from.read(&mut buffer).unwrap_or_default();
            let bytes = (read > 0).then(|| buffer[..read].to_vec());
            if sender.send((Instant::now() + way, bytes)).is_err() || read == 0 {
                return;
            }
        }
    });
    thread::spawn(move || deliver(&receiver, to));
}

fn deliver(receiver: &Receiver<Sent>, mut to: TcpStream) -> io::Result<()> {
    while let Ok((at, bytes)) = receiver.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        match bytes {
            Some(bytes) => to.write_all(&bytes)?,
            None => return to.shutdown(Shutdown::Write),
        }
    }
    Ok(())
}
