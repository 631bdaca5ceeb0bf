//! Walks with scripts that have one fault each: every mutant must be found out.

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    fleet::SERVERS,
    scripts::{SCRIPTS, Texts},
    server::Server,
    stage::{NO_ANSWER, Tally},
    walk::{Plan, walk},
    world::Slant,
};

/// How many walks a mutant may survive, how long each is, and how long all of them may take: less where none is said to find
/// it out, unless `HOLDFAST_LIMIT` says how many seconds.
const WALKS: u64 = 2_000;
const CALLS: usize = 40;
const LIMIT: Duration = Duration::from_secs(120);
const REASONED_LIMIT: Duration = Duration::from_secs(4);

/// A mutant that is hunted.
pub(crate) struct Prey {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) texts: Texts,
    /// The scripts in whose calls it may show.
    pub(crate) scripts: Vec<&'static str>,
    /// In which circumstances it may show.
    pub(crate) slants: Vec<Option<Slant>>,
    /// The walk that found it out last time.
    pub(crate) first: Option<u64>,
    /// Whether it is said that no walk finds it out.
    pub(crate) reasoned: bool,
}

/// Where a mutant was found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) seed: u64,
    pub(crate) call: usize,
}

/// Hunts them all, on several servers. Gives the fate of each, in their order.
pub(crate) fn hunt(prey: &[Prey]) -> Vec<Option<Kill>> {
    let (shipped, next) = (Texts::shipped(), Mutex::new(prey.iter().enumerate()));
    let fates = Mutex::new(vec![None; prey.len()]);
    let work = || {
        let mut server = Server::start(false);
        loop {
            let one = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((at, one)) = one else { return };
            let fate = one.hunt(&mut server, &shipped);
            if fate.is_none() {
                println!("{} {}: not found out", one.file, one.name);
            }
            fates.lock().unwrap_or_else(PoisonError::into_inner)[at] = fate;
        }
    };
    let servers = SERVERS.min(prey.len());
    thread::scope(|scope| (0..servers).for_each(|_| drop(scope.spawn(work))));
    fates.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Prey {
    fn hunt(&self, server: &mut Server, shipped: &Texts) -> Option<Kill> {
        let changed: Vec<_> = SCRIPTS
            .into_iter()
            .filter(|script| self.texts.script(script) != shipped.script(script))
            .collect();
        let load = |server: &mut Server, texts| {
            changed.iter().try_for_each(|script| server.load_one(texts, script))
        };
        let fate = match load(server, &self.texts) {
            Ok(()) => self.find(server),
            Err(_) => Some(Kill { seed: 0, call: 0 }),
        };
        load(server, shipped).expect("what is shipped is Lua");
        fate
    }

    fn find(&self, server: &mut Server) -> Option<Kill> {
        let (began, mut tally) = (Instant::now(), Tally::default());
        let asked = crate::number("HOLDFAST_LIMIT").map_or(REASONED_LIMIT, Duration::from_secs);
        let limit = if self.reasoned { asked } else { LIMIT };
        let seeds = self.first.into_iter().chain(0..WALKS);
        seeds.take_while(|_| began.elapsed() < limit).find_map(|seed| {
            let parted = walk(server, &mut tally, self.plan(seed)).err()?;
            if parted.why.starts_with(NO_ANSWER) {
                server.renew();
            }
            Some(Kill { seed, call: parted.calls() })
        })
    }

    /// Each number stands for one walk: one script and one circumstance after the other.
    fn plan(&self, seed: u64) -> Plan {
        let at = seed as usize;
        let favourite = Some(self.scripts[at % self.scripts.len()]);
        let slant = self.slants[at / self.scripts.len() % self.slants.len()];
        Plan { seed, calls: CALLS, favourite, slant }
    }
}
