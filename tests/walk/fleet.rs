//! Walks side by side, each on a server of its own.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    server::Server,
    shrink::shortest,
    stage::{NO_ANSWER, Tally},
    walk::{Parted, Plan, walk},
};

/// How many servers there are at a time.
pub(crate) const SERVERS: usize = 2;
/// How many calls a walk draws.
const CALLS: usize = 60;
/// Each such walk goes on a server that keeps what it is told, and crashes.
const KEEPS: u64 = 20;

/// The servers of one thread, each started when it is needed.
#[derive(Default)]
pub(crate) struct Servers {
    plain: Option<Server>,
    keeping: Option<Server>,
}

impl Servers {
    pub(crate) fn get(&mut self, keeps: bool) -> &mut Server {
        let server = if keeps { &mut self.keeping } else { &mut self.plain };
        server.get_or_insert_with(|| Server::start(keeps))
    }
}

/// Walks the walk of this seed.
pub(crate) fn one(servers: &mut Servers, seed: u64, tally: &mut Tally) -> Result<(), Box<Parted>> {
    let server = servers.get(seed % KEEPS == KEEPS - 1);
    let plan = Plan { seed, calls: CALLS, favourite: None, slant: None };
    walk(server, tally, plan).map_err(|parted| {
        // One that hangs would hang again and again.
        if parted.why.starts_with(NO_ANSWER) { parted } else { shortest(server, parted) }
    })
}

/// Walks until so many steps are made, or a walk parts.
pub(crate) fn until(steps: usize) -> Result<Tally, Box<Parted>> {
    let (next, made, ended) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let whole = Mutex::new((Tally::default(), None));
    let work = || {
        let (mut servers, mut tally) = (Servers::default(), Tally::default());
        let mut parted = None;
        while made.load(Ordering::Relaxed) < steps && !ended.load(Ordering::Relaxed) {
            let before = tally.steps;
            parted = one(&mut servers, next.fetch_add(1, Ordering::Relaxed), &mut tally).err();
            ended.fetch_or(parted.is_some(), Ordering::Relaxed);
            made.fetch_add(tally.steps - before, Ordering::Relaxed);
        }
        let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
        whole.0.add(tally);
        whole.1 = whole.1.take().or(parted);
    };
    thread::scope(|scope| (0..SERVERS).for_each(|_| drop(scope.spawn(work))));
    let (tally, parted) = whole.into_inner().unwrap_or_else(PoisonError::into_inner);
    parted.map_or(Ok(tally), Err)
}
