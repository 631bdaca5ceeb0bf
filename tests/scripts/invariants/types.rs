//! 6: all or nothing, also where somebody has put a value of another type under a key of the shard.

use std::{collections::BTreeSet, time::Duration};

use holdfast_core::{
    StoreError,
    model::{Fence, Generation, Handle, Session},
    script::{
        self, Audit, Cancel, Claim, Depth, Expire, Override, Overrule, OverruleMode, Policy,
        Promote, QueuePolicy, Read, Reclaim, Redrive, Register, Renew, Ring, Settle, SettleItem,
        Sweep,
    },
};

use crate::fixture::{
    FAR, Item, LEASE, Memory, Shard, ack, bury, fence, header_keys, release, retry,
};

/// Places in a ticket, from 0: docs/protocol.md, "Ticket".
const DEADLINE: usize = 50;
const LAPSES: usize = 82;

/// Each call that is tried: its script, and in which way it is called.
pub(super) const CALLS: [&str; 31] = [
    "submit",
    "submit new",
    "submit known",
    "claim",
    "claim again",
    "claim doubted",
    "claim nothing",
    "renew",
    "settle",
    "settle 0",
    "settle 1",
    "settle 2",
    "settle 3",
    "settle 4",
    "cancel",
    "cancel waiting",
    "redrive",
    "reclaim",
    "reclaim named",
    "promote",
    "promote named",
    "expire",
    "sweep",
    "read",
    "read tick",
    "audit",
    "policy",
    "overrule",
    "register",
    "ring",
    "depth",
];

/// A shard in which each script has something to do in every way there is.
pub(super) struct World {
    pub(super) shard: Shard,
    pub(super) memory: Memory,
    /// Ended: a repeat moves the end of their retention.
    ended: Vec<Item>,
    new: Vec<Item>,
    /// Leased: one for each way to settle, of which the last is a suspect; and one whose worker is to stop.
    held: Vec<(Fence, Handle)>,
    /// One in each home from which a cancel takes.
    waiting: Vec<Handle>,
    /// Not yet due: an ordinary one and a suspect.
    delayed: Vec<Handle>,
    dead: Handle,
    /// The call by which something is held.
    call: Fence,
    damaged: bool,
}

impl World {
    pub(super) async fn make() -> Self {
        let shard = Shard::with(|policy| {
            policy.retention = Duration::from_secs(300);
            policy.dead_retention = policy.retention;
        })
        .await;
        let past = shard.now().await - 1;
        let answered = async |item: &Item| {
            let (owner, handle) = shard.running(item).await;
            shard.settle(owner, handle, ack("done")).await;
            handle
        };

        let ended = vec![Item::new("finished"), Item::new("buried").lane("lane")];
        answered(&ended[0]).await;
        let dead = shard.dead(&ended[1]).await;
        let old = answered(&Item::new("old")).await;
        let old_dead = shard.dead(&Item::new("old dead")).await;
        shard.score(&shard.keys.finished, &[old], past).await;
        shard.score(&shard.keys.dead, &[old_dead], past).await;

        let mut held = Vec::new();
        for item in Item::many("held", 6) {
            held.push(shard.running(&item).await);
        }
        set_lapses(&shard, held[4].1, 2).await;
        shard.cancel(held[5].1).await;
        let mut lapsed = Vec::new();
        for (at, lapses) in [0, 1, 4, 0].into_iter().enumerate() {
            lapsed.push(shard.running(&Item::new(format!("lapsed{at}"))).await.1);
            set_lapses(&shard, lapsed[at], lapses).await;
        }
        shard.cancel(lapsed[3]).await;
        shard.lapse(&lapsed).await;
        let (call, _) = shard.running(&Item::new("again")).await;
        // As if the clock had gone back since.
        shard.move_leases_of(&[held[0].1], |end| end + 10 * LEASE.as_millis() as u64).await;

        let mut delayed = Vec::new();
        for item in Item::many("delayed", 4) {
            delayed.push(shard.accept(&item.from(FAR - 1)).await);
        }
        set_lapses(&shard, delayed[1], 2).await;
        set_lapses(&shard, delayed[3], 2).await;
        shard.score(&shard.keys.delayed, &delayed.split_off(2), past).await;

        let pending = shard.accept_all(&Item::many("pending", 4)).await;
        for handle in &pending[2..] {
            set_lapses(&shard, *handle, 2).await;
            shard.tell(&[&"ZREM", &shard.keys.pending, handle.as_bytes()]).await;
            let score = FAR.to_string();
            shard.tell(&[&"ZADD", &shard.keys.suspects, &score, handle.as_bytes()]).await;
        }
        for (set, late) in [(&shard.keys.pending, pending[1]), (&shard.keys.suspects, pending[3])] {
            write(&shard, late, DEADLINE, &past.to_be_bytes()).await;
            shard.score(set, &[late], past).await;
        }
        let row = [&b"0000000000000001"[..], &[0; 8]].concat();
        shard.tell(&[&"HSET", &shard.keys.sessions, &"00000000000000aa", &row]).await;
        let queue = Register::Queue(&shard.keys.queue, shard.policy.shards);
        queue.run(&shard.redis).await.unwrap();

        shard.assert_whole().await;
        let memory = shard.remember().await;
        let new = vec![Item::new("new"), Item::new("new and delayed").from(FAR - 1)];
        let waiting = vec![pending[0], pending[2], delayed[0]];
        Self { shard, memory, ended, new, held, waiting, delayed, dead, call, damaged: false }
    }

