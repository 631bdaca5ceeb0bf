//! One play: the roles work, accidents happen, and in the end everything that was accepted has its one record.

use std::sync::{Arc, OnceLock};

use holdfast_model::{
    call::{Call, Claim, Item, Settle},
    state::{Answer, Fence, Generation, Handle, Home, Id, Named, Outcome, Session, Word},
};
use tokio::time::{Duration, advance, sleep};

use crate::{
    clock::{self, Moved, until},
    fate::Fault,
    mind::{At, Checked},
    plan::{Event, Plan},
    stage::{LEASE, Stage},
    world::{Shared, World, body_of},
};

/// How long after the last accident the last request may end: a back-off, a lease and its repeat, a clock that went back.
const LIMIT: At = 240_000;
/// How long nothing ends by a clock that leapt.
const REST: At = 600_000;
/// The worker that is somewhere else.
const STRANGER: Session = Session(200);
/// A producer repeats a submit for less than this.
const GUARD: At = 600_000;

/// What a play showed that must not be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) what: String,
    /// What happened, line by line.
    pub(crate) story: String,
    /// What had gone wrong before, on the way and at the gateway.
    pub(crate) faults: Vec<Fault>,
}

/// Plays a plan, and tells its story.
pub(crate) fn play(plan: &Plan) -> Result<String, Wrong> {
    let folder = tempfile::tempdir().expect("a folder");
    let (moved, world) = (Moved::default(), Arc::new(OnceLock::<Shared>::new()));
    let looked_at = Arc::clone(&world);
    let quiet = move || {
        let Some(world) = looked_at.get() else { return true };
        let mut world = world.lock();
        world.is_at_rest();
        world.wrong().is_none()
    };
    let played = clock::run(&moved, quiet, async {
        let world =
            world.get_or_init(|| Shared::new(plan.faults.clone(), &plan.slots, moved.clone()));
        {
            let mut world = world.lock();
            world.poison = plan.poison.map(Id);
            world.remembers = plan.forgets();
        }
        let stage = Stage::set(world, folder.path(), &plan.slots, plan.breaker).await;
        let play = Play { world: world.clone(), stage, stranger: Vec::new(), claims: 0, zero: 0 };
        Box::pin(play.go(plan)).await
    });
    let mut world = world.get().expect("a world").lock();
    world.check("the play:", played.unwrap_or(Ok(())));
    match world.wrong() {
        Some(wrong) => Err(Wrong {
            what: wrong.to_owned(),
            story: world.story(),
            faults: world.happened.clone(),
        }),
        None => Ok(world.story()),
    }
}

struct Play {
    world: Shared,
    stage: Stage,
    /// What the worker somewhere else holds, and until when.
    stranger: Vec<(Fence, Handle, At)>,
    claims: u64,
    /// When the first event happened.
    zero: At,
}

impl Play {
    async fn go(mut self, plan: &Plan) -> Checked {
        // Nothing can be submitted before a worker has declared the queue.
        while self.world.lock().state.policy("capacity").is_none() {
            sleep(Duration::from_millis(50)).await;
        }
        let start = {
            let world = self.world.lock();
            self.zero = world.now();
            world.start()
        };
        for (at, event) in &plan.events {
            until(start, self.zero + at).await;
            self.stage.is_whole()?;
            self.strangers(None);
            self.happen(event).await;
        }
        // One that was told to stop may still be at it.
        if !self.world.lock().is_mended() {
            sleep(Duration::from_secs(2)).await;
            self.world.lock().mend();
        }
        let leaps = |(_, event): &(At, Event)| matches!(event, Event::Clock(by) if *by > 0);
        let rest = if plan.events.iter().any(leaps) { REST } else { 0 };
        let limit = self.world.lock().now() + LIMIT + rest;
        let stops = plan.events.iter().any(|(_, event)| matches!(event, Event::Stop(_)));
        if stops {
            self.stage.ended(0).await?;
            self.has_drained(plan)?;
        }
        loop {
            self.stage.is_whole()?;
            self.strangers(None);
            let (live, now) = {
                let world = self.world.lock();
                (world.live(), world.now())
            };
            if live == 0 {
                break;
            }
            if now > limit {
                return Err(format!("{live} have not ended: {}", alive(&self.world.lock())));
            }
            sleep(Duration::from_millis(200)).await;
        }
        if plan.lingers {
            sleep(Duration::from_secs(12)).await;
        }
        for worker in usize::from(stops)..plan.slots.len() {
            self.stage.stop(worker);
        }
        for worker in usize::from(stops)..plan.slots.len() {
            self.stage.ended(worker).await?;
            self.world.lock().holds_nothing(worker)?;
        }
        if plan.faults.calm { was_calm(&self.world.lock()) } else { Ok(()) }
    }

    /// Where nothing went wrong any more from before it was told to stop.
    fn has_drained(&self, plan: &Plan) -> Checked {
        let mends = |(_, event): &(At, Event)| matches!(event, Event::Mend);
        if plan.faults.calm || plan.events.iter().any(mends) {
            self.world.lock().holds_nothing(0)?;
        }
        Ok(())
    }

