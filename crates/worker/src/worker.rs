//! The loop that gives free slots work, and the drain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use rand::RngExt;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::attempt::{self, News, Told, Watch};
use crate::bell::{self, Rang, Room, Waiter};
use crate::breaker::{Call, Over};
use crate::claimer::{Answered, Claimer, Tally, Wait};
use crate::held::Held;
use crate::queue::{Queue, Shard};
use crate::renewer::{Plan, RenewOn, Renewing, StartError};
use crate::settler::{self, Settler};
use crate::shown::Shown;
use crate::slots::{Share, Slots};
use crate::store::Store;

/// How long a shard is left alone if nothing calls for it: somewhere in here, so that many workers
/// don't look all at once.
const POLL: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(2);

/// How long unanswered claims are repeated when the process ends: what they may have leased is handed back at once
/// instead of lapsing.
const LAST_CLAIMS: Duration = Duration::from_secs(5);

/// What runs in a dispatch.
struct Running {
    shard: usize,
    is_suspect: bool,
    /// As its target's breaker knows it.
    call: Option<Call>,
    /// The breaker knows of its end: what is left is to be settled.
    is_over: bool,
}

/// Why a worker can't go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// It could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A connection of its own can't be set up.
    #[error(transparent)]
    Redis(#[from] holdfast_core::redis::OpenError),
    /// One of its loops has ended, which none does by itself.
    #[error("the {0} loop has ended")]
    Ended(&'static str),
}

/// How a worker has ended.
pub(crate) struct Worked {
    pub(crate) result: Result<(), Broken>,
    /// Of the time for the drain and for handing back.
    pub(crate) left: Duration,
}

/// A worker process, without what stands around it.
pub(crate) struct Worker {
    pub(crate) store: Store,
    pub(crate) claimer: Arc<Claimer>,
    pub(crate) held: Arc<Held>,
    pub(crate) queues: Arc<[Arc<Queue>]>,
    pub(crate) shards: Arc<[Shard]>,
    /// The slots of each queue.
    pub(crate) shares: Vec<Share>,
    pub(crate) shown: Shown,
    pub(crate) renew: Duration,
    pub(crate) renew_on: RenewOn,
    pub(crate) drain: Duration,
    /// For handing back what the drain did not finish.
    pub(crate) hand_back: Duration,
}

impl Worker {
    /// Works until `stop`, then finishes or hands back what it has claimed.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Worked {
        let (renewing, mut desk) = match self.begin().await {
            Ok(begun) => begun,
            Err(broken) => return Worked { result: Err(broken), left: self.hand_back },
        };
        let result = desk.work(&mut self, &renewing, &stop).await;
        let left = desk.finish(&self).await;
        // Renewing ends after the drain, so that no lease lapses meanwhile.
        drop(renewing);
        Worked { result, left }
    }

    async fn begin(&mut self) -> Result<(Renewing, Desk), Broken> {
        let lease = self.claimer.lease;
        let (held, shards) = (Arc::clone(&self.held), Arc::clone(&self.shards));
        let plan = Plan { held, shards, lease, every: self.renew, on: self.renew_on };
        let renewing = Renewing::start(self.store.usual.clone(), plan).await?;
        Ok((renewing, Desk::open(self)?))
    }
}

/// What changes while a worker works.
///
/// Claims and attempts are boxed before they are spawned: a task moves what it runs several times, and writes all over it
/// when it ends.
struct Desk {
    slots: Slots,
    claims: JoinSet<Answered>,
    /// Each gives the shards in which it has found something.
    looks: JoinSet<Vec<usize>>,
    attempts: JoinSet<Over>,
    running: HashMap<Id, Running>,
    /// What the breakers are to know of calls before their attempts are over.
    news: (mpsc::Sender<Told>, mpsc::Receiver<Told>),
    settler: Settler,
    writers: JoinSet<()>,
    waiters: JoinSet<()>,
    room: watch::Sender<Room>,
    rang: mpsc::Receiver<Rang>,
    /// Tokens that were taken, until the room has been told anew.
    heard: Vec<Rang>,
    /// Tokens on their way back.
    tokens: JoinSet<()>,
    /// Calls a claim back that waits at the bell.
    at_bell: Option<CancellationToken>,
    /// The bell could not be heard: it is not waited at before the next look.
    deaf: bool,
    /// Attempts have begun since the loop last came round.
    begun: bool,
    /// Claims that are still to be counted.
    tallies: Vec<Tally>,
}