    /// The same, but tickets of some are lost.
    async fn make_damaged() -> Self {
        let mut world = Self::make().await;
        let shard = &world.shard;
        for id in ["held0", "lapsed0", "delayed2", "pending0", "pending1", "old"] {
            let key = Item::new(id).key();
            let lost = shard.tell(&[&"HDEL", &shard.keys.ticket, key.as_bytes()]).await;
            assert_eq!(lost.int(), Some(1), "{id}");
        }
        world.memory = shard.remember().await;
        world.damaged = true;
        world
    }

    /// Makes one of the calls.
    pub(super) async fn call(&self, call: &str) -> Result<(), StoreError> {
        let (redis, shard) = (&self.shard.redis, &self.shard.keys);
        let settles = self.settles();
        match call {
            "submit" => {
                let items = [&self.ended[..], &self.new[..]].concat();
                self.shard.submit(&items).await.map(drop)
            }
            "submit new" => self.shard.submit(&self.new).await.map(drop),
            "submit known" => self.shard.submit(&self.ended).await.map(drop),
            "claim" => {
                let ask = self.shard.ask(fence(Session::random(), 1));
                Claim { along: usize::MAX, ..ask }.run(redis).await.map(drop)
            }
            "claim again" => self.shard.ask(self.call).run(redis).await.map(drop),
            "claim doubted" => {
                let ask = self.shard.ask(fence(Session::random(), 1));
                Claim { trusted_until: 0, ..ask }.run(redis).await.map(drop)
            }
            "claim nothing" => {
                let ask = self.shard.ask(fence(Session::random(), 1));
                let none = Claim { free: 0, may_take_suspect: false, trusted_until: 0, ..ask };
                none.run(redis).await.map(drop)
            }
            "renew" => Renew { shard, lease: LEASE, held: &self.held }.run(redis).await.map(drop),
            "settle" => Settle { shard, items: &settles }.run(redis).await.map(drop),
            "settle 0" | "settle 1" | "settle 2" | "settle 3" | "settle 4" => {
                let at: usize = call[7..].parse().unwrap();
                Settle { shard, items: &settles[at..=at] }.run(redis).await.map(drop)
            }
            "cancel" => {
                let handles = [&[self.held[0].1], &self.waiting[..]].concat();
                Cancel { shard, handles: &handles }.run(redis).await.map(drop)
            }
            "cancel waiting" => {
                Cancel { shard, handles: &self.waiting[..1] }.run(redis).await.map(drop)
            }
            "redrive" => {
                let items = &[(self.dead, Generation::random())];
                Redrive { shard, items, deadline: None }.run(redis).await.map(drop)
            }
            "reclaim" => Reclaim { shard, limit: 256, named: &[] }.run(redis).await.map(drop),
            "reclaim named" => {
                Reclaim { shard, limit: 256, named: &self.held }.run(redis).await.map(drop)
            }
            "promote" => Promote { shard, limit: 256, named: &[] }.run(redis).await.map(drop),
            "promote named" => {
                let named: Vec<_> = self.delayed.iter().map(|it| (*it, FAR - 1)).collect();
                Promote { shard, limit: 256, named: &named }.run(redis).await.map(drop)
            }
            "expire" => Expire { shard, limit: 128 }.run(redis).await.map(drop),
            "sweep" => Sweep { shard, limit: 128 }.run(redis).await.map(drop),
            "read" | "read tick" => {
                let keys = [self.dead.key(), self.held[0].1.key()];
                let tick = call == "read tick";
                Read { shard, keys: &keys, whole: usize::MAX, tick }.run(redis).await.map(drop)
            }
            "policy" => {
                let policy = QueuePolicy { capacity: 7, ..self.shard.policy.clone() };
                Policy { shard, policy: &policy, write: true }.run(redis).await.map(drop)
            }
            "overrule" => {
                let (word, mode) = (Override::Limit(Some(100)), OverruleMode::Decide);
                let shards = self.shard.policy.shards;
                Overrule { shard, shards, word, mode, version: 0 }.run(redis).await.map(drop)
            }
            "register" => {
                let other = "other".try_into().unwrap();
                Register::Queue(&other, self.shard.policy.shards).run(redis).await.map(drop)
            }
            "ring" => Ring { shard }.run(redis).await.map(drop),
            "depth" => Depth { shard }.run(redis).await.map(drop),
            "audit" => {
                let keys: Vec<_> = self.held.iter().map(|(_, handle)| handle.key()).collect();
                Audit { shard, keys: &keys }.run(redis).await.map(drop)
            }
            other => panic!("{other}: say here what it is"),
        }
    }

