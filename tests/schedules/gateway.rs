//! The gateway of a play: knows by path and body whose call it is, and answers when and how the schedule says.

use holdfast_model::{
    names,
    state::{Answer, Id},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Duration, sleep},
};

use crate::{
    fate::{Service, With},
    world::{Actor, Shared, id_of},
};

/// Takes the connections of all workers.
pub(crate) async fn listen(world: Shared, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        world.lock().moved.note();
        let _ = stream.set_nodelay(true);
        connections.spawn(serve(world.clone(), stream));
    }
}

/// A call that came.
struct Call {
    worker: usize,
    id: Id,
}

async fn serve(world: Shared, mut stream: TcpStream) {
    let mut bytes = Vec::new();
    loop {
        let call = loop {
            if let Some((call, length)) = whole(&bytes) {
                bytes.drain(..length);
                break call;
            }
            let came = stream.read_buf(&mut bytes).await.unwrap_or(0);
            world.lock().moved.note();
            if came == 0 {
                return;
            }
        };
        if !answer(&world, &mut stream, &call).await {
            return;
        }
    }
}

/// Answers a call; whether the connection lives on.
async fn answer(world: &Shared, stream: &mut TcpStream, call: &Call) -> bool {
    let Call { worker, id } = *call;
    let who = Actor::Worker(worker).name();
    let (number, Service { after, with }) = {
        let mut world = world.lock();
        let (number, service) = world.service();
        let now = world.now();
        world.tell(|| format!("{who} calls for {}: {service:?}", id.0));
        let checked = world.minds[worker].calls(now, number, id);
        world.check(&who, checked);
        (number, service)
    };
    let mut byte = [0];
    let hung_up = tokio::select! {
        biased;
        _ = stream.read(&mut byte) => true,
        () = sleep(Duration::from_millis(after)) => false,
    };
    let mut told = None;
    if let (With::Status(status), false) = (with, hung_up) {
        // A number that tells this answer from others, and of which there is at least one byte.
        let answer = Answer((1 + number % 63 * 4 + number % 3) as u8);
        let body = &names::answer(answer)[4..];
        let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {}\r\n\r\n", body.len());
        let written = stream.write_all(&[head.as_bytes(), body].concat()).await;
        told = written.is_ok().then_some((status, answer));
    }
    let mut world = world.lock();
    world.moved.note();
    let now = world.now();
    world.tell(|| match told {
        Some((status, _)) => format!("{who} hears {status} for {}", id.0),
        None => {
            format!("{who} hears nothing for {}: {}", id.0, if hung_up { "hung up" } else { "cut" })
        }
    });
    match told {
        Some((status, answer)) => world.minds[worker].is_answered(now, number, status, answer),
        None => world.minds[worker].hangs_up(number),
    }
    told.is_some()
}

/// A call at the start of `bytes`, and how long it is.
fn whole(bytes: &[u8]) -> Option<(Call, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
    });
    let length: usize = length.expect("a length");
    let body = bytes.get(end..end + length)?;
    let path = head.split(' ').nth(1).expect("a path");
    let worker = path.trim_start_matches("/w").parse().expect("a worker");
    let id = id_of(body).expect("a body");
    Some((Call { worker, id }, end + length))
}