    async fn happen(&mut self, event: &Event) {
        {
            let mut world = self.world.lock();
            let accident = !matches!(event, Event::Submit(_) | Event::Stop(_) | Event::Mend);
            if world.is_mended() && accident {
                return;
            }
            world.tell(|| format!("-- {event:?}"));
        }
        match event {
            Event::Submit(them) => self.submit(them),
            Event::Cancel(id) => self.cancel(Id(*id)),
            Event::Stall(ms) => self.stall(*ms).await,
            Event::Silence(actor, ms) => {
                let mut world = self.world.lock();
                let end = world.now() + ms;
                world.silent_until.insert(*actor, end);
            }
            Event::Crash { forgets, down } => self.world.lock().crash(*forgets, *down),
            Event::Clock(by) => self.world.lock().offset += by,
            Event::Stranger => self.strangers(Some(1)),
            Event::Mend => self.world.lock().mend(),
            Event::Stop(worker) => self.stage.stop(*worker),
        }
    }

    fn submit(&self, them: &[(u8, At)]) {
        let mut world = self.world.lock();
        let now = world.now();
        let clock = world.clock(now);
        let item = |(id, left): &(u8, At)| Item {
            id: Id(*id),
            generation: Generation(u32::from(*id) + 1),
            body: body_of(Id(*id)),
            deadline: clock + left,
            not_before: 0,
            tail: false,
            limits: None,
        };
        let items = them.iter().map(item).collect();
        world.step(&Call::Submit { guard: GUARD, items }, now);
    }

    fn cancel(&self, id: Id) {
        let mut world = self.world.lock();
        let now = world.now();
        let handle = world.state.homes.keys().find(|handle| handle.id == id).copied();
        if let Some(handle) = handle {
            world.step(&Call::Cancel(vec![handle]), now);
        }
    }

    /// Nobody here gets a turn for `ms`, while others reclaim and claim what lapses.
    async fn stall(&mut self, ms: At) {
        let now = self.world.lock().now();
        for at in (now..now + ms).step_by(1_000).skip(1) {
            self.world.lock().step(&Call::Reclaim { limit: 256, named: Vec::new() }, at);
            self.strangers_at(Some(1), at);
        }
        self.world.lock().minds.iter_mut().for_each(|mind| mind.stalls(ms));
        advance(Duration::from_millis(ms)).await;
        // What happens next happens to those who are awake again.
        self.zero += ms;
    }

    fn strangers(&mut self, claims: Option<u64>) {
        let now = self.world.lock().now();
        self.strangers_at(claims, now);
    }

    /// The worker somewhere else settles what it is done with, and may claim.
    fn strangers_at(&mut self, claims: Option<u64>, at: At) {
        let mut world = self.world.lock();
        let done = |(fence, handle, due): &(Fence, Handle, At)| {
            (*due <= at).then_some(Settle {
                fence: *fence,
                handle: *handle,
                word: Word::Ack,
                number: 200,
                failure: None,
                answer: Some(Answer(1)),
            })
        };
        let rows: Vec<Settle> = self.stranger.iter().filter_map(done).collect();
        self.stranger.retain(|(_, _, due)| *due > at);
        if !rows.is_empty() {
            world.step(&Call::Settle(rows), at);
        }
        let Some(free) = claims else { return };
        self.claims += 1;
        let fence = Fence { session: STRANGER, call: self.claims };
        let claim = Claim {
            fence,
            free,
            lease: LEASE,
            budget: 1 << 20,
            may_suspect: true,
            trusted_until: 0,
            along: 0,
        };
        world.step(&Call::Claim(claim), at);
        let leases = world.state.leases().into_iter();
        let new = leases.filter(|(_, it, _)| *it == fence).map(|(_, _, handle)| handle);
        self.stranger.extend(new.map(|handle| (fence, handle, at + 9_000)));
    }
}

/// Where nothing goes wrong, everything is answered at the first attempt.
fn was_calm(world: &World) -> Checked {
    for (id, record) in &world.state.records {
        // A drain may have handed it back in the midst of a call.
        let attempts = record.attempts <= 2;
        if record.outcome != Outcome::Answered || record.lapses > 0 || !attempts {
            return Err(format!("nothing went wrong, and {id:?} ended like this: {record:?}"));
        }
    }
    Ok(())
}

fn alive(world: &World) -> String {
    let live = world.state.homes.iter().filter(|(_, spot)| !spot.home.is_end());
    let told = live.map(|(handle, spot)| {
        let at = match spot.home {
            Home::Leased(fence) => format!("leased by {fence:?}"),
            home => home.word().to_owned(),
        };
        let attempts = match world.state.ticket(*handle) {
            Named::This(ticket) => ticket.attempts,
            _ => 0,
        };
        format!("{:?} {at} till {} after {attempts}", handle.id, spot.till)
    });
    told.collect::<Vec<_>>().join("; ")
}