    fn settles(&self) -> Vec<SettleItem> {
        let kinds = [ack("done"), retry(60_000), release(false), bury(), release(true)];
        let held = self.held.iter().zip(kinds);
        held.map(|((fence, handle), kind)| SettleItem { fence: *fence, handle: *handle, kind })
            .collect()
    }

    /// Makes a call once for each key of its script, with a value of another type in its place. Gives back the keys with
    /// which it was left half done, and how many it refused.
    async fn spoil(&self, call: &str) -> (Vec<String>, usize) {
        let script = call.split(' ').next().unwrap();
        let listing = script::all().into_iter().find(|listing| listing.name == script).unwrap();
        let channels = [&self.shard.keys.ended, &self.shard.keys.cancel];
        let (mut half, mut refused) = (Vec::new(), 0);
        for key in header_keys(&self.shard.keys, &listing) {
            if channels.contains(&&key) {
                continue;
            }
            self.shard.forget_since(&self.memory).await;
            self.shard.tell(&[&"SET", &key, &"not what belongs here"]).await;
            let before = self.shard.dump().await;
            match self.call(call).await {
                Err(error) => {
                    assert!(error.to_string().contains("WRONGTYPE"), "{call}, {key}: {error}");
                    refused += 1;
                    if self.shard.dump().await != before {
                        half.push(format!("{call}: {key}"));
                    }
                }
                Ok(()) => {
                    self.shard.put_back(&key, &self.memory).await;
                    if !self.damaged {
                        self.shard.assert_whole().await;
                    }
                }
            }
        }
        (half, refused)
    }
}

/// Writes into the ticket of a request.
async fn write(shard: &Shard, handle: Handle, at: usize, bytes: &[u8]) {
    let key = handle.key();
    let ticket = shard.tell(&[&"HGET", &shard.keys.ticket, key.as_bytes()]).await;
    let mut ticket = ticket.bytes().unwrap().to_vec();
    ticket[at..at + bytes.len()].copy_from_slice(bytes);
    shard.tell(&[&"HSET", &shard.keys.ticket, key.as_bytes(), &ticket]).await;
}

async fn set_lapses(shard: &Shard, handle: Handle, lapses: u16) {
    write(shard, handle, LAPSES, &lapses.to_be_bytes()).await;
}

#[tokio::test]
async fn a_key_of_another_type_fails_a_call_before_its_first_write_or_not_at_all() {
    let scripts: BTreeSet<&str> = script::all().iter().map(|script| script.name).collect();
    let tried: BTreeSet<&str> = CALLS.iter().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(tried, scripts, "every script is called");
    let world = World::make().await;
    let whole = world.shard.dump().await;
    let mut half_done = Vec::new();
    for call in CALLS {
        world.shard.forget_since(&world.memory).await;
        world.call(call).await.unwrap_or_else(|error| panic!("{call}: {error}"));
        let writes = world.shard.dump().await != whole;
        assert_eq!(
            writes,
            !matches!(call, "read" | "depth" | "audit"),
            "{call} has something to write"
        );
        world.shard.assert_whole().await;
        let (half, refused) = world.spoil(call).await;
        assert!(refused > 0 || call == "ring", "{call} meets no type");
        half_done.extend(half);
    }
    assert!(half_done.is_empty(), "left half done:\n{}", half_done.join("\n"));
}

#[tokio::test]
async fn a_key_of_another_type_leaves_nothing_half_done_where_tickets_are_lost() {
    let world = World::make_damaged().await;
    let mut half_done = Vec::new();
    for call in ["claim", "settle", "settle 0", "reclaim", "promote", "expire", "sweep"] {
        half_done.extend(world.spoil(call).await.0);
    }
    assert!(half_done.is_empty(), "left half done:\n{}", half_done.join("\n"));
}
