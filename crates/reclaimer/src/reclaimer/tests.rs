//! What one pass does and leaves, above all by a Redis clock that leapt: nothing may end or be forgotten by it, and all else
//! goes on.
//!
//! The clock of the machine cannot be made to leap. So a reclaimer is given an earlier sight, in which the clock of
//! Redis stood where it would have come from.

use holdfast_core::model::{
    Digest, Draft, Envelope, Fence, Generation, Handle, Identity, Request, Session,
};
use holdfast_core::redis::Options;
use holdfast_core::script::{
    Cancel, CancelReply, Claim, Policy, QueuePolicy, Submission, Submit, SubmitReply,
};
use holdfast_runtime::{Environment, Settings};
use holdfast_testkit::{RedisServer, eventually};

use super::*;

const SOON: Duration = Duration::from_secs(20);

/// How far the clock leapt, in ms: more than any lease.
const LEAP: u64 = 3_600_000;

/// How long ago a leap was whose rest is over: it lasts ten minutes.
const LONG_AGO: Duration = Duration::from_secs(601);

/// A queue of one shard, and a reclaimer that knows it.
struct Yard {
    redis: RedisServer,
    client: Redis,
    shard: ShardKeys,
    reclaimer: Reclaimer,
}

impl Yard {
    async fn open() -> Self {
        let redis = RedisServer::start().await;
        let text = format!(
            "[redis]\nurl = \"{}\"\n[queues.leapt]\ntarget = \"http://127.0.0.1:9901\"\n",
            redis.url()
        );
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        let (name, queue) = settings.queues.first_key_value().unwrap();
        let (shard, policy): (_, QueuePolicy) = (ShardKeys::new(name, 0), queue.policy());
        let client = Redis::open(Options::new(redis.url())).unwrap();
        let declare = Policy { shard: &shard, policy: &policy, write: true };
        eventually("the queue is declared", SOON, async || {
            declare.run(&client).await.map(drop).map_err(|err| err.to_string())
        })
        .await;
        let reclaimer = Reclaimer::new(client.clone(), Config::read(&settings).unwrap());
        Self { redis, client, shard, reclaimer }
    }

    /// The time of Redis, in ms.
    async fn now(&self) -> u64 {
        Depth { shard: &self.shard }.run(&self.client).await.unwrap().now
    }