impl Desk {
    fn open(worker: &mut Worker) -> Result<Self, Broken> {
        let queue_of: Vec<usize> = worker.shards.iter().map(|shard| shard.queue).collect();
        let slots = Slots::new(worker.shares.iter().copied(), &queue_of, Instant::now());
        for (queue, _) in worker.shares.iter().enumerate() {
            if let Some(breaker) = slots.breaker(queue) {
                worker.shown.look(queue, breaker);
            }
        }
        let keys: Vec<ShardKeys> = worker.shards.iter().map(|shard| shard.keys.clone()).collect();
        let (settler, writers) = settler::open(&worker.store, &keys);
        let (room, seen) = watch::channel(vec![false; keys.len()].into());
        let (rings, rang) = mpsc::channel(keys.len().max(1));
        let mut waiters = JoinSet::new();
        if !worker.claimer.waits_at_bell() {
            for waiter in Waiter::open(&worker.store.usual, &worker.shards)? {
                waiters.spawn(waiter.run(seen.clone(), rings.clone()));
            }
        }
        Ok(Self {
            slots,
            claims: JoinSet::new(),
            looks: JoinSet::new(),
            attempts: JoinSet::new(),
            running: HashMap::new(),
            // What finds no place is told by the end of its attempt.
            news: mpsc::channel(256),
            settler,
            writers: writers.into_iter().map(settler::Writer::run).collect(),
            waiters,
            room,
            rang,
            heard: Vec::new(),
            tokens: JoinSet::new(),
            at_bell: None,
            deaf: false,
            begun: false,
            tallies: Vec::new(),
        })
    }

    /// Claims for every free slot and dispatches what comes, until `stop`.
    async fn work(
        &mut self,
        worker: &mut Worker,
        renewing: &Renewing,
        stop: &CancellationToken,
    ) -> Result<(), Broken> {
        loop {
            self.look(worker);
            for offer in self.slots.offer(Instant::now()) {
                self.claims.spawn(Box::pin(Arc::clone(&worker.claimer).claim(offer, None)));
            }
            if std::mem::take(&mut self.begun) {
                // What has just begun goes out first: neither counting nor a wait at the bell is in a hurry.
                yield_now().await;
            }
            for tally in self.tallies.drain(..) {
                worker.claimer.count(tally);
            }
            self.wait_at_bell(worker);
            self.tell_room();
            let look = self.slots.next_look(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = renewing.ended() => return Err(Broken::Ended("renew")),
                Some(_) = self.writers.join_next() => return Err(Broken::Ended("settle")),
                Some(_) = self.waiters.join_next() => return Err(Broken::Ended("bell")),
                Some(ended) = self.attempts.join_next_with_id() => self.ended(worker, ended),
                Some(news) = self.news.1.recv() => {
                    self.heard_of(worker, news);
                    // Each round costs more than what is told.
                    while let Ok(news) = self.news.1.try_recv() {
                        self.heard_of(worker, news);
                    }
                }
                Some(answered) = self.claims.join_next() => {
                    let Ok(answered) = answered else { return Err(Broken::Ended("claim")) };
                    self.answered(worker, answered);
                }
                Some(found) = self.looks.join_next() => {
                    let Ok(found) = found else { return Err(Broken::Ended("claim")) };
                    found.into_iter().for_each(|shard| self.slots.found(shard));
                }
                Some(rang) = self.rang.recv() => self.token(worker, rang),
                Some(_) = self.tokens.join_next() => {}
                () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => {}
            }
        }
    }

    /// Asks of shards that only the clock calls for whether they hold anything.
    fn look(&mut self, worker: &Worker) {
        let now = Instant::now();
        let looks = self.slots.looks(now, now + rand::rng().random_range(POLL));
        if !looks.is_empty() {
            self.looks.spawn(Box::pin(Arc::clone(&worker.claimer).look(looks)));
        }
    }

    /// Lets the next claim wait at the bell, where nothing else is to be done with it, and calls one back
    /// that should not wait there any more.
    fn wait_at_bell(&mut self, worker: &Worker) {
        let now = Instant::now();
        if let Some(claim) = &self.at_bell
            && self.slots.calls_back(now)
        {
            claim.cancel();
        }
        if self.deaf || !worker.claimer.waits_at_bell() {
            return;
        }
        let Some((offer, until)) = self.slots.offer_at_bell(now) else { return };
        // Its lease counts from now, however late it begins.
        let longest = worker.claimer.lease / 3;
        let limit = until.saturating_duration_since(now).min(longest);
        let called_back = CancellationToken::new();
        self.at_bell = Some(called_back.clone());
        let wait = Some(Wait { limit, called_back });
        self.claims.spawn(Box::pin(Arc::clone(&worker.claimer).claim(offer, wait)));
    }

    /// Lets the waiters wait where a token would be news, and keeps them from it where none would.
    fn tell_room(&mut self) {
        let (shards, now) = (self.room.borrow().len(), Instant::now());
        let room: Room = (0..shards).map(|shard| self.slots.listens(shard, now)).collect();
        self.room.send_if_modified(|told| {
            let changed = *told != room;
            *told = room;
            changed
        });
        self.heard.clear();
    }

    fn token(&mut self, worker: &Worker, rang: Rang) {
        if !self.slots.rang(rang.shard, Instant::now()) {
            let keys = worker.shards[rang.shard].keys.clone();
            self.tokens.spawn(bell::put_back(worker.store.usual.clone(), keys));
        }
        self.heard.push(rang);
    }

