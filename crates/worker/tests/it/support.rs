//! A stage for a worker: a Redis, a gateway, and a hand that does what the other roles would.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{
    Digest, Draft, Envelope, Generation, Handle, Home, Identity, Key, QueueName, Record, Request,
    Ticket,
};
use holdfast_core::redis::Options;
use holdfast_core::script::{
    Cancel, CancelReply, Found, Read, Reclaim, ReclaimReply, Submission, Submit, SubmitReply,
};
use holdfast_runtime::{Environment, Failure, Services, Settings, Stop};
use holdfast_testkit::{RedisServer, StandIn, eventually, stand_in};
use holdfast_worker::Config;
use tokio::task::JoinSet;

pub(crate) const SOON: Duration = Duration::from_secs(10);

/// Far enough not to matter.
pub(crate) const LATER: Duration = Duration::from_secs(600);

/// A lease that a test can wait for.
pub(crate) const SHORT_LEASE: &str = "lease = \"2s\"\nrenew = \"400ms\"";

/// What a worker needs around it.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    pub(crate) gateway: StandIn,
    pub(crate) store: Redis,
    pub(crate) shards: NonZeroU32,
}

/// A worker in this process.
pub(crate) struct Worker {
    stop: Stop,
    running: JoinSet<Result<(), Failure>>,
}

impl Stage {
    /// A stage for a queue with one shard.
    pub(crate) async fn set() -> Self {
        Self::with_shards(1).await
    }

    pub(crate) async fn with_shards(shards: u32) -> Self {
        let redis = RedisServer::start().await;
        let gateway = StandIn::start(stand_in::Options::default()).await.unwrap();
        let store = Redis::open(Options::new(redis.url())).unwrap();
        Self { redis, gateway, store, shards: NonZeroU32::new(shards).unwrap() }
    }

    /// A worker that has declared its queue, with lines of its own in `[worker]` and `[queues.q]`.
    pub(crate) async fn worker(&self, worker: &str, queue: &str) -> Worker {
        self.worker_by(self.redis.url(), worker, queue).await
    }

    /// The same, reaching Redis by another way.
    pub(crate) async fn worker_by(&self, redis: &str, worker: &str, queue: &str) -> Worker {
        let started = Worker::start(self, redis, worker, queue);
        eventually("the queue is declared", SOON, async || {
            let capacity = self.redis.command(&["HGET", &self.shard(0).meta, "capacity"]).await;
            capacity.bytes().map(drop).ok_or("no policy")
        })
        .await;
        started
    }

    pub(crate) fn shard(&self, shard: u32) -> ShardKeys {
        ShardKeys::new(&QueueName::try_from("q").unwrap(), shard)
    }

    /// Submits a request that may take as long as it likes.
    pub(crate) async fn submit(&self, id: &str, body: impl Into<Bytes>) -> Spot {
        self.submit_for(id, body, LATER).await
    }

    /// Submits a request that has so much time.
    pub(crate) async fn submit_for(
        &self,
        id: &str,
        body: impl Into<Bytes>,
        time: Duration,
    ) -> Spot {
        self.submit_with(id, body, time, Envelope::default()).await
    }