    /// Takes in a request with so many ms to its deadline.
    async fn submit(&self, id: &str, left: u64) -> Handle {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: id.try_into().unwrap() };
        let draft = Draft {
            generation: Generation::random(),
            digest: Digest::of(&identity, b"{}"),
            deadline: self.now().await + left,
            not_before: 0,
            body_size: 2,
        };
        let key = identity.place(std::num::NonZeroU32::MIN).key;
        let (lane, envelope) = (String::new(), Envelope::default());
        let request = Request { identity, lane, envelope, body: b"{}".as_slice().into() };
        let items = [Submission::new(key, &draft, &request).unwrap()];
        let replies = Submit { shard: &self.shard, items: &items }.run(&self.client).await.unwrap();
        let [SubmitReply::Accepted(ticket)] = &replies[..] else { panic!("{replies:?}") };
        ticket.handle(key)
    }

    /// A request whose lease has lapsed.
    async fn lapsed(&self) {
        self.submit("lapsed", 600_000).await;
        let claim = Claim {
            shard: &self.shard,
            fence: Fence::new(Session::random(), 1),
            free: 1,
            lease: Duration::from_millis(1),
            budget: 1 << 20,
            may_take_suspect: true,
            trusted_until: 0,
            along: 0,
        };
        claim.run(&self.client).await.unwrap();
        let leased_at = self.now().await;
        self.passes(leased_at + 1).await;
        assert_eq!(self.count("leased").await, 1);
    }

    /// A request that has ended, and whose retention is over.
    async fn forgettable(&self) {
        let handles = [self.submit("forgettable", 600_000).await];
        let cancel = Cancel { shard: &self.shard, handles: &handles };
        assert_eq!(cancel.run(&self.client).await.unwrap(), [CancelReply::Cancelled]);
        let (key, member) = (self.key("finished"), handles[0].bytes());
        self.redis.command(&[b"ZADD".as_slice(), key.as_bytes(), b"XX", b"1", &member]).await;
    }

    /// A request that waits, and whose deadline has passed.
    async fn late(&self) {
        self.submit("late", 50).await;
        let submitted_at = self.now().await;
        self.passes(submitted_at + 50).await;
    }

    /// Waits until the clock of Redis is past a time.
    async fn passes(&self, time: u64) {
        eventually("the time of redis", SOON, async || {
            let now = self.now().await;
            if now > time { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
    }

    fn key(&self, home: &str) -> String {
        format!("hf1:{{leapt/0}}:{home}")
    }

    /// How many are in `pending`, `leased` and `finished`.
    async fn homes(&self) -> [i64; 3] {
        [self.count("pending").await, self.count("leased").await, self.count("finished").await]
    }

    async fn count(&self, home: &str) -> i64 {
        self.redis.command(&["ZCARD", &self.key(home)]).await.int().unwrap()
    }

    /// Has the reclaimer go on from what it saw of the clock before.
    fn saw(&mut self, clock: ClockWatch) {
        let known = Known { clock, ..Known::default() };
        self.reclaimer.known.insert(self.shard.meta.clone(), known);
    }
}

/// How often a loop has rested after a leap.
fn skips(name: &str) -> Option<String> {
    let text = metrics::install().unwrap().render();
    let prefix = format!("holdfast_clock_skips_total{{loop=\"{name}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

#[tokio::test]
async fn after_a_leap_of_the_clock_leases_are_taken_back_and_nothing_ends_until_the_rest_is_over() {
    metrics::install().unwrap();
    let mut yard = Yard::open().await;
    let lease = yard.reclaimer.lease;
    yard.forgettable().await;
    yard.lapsed().await;
    yard.late().await;
    assert_eq!(yard.homes().await, [1, 1, 1]);

    let (mut watch, before) = (ClockWatch::default(), Instant::now());
    watch.sight(yard.now().await - LEAP, before, before, lease);
    yard.saw(watch);
    // The clock is as it was left after the leap: it is the rest that holds back the second round.
    for round in ["the leap", "the rest"] {
        yard.reclaimer.round().await;
        assert_eq!(yard.homes().await, [2, 0, 1], "{round}");
        for name in ["expire", "sweep"] {
            assert_eq!(skips(name).as_deref(), Some("1"), "{round}: {name}");
        }
    }

    let (mut watch, then) = (ClockWatch::default(), Instant::now().checked_sub(LONG_AGO).unwrap());
    let at = yard.now().await - u64::try_from(LONG_AGO.as_millis()).unwrap();
    watch.sight(at - LEAP, then, then, lease);
    assert!(watch.sight(at, then, then, lease), "a leap");
    yard.saw(watch);
    yard.reclaimer.round().await;
    assert_eq!(yard.homes().await, [1, 0, 1], "the late one ended, the old one is forgotten");
    let left = yard.redis.command(&["HLEN", &yard.key("ticket")]).await;
    assert_eq!(left.int(), Some(2), "of three");
}

#[tokio::test]
async fn a_pass_over_an_idle_shard_is_one_call() {
    let mut yard = Yard::open().await;
    yard.reclaimer.round().await;
    let scripts = async || {
        let counts = yard.redis.command_counts().await;
        counts.get("evalsha").copied().unwrap_or_default()
    };
    let before = scripts().await;
    yard.reclaimer.round().await;
    assert_eq!(scripts().await, before + 1);
}

#[tokio::test]
async fn what_ends_while_the_sweep_rests_is_swept_after_its_rest() {
    let mut yard = Yard::open().await;
    yard.reclaimer.every = Duration::from_millis(10);
    yard.reclaimer.round().await;
    yard.forgettable().await;
    let homes = eventually("the old one is forgotten", SOON, async || {
        yard.reclaimer.round().await;
        match yard.homes().await {
            homes @ [0, 0, 0] => Ok(homes),
            homes => Err(format!("{homes:?}")),
        }
    });
    homes.await;
}

#[tokio::test]
async fn what_is_late_ends_also_where_the_score_of_the_head_is_no_time() {
    let mut yard = Yard::open().await;
    yard.late().await;
    let (key, head) = (yard.key("pending"), yard.submit("damaged", 600_000).await.bytes());
    yard.redis.command(&[b"ZADD".as_slice(), key.as_bytes(), b"XX", b"-inf", &head]).await;
    yard.reclaimer.round().await;
    assert_eq!(yard.homes().await, [0, 0, 2]);
}

#[tokio::test]
async fn a_backlog_ends_no_later_than_its_pass_and_the_next_ones_go_on_with_it_at_once() {
    const OLD: i64 = 30_000;
    let mut yard = Yard::open().await;
    yard.reclaimer.every = Duration::from_millis(10);
    let key = yard.key("finished");
    let numbers: Vec<i64> = (0..OLD).collect();
    for chunk in numbers.chunks(5_000) {
        let members = chunk.iter().flat_map(|number| ["1".to_owned(), format!("{number:032}")]);
        let words: Vec<String> =
            ["ZADD".to_owned(), key.clone()].into_iter().chain(members).collect();
        yard.redis.command(&words).await;
    }
    let (mut left, mut passes) = (OLD, 0);
    while left > 0 {
        yard.reclaimer.round().await;
        passes += 1;
        let before = std::mem::replace(&mut left, yard.count("finished").await);
        assert!(left < before, "pass {passes} swept nothing: {left} left");
    }
    assert!(passes > 2, "{OLD} swept in {passes} passes of 10 ms");
}

#[tokio::test]
async fn a_counter_of_bytes_that_is_none_holds_up_no_sweep() {
    let mut yard = Yard::open().await;
    yard.reclaimer.every = Duration::from_millis(1);
    for (bytes, shown) in [("-1", 0), ("1e30", 0), ("-inf", 0), ("x", 0), ("7.9", 7)] {
        // A spoiled one takes nothing new in.
        yard.redis.command(&["HSET", &yard.key("meta"), "bytes", "100"]).await;
        yard.forgettable().await;
        yard.redis.command(&["HSET", &yard.key("meta"), "bytes", bytes]).await;
        let depth = Depth { shard: &yard.shard }.run(&yard.client).await.unwrap();
        assert_eq!(depth.bytes, shown, "{bytes}");
        eventually("the old one is forgotten", SOON, async || {
            yard.reclaimer.round().await;
            match yard.homes().await {
                [0, 0, 0] => Ok(()),
                homes => Err(format!("{bytes}: {homes:?}")),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_pass_that_redis_does_not_answer_is_no_good_round_of_any_loop_and_waits_once() {
    let mut yard = Yard::open().await;
    assert_eq!(yard.reclaimer.pass().await, LOOPS);
    yard.redis.pause();
    let begun = Instant::now();
    let succeeded = yard.reclaimer.pass().await;
    let took = begun.elapsed();
    yard.redis.resume();
    assert_eq!(succeeded, [""; 0]);
    // One time-out of two seconds, and not one for each loop.
    assert!(took < Duration::from_secs(4), "{took:?}");
}