    fn answered(&mut self, worker: &Worker, answered: Answered) {
        let Answered { shard, brought, work, deaf, tally } = answered;
        (self.at_bell, self.deaf) = (None, deaf);
        self.tallies.extend(tally);
        let (poll, now) = (rand::rng().random_range(POLL), Instant::now());
        self.slots.answered(shard, brought, now, poll);
        self.begun |= !work.is_empty();
        for work in work {
            let queue = Arc::clone(&worker.queues[worker.shards[shard].queue]);
            let (call, is_suspect) = (self.slots.begin(shard, now), work.is_suspect());
            let watch = Watch {
                patience: call.and_then(|call| call.patience),
                is_probe: call.is_some_and(|call| call.is_probe()),
                news: call.map(|_| self.news.0.clone()),
            };
            let attempt = attempt::run(work, queue, self.settler.clone(), watch);
            let running = Running { shard, is_suspect, call, is_over: false };
            self.running.insert(self.attempts.spawn(Box::pin(attempt)).id(), running);
        }
    }

    /// A dispatch is over, also by a panic: then its lease lapses, but its slot is free.
    fn ended(&mut self, worker: &mut Worker, ended: Result<(Id, Over), JoinError>) {
        let (id, over) = match ended {
            Ok(ended) => ended,
            Err(err) => {
                error!("a dispatch panicked: its lease is left to lapse");
                (err.id(), Over::unsaid())
            }
        };
        let Some(Running { shard, is_suspect, call, is_over }) = self.running.remove(&id) else {
            return;
        };
        if let Some(call) = call.filter(|_| !is_over) {
            self.over(worker, shard, call, over);
        }
        self.slots.finished(shard, is_suspect, call.is_some());
    }

    /// A call says something before its attempt is over.
    fn heard_of(&mut self, worker: &mut Worker, (id, news): Told) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let shard = running.shard;
        let Some(call) = &mut running.call else { return };
        match news {
            News::Quiet => {
                self.slots.taken(shard, call, Instant::now());
                self.show(worker, shard, false);
            }
            News::Over(over) => {
                let call = *call;
                running.is_over = true;
                self.over(worker, shard, call, over);
            }
        }
    }

    /// A call is over: its target's breaker is told, and others of what that does.
    fn over(&mut self, worker: &mut Worker, shard: usize, call: Call, over: Over) {
        let less = self.slots.call_over(shard, call, over, &mut rand::rng());
        self.show(worker, shard, less);
    }

    /// Lets others see what a breaker does.
    fn show(&self, worker: &mut Worker, shard: usize, less: bool) {
        let queue = worker.shards[shard].queue;
        let Some(breaker) = self.slots.breaker(queue) else { return };
        if less {
            worker.shown.cut(queue, breaker);
        }
        worker.shown.look(queue, breaker);
    }

    /// Finishes what runs, as far as the drain allows, and hands back the rest. Gives what is left of the time for both.
    async fn finish(&mut self, worker: &Worker) -> Duration {
        let until = Instant::now() + worker.drain + worker.hand_back;
        self.waiters.abort_all();
        if let Some(claim) = self.at_bell.take() {
            claim.cancel();
        }
        info!(running = self.attempts.len(), "stopped claiming");
        let late = sleep(worker.drain);
        tokio::pin!(late);
        let claims_late = sleep(worker.drain.min(LAST_CLAIMS));
        tokio::pin!(claims_late);
        let last = &worker.claimer.last;
        while !self.attempts.is_empty() || !self.claims.is_empty() {
            tokio::select! {
                () = &mut late => break,
                () = &mut claims_late, if !last.is_cancelled() => last.cancel(),
                Some(_) = self.attempts.join_next() => {}
                Some(answered) = self.claims.join_next() => self.hand_back(worker, answered),
            }
        }
        last.cancel();
        // Each of the rest aborts its call and hands its request back.
        worker.held.drain();
        let all = async {
            loop {
                tokio::select! {
                    Some(_) = self.attempts.join_next() => {}
                    Some(answered) = self.claims.join_next() => self.hand_back(worker, answered),
                    else => return,
                }
            }
        };
        if timeout(worker.hand_back, all).await.is_err() {
            warn!(left = self.attempts.len(), "not handed back in time: left to lapse");
        }
        until.saturating_duration_since(Instant::now())
    }

    /// A claim that was under way when the process was told to end: nothing of it is dispatched.
    fn hand_back(&mut self, worker: &Worker, answered: Result<Answered, JoinError>) {
        let Ok(Answered { work, tally, .. }) = answered else { return };
        if let Some(tally) = tally {
            worker.claimer.count(tally);
        }
        for work in work {
            self.attempts.spawn(attempt::hand_back(work, self.settler.clone()));
        }
    }
}