    pub(crate) async fn submit_with(
        &self,
        id: &str,
        body: impl Into<Bytes>,
        time: Duration,
        envelope: Envelope,
    ) -> Spot {
        let tenant = "default".try_into().unwrap();
        let identity = Identity { tenant, id: id.try_into().unwrap() };
        let (place, body) = (identity.place(self.shards), body.into());
        let draft = Draft {
            generation: Generation::random(),
            digest: Digest::of(&identity, &body),
            deadline: unix_now() + u64::try_from(time.as_millis()).unwrap(),
            not_before: 0,
            body_size: body.len() as u32,
        };
        let request = Request { identity, lane: String::new(), envelope, body };
        let items = [Submission::new(place.key, &draft, &request).unwrap()];
        let shard = self.shard(place.shard);
        let reply = Submit { shard: &shard, items: &items }.run(&self.store).await.unwrap();
        match reply.into_iter().next() {
            Some(SubmitReply::Accepted(ticket)) => {
                Spot { handle: ticket.handle(place.key), key: place.key, shard }
            }
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// Submits one request to each shard, in their order.
    pub(crate) async fn one_a_shard(&self) -> Vec<Spot> {
        let mut spots = Vec::new();
        for shard in 0..self.shards.get() {
            let lies_there = |id: &String| {
                let tenant = "default".try_into().unwrap();
                let identity = Identity { tenant, id: id.as_str().try_into().unwrap() };
                identity.place(self.shards).shard == shard
            };
            let id = (0..).map(|at| format!("a{at}")).find(lies_there).unwrap();
            spots.push(self.submit(&id, "{}").await);
        }
        spots
    }

    pub(crate) async fn find(&self, spot: &Spot) -> Found {
        self.try_find(spot).await.unwrap()
    }

    /// The same while Redis may be silent.
    async fn try_find(&self, spot: &Spot) -> Result<Found, String> {
        let read = Read { shard: &spot.shard, keys: &[spot.key], whole: usize::MAX, tick: false };
        let found = read.run(&self.store).await.map_err(|err| err.to_string())?;
        found.into_iter().next().flatten().ok_or_else(|| "nothing is kept".to_owned())
    }

    /// Waits until it is there, and gives what is then kept of it.
    pub(crate) async fn at_home(&self, spot: &Spot, home: Home) -> Found {
        eventually(&format!("it is {}", home.word()), SOON, async || {
            let found = self.try_find(spot).await?;
            if found.home == Some(home) { Ok(found) } else { Err(format!("{:?}", found.home)) }
        })
        .await
    }

    /// Waits until it has ended.
    pub(crate) async fn record(&self, spot: &Spot) -> Record {
        let found = eventually("it has ended", SOON, async || {
            let found = self.try_find(spot).await?;
            let ended = found.home.is_some_and(Home::is_end);
            if ended { Ok(found) } else { Err(format!("{:?}", found.home)) }
        })
        .await;
        Record::unpack(found.record).unwrap()
    }

    pub(crate) async fn cancel(&self, spot: &Spot) -> CancelReply {
        let cancel = Cancel { shard: &spot.shard, handles: &[spot.handle] };
        cancel.run(&self.store).await.unwrap().remove(0)
    }

    /// Takes back what has lapsed in a shard.
    pub(crate) async fn reclaim(&self, shard: &ShardKeys) -> Vec<ReclaimReply> {
        Reclaim { shard, limit: 256, named: &[] }.run(&self.store).await.unwrap()
    }

    /// Changes the ticket of a request that waits: so many lapses.
    pub(crate) async fn charge(&self, spot: &Spot, lapses: u16) {
        let hash = spot.shard.ticket.as_bytes();
        let ticket = self.redis.command(&[b"HGET", hash, spot.key.as_bytes()]).await;
        let mut ticket = ticket.bytes().unwrap().to_vec();
        ticket[82..84].copy_from_slice(&lapses.to_be_bytes());
        self.redis.command(&[b"HSET", hash, spot.key.as_bytes(), &ticket]).await;
        let changed = Ticket::unpack(ticket.into()).unwrap();
        assert_eq!(changed.lapses, lapses);
    }

    /// Charges a request that waits with two lapses, and puts it where such ones wait.
    pub(crate) async fn make_suspect(&self, spot: &Spot) {
        self.charge(spot, 2).await;
        let (pending, suspects) = (spot.shard.pending.as_bytes(), spot.shard.suspects.as_bytes());
        let handle = spot.handle.as_bytes().as_slice();
        let score = self.redis.command(&[b"ZSCORE", pending, handle]).await;
        let score = score.bytes().unwrap().to_vec();
        self.redis.command(&[b"ZREM", pending, handle]).await;
        self.redis.command(&[b"ZADD", suspects, &score, handle]).await;
    }

    /// Waits for the arrivals at the gateway.
    pub(crate) async fn arrivals(&self, count: u64) -> Vec<stand_in::Arrival> {
        self.gateway.wait_for_arrivals(count, SOON).await.unwrap();
        self.gateway.arrivals()
    }
}

/// Where a request is kept.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub(crate) handle: Handle,
    pub(crate) key: Key,
    pub(crate) shard: ShardKeys,
}

impl Worker {
    /// A worker that may not have reached its Redis yet.
    pub(crate) fn start(stage: &Stage, redis: &str, worker: &str, queue: &str) -> Self {
        let text = format!(
            "[redis]\nurl = \"{redis}\"\n[worker]\n{worker}\n[reclaimer]\nevery = \"100ms\"\n\
             [queues.q]\ntarget = \"{}\"\nshards = {}\n{queue}\n",
            stage.gateway.url(),
            stage.shards,
        );
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        let config = Config::read(&settings).unwrap();
        let mut services = Services::new();
        let redis = services.open_redis(&config.redis).unwrap();
        holdfast_worker::spawn(&mut services, redis, config).unwrap();
        let (stop, mut running) = (Stop::default(), JoinSet::new());
        let stopped = stop.clone();
        running.spawn(async move { services.run(&stopped).await });
        Self { stop, running }
    }

    /// Asks it to stop, and goes on.
    pub(crate) fn begin_stop(&self) {
        self.stop.drain.cancel();
    }

    /// Asks it to stop, and says how it ended.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        self.begin_stop();
        self.running.join_next().await.unwrap().unwrap()
    }

    /// How it ended by itself.
    pub(crate) async fn ended(mut self) -> Result<(), Failure> {
        self.running.join_next().await.unwrap().unwrap()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own deadlines")]
pub(crate) fn unix_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}
