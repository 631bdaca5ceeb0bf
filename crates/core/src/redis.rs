//! The client below the scripts: time limits on everything, reconnects for ever, and never a call sent twice.
//!
//! fred repeats a command whose reply was lost, waits without limit and queues without bound unless it is told not to;
//! `docs/decisions/0001` says what was seen. Here one attempt is made, every call has a time limit, and a semaphore bounds
//! the calls that wait. Only what says that nothing ran is answered by sending again: NOSCRIPT, and on Cluster that the slot
//! is elsewhere.

mod bell;
mod durable;
mod kept;
mod moved;
mod options;
mod primary;
mod server;
mod status;
mod subscriber;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
    util::redis_keyslot,
};
use tokio::{
    sync::{
        Semaphore,
        broadcast::{self, error::RecvError},
    },
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use bell::Bell;
pub(crate) use bell::Waited;
pub(crate) use durable::Stretch;
pub use durable::{Durable, Level, Missing, Reached};
pub use options::{OpenError, Options};
pub use server::{Fault, ServerKind, ServerReport};
pub use status::{DISK_FULL, Trouble};
pub use subscriber::{Message, Subscriber};

use crate::{StoreError, metrics, rights::Role, script};
use kept::{Build, Kept};
use moved::Moved;
use primary::Primary;
use status::Status;

/// How many calls may wait for Redis at once. More are refused at once: a queue in memory would outlive its callers.
const CALLS_AT_ONCE: usize = 4096;

/// How long a call may take that carries more than others.
const LARGE_CALL: Duration = Duration::from_secs(60);

/// A connection to Redis that survives it. Clones share it.
#[derive(Clone)]
pub struct Redis {
    options: Arc<Options>,
    calls: Arc<Semaphore>,
    status: Arc<Status>,
    primary: Arc<Primary>,
    kept: Arc<Kept>,
}

impl Redis {
    /// Starts to connect, and goes on until it succeeds: Redis may come up later than we do.
    ///
    /// Fails only on settings that cannot work. Calls made before the first connection wait for it as long as any call may.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Self::connecting(Arc::new(options), Options::client)
    }

    /// A second connection with the same settings, for a look at a server that can't write to its disk: such a one refuses
    /// even the PING that other connections begin with.
    pub fn for_a_look(&self) -> Result<Self, OpenError> {
        Self::connecting(Arc::clone(&self.options), Options::client_without_ping)
    }

    fn connecting(options: Arc<Options>, build: Build) -> Result<Self, OpenError> {
        let kept = Kept::connect(&options, build, options.command_timeout)?;
        let status = Status::new(options.place(), kept.lost());
        Ok(Self {
            kept: Arc::new(kept),
            options,
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)),
            status: Arc::new(status),
            primary: Arc::default(),
        })
    }

    /// A second connection with the same settings, for a thread of its own.
    pub fn another(&self) -> Result<Self, OpenError> {
        Self::open(Options::clone(&self.options))
    }

    /// A second connection with the same settings, for what is large: a call may take up to a minute there, and holds up
    /// none but its like.
    pub fn for_large(&self) -> Result<Self, OpenError> {
        let command_timeout = self.options.command_timeout.max(LARGE_CALL);
        Self::open(Options { command_timeout, ..Options::clone(&self.options) })
    }

    /// Whether keys are spread over nodes by their hash tags.
    pub fn is_clustered(&self) -> bool {
        self.kept.is_clustered()
    }

    /// How long a call may take.
    pub fn command_timeout(&self) -> Duration {
        self.options.command_timeout
    }

    /// Why Redis cannot be used now, if it cannot.
    pub fn trouble(&self) -> Option<Trouble> {
        self.status.trouble()
    }

    /// Where Redis is: host and port, or the path of its socket.
    pub fn place(&self) -> &str {
        self.status.place()
    }

    /// Why there is no connection, as far as it is known: refused, or by whom.
    pub fn why_lost(&self) -> Option<&'static str> {
        let told = self.status.why_lost();
        // What broke an earlier connection says nothing of one that is there.
        if self.kept.client().is_connected() { None } else { told }
    }

    /// Keeps what the user lacks for a role; nothing: that it may do all.
    pub(crate) fn note_lacking(&self, role: Role, rights: &[String]) {
        self.status.lacks(role, rights);
    }

    /// A listener that is told when a connection is there, after the first or again: another server may have answered it,
    /// with other users.
    pub fn connections(&self) -> Connections {
        Connections(self.kept.made())
    }

    /// What the user may not do, as ACL rules name it, as far as it is known; empty also where Redis does not say which.
    pub fn denied_commands(&self) -> Vec<String> {
        self.status.denied_commands()
    }

    /// Keeps metrics and [`Redis::trouble`] up to date until `stop`; of connections that nobody watches neither metrics nor
    /// log lines tell.
    pub async fn watch(&self, stop: CancellationToken) {
        let (mut back, mut lost) = (self.kept.made(), self.kept.lost());
        let is_connected = || self.kept.client().is_connected();
        let mut connected_before = is_connected();
        self.status.watched();
        self.status.connected(connected_before);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                // A lagging receiver has missed events of the same kind only.
                _ = back.recv() => {
                    if connected_before {
                        metrics::redis_reconnected();
                    }
                    connected_before = true;
                    self.status.connected(true);
                }
                _ = lost.recv() => self.status.lost(is_connected()),
            }
        }
    }

    /// Sends one command to the node that owns `slot`, once.
    pub(crate) async fn call(
        &self,
        command: &'static str,
        slot: Option<u16>,
        words: Vec<Value>,
    ) -> Result<Value, CallError> {
        let permit = timeout(self.options.command_timeout, self.calls.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(CallError::Crowded) };
        let hash = slot.map_or(ClusterHash::Random, ClusterHash::Custom);
        // By its SHA-1: a script that ran proves more than a read, and something else than another script.
        let script = words.first().filter(|_| command == script::RUN).and_then(Value::as_str);
        let script = script.filter(|sha1| !script::only_asks(sha1)).map(|sha1| sha1.to_string());
        let command = CustomCommand::new_static(command, hash, false);
        let (client, sent) = (self.kept.client(), Instant::now());
        let answer = if self.is_clustered() {
            Moved::within(self.options.command_timeout).follow(&client, command, words).await
        } else {
            client.custom_raw_value(command, words).await
        };
        self.kept.look(slot, sent, &answer);
        self.primary.look(&client, &answer);
        self.status.note(answer.as_ref().err(), script.as_deref());
        answer.map_err(CallError::Redis)
    }

    /// The server says that it is a replica: who it was asked as may be another by now.
    pub(crate) fn is_replica(&self) {
        self.primary.is_elsewhere(&self.kept.client());
    }
}

/// News of connections.
pub struct Connections(broadcast::Receiver<()>);

impl Connections {
    /// Returns when there is a new one; several at once are told as one. May be dropped and called again.
    pub async fn next(&mut self) {
        match self.0.recv().await {
            Ok(()) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// A call that gave no answer; [`StoreError`] adds which call it was.
pub(crate) enum CallError {
    Redis(Error),
    Crowded,
}

impl CallError {
    pub(crate) fn named(self, call: &'static str) -> StoreError {
        match self {
            Self::Redis(source) => StoreError::new(call, source),
            Self::Crowded => StoreError::Crowded { call },
        }
    }
}

/// The Cluster slot of a key.
pub(crate) fn slot_of(key: &str) -> u16 {
    redis_keyslot(key.as_bytes())
}

trait CustomRaw {
    /// A custom command whose answer is taken as it comes.
    fn custom_raw_value(
        &self,
        command: CustomCommand,
        words: Vec<Value>,
    ) -> impl Future<Output = Result<Value, Error>> + Send;
}

impl<C: ClientLike + Sync> CustomRaw for C {
    async fn custom_raw_value(
        &self,
        command: CustomCommand,
        words: Vec<Value>,
    ) -> Result<Value, Error> {
        self.custom(command, words).await
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::{
        Cluster, Proxy, RedisServer, Relay, Sentinel, eventually,
        proxy::{Fault, When, contains},
    };
    use tokio::{task::JoinSet, time::interval};

    use super::*;
    use crate::error::Refusal;

    /// The client gives up a connection at a CLUSTERDOWN, and tells it to every call that was on it.
    #[tokio::test]
    async fn what_one_call_is_told_of_the_cluster_says_nothing_of_those_behind_it() {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port()).await;
        let redis = Redis::open(Options::new(proxy.url())).unwrap();
        redis.call("PING", None, Vec::new()).await.map_err(|err| err.named("ping")).unwrap();
        // What stands before both holds back the refusal of the first until the second has run.
        let late = Fault::DelayReply(Duration::from_millis(500));
        let ahead = proxy.inject(late, When::Each, contains("ahead"));
        let down = Fault::Refuse("CLUSTERDOWN Hash slot not served".to_owned());
        let refused = proxy.inject(down, When::Each, contains("refused"));
        let set = |key: &'static str| redis.call("SET", None, vec![key.into(), "1".into()]);
        let (_, first, second) = tokio::join!(set("ahead"), set("refused"), set("behind"));
        assert_eq!((ahead.fired(), refused.fired()), (1, 1));
        assert_eq!(server.command(&["GET", "behind"]).await.text(), Some("1"), "it has run");
        for (call, answer) in [("first", first), ("second", second)] {
            let Err(error) = answer else { panic!("{call} was answered") };
            let error = error.named("set");
            assert!(error.may_have_run(), "{call}: {error}");
            assert_eq!(error.refusal(), Some(Refusal::NotReady), "{call}");
        }
    }

    /// What is asked for of a role after a promotion.
    const BACK: Duration = Duration::from_secs(8);

    /// How long it may take until a sentinel has led to a server.
    const LED: Duration = Duration::from_secs(10);

    async fn ping(redis: &Redis) -> Result<(), String> {
        let answer = redis.call("PING", None, Vec::new()).await;
        answer.map(drop).map_err(|err| err.named("ping").to_string())
    }

    /// Nothing is known that ends it now; whatever does, a process must not be up and do nothing for good.
    #[tokio::test]
    async fn a_client_that_has_given_up_its_connections_makes_new_ones() {
        let server = RedisServer::start().await;
        let redis = Redis::open(Options::new(server.url())).unwrap();
        eventually("it answers", Duration::from_secs(10), async || ping(&redis).await).await;
        redis.kept.client().quit().await.unwrap();
        eventually("it answers again", Duration::from_secs(10), async || ping(&redis).await).await;
    }

    /// Calls `command` again and again, whatever becomes of those before, on a server that hangs and whose name another then
    /// has. So many calls were begun when one was answered by that.
    async fn left_for_the_next(
        command: &'static str,
        words: Vec<Value>,
        every: Duration,
    ) -> (RedisServer, RedisServer, usize) {
        let (first, second) = (RedisServer::start().await, RedisServer::start().await);
        let name = Relay::start(first.port()).await;
        let redis = Redis::open(Options::new(name.url())).unwrap();
        eventually("it answers", BACK, async || ping(&redis).await).await;
        first.pause();
        name.lead_to(second.port());
        let (mut calls, mut turns, mut begun) = (JoinSet::new(), interval(every), 0);
        let answered = async {
            loop {
                tokio::select! {
                    _ = turns.tick() => {
                        let (redis, words) = (redis.clone(), words.clone());
                        calls.spawn(async move { redis.call(command, None, words).await.is_ok() });
                        begun += 1;
                    }
                    Some(ended) = calls.join_next() => if ended.unwrap() { return },
                }
            }
        };
        timeout(BACK, answered).await.expect("the server that hangs is not left");
        while calls.join_next().await.is_some() {}
        (first, second, begun)
    }

    /// A client that looks at its last write alone finds that it has just written, for ever.
    #[tokio::test]
    async fn a_server_that_hangs_is_left_while_calls_keep_coming_and_none_runs_twice() {
        let every = Duration::from_millis(200);
        let (first, second, begun) = left_for_the_next("INCR", vec!["runs".into()], every).await;
        first.resume();
        let mut runs = 0;
        for server in [first, second] {
            let told = server.command(&["GET", "runs"]).await;
            runs += told.text().map_or(0, |text| text.parse::<usize>().unwrap());
        }
        assert!((1..=begun).contains(&runs), "{runs} of {begun}");
    }

    /// A client that waits for its write looks at nothing else.
    #[tokio::test]
    async fn a_server_that_hangs_is_left_though_nothing_more_can_be_sent() {
        let large = Value::Bytes(vec![b'x'; 1 << 20].into());
        left_for_the_next("ECHO", vec![large], Duration::from_millis(50)).await;
    }

    /// Which one the client asks first is its own affair; the first connection tells it of the other alone.
    #[tokio::test]
    async fn a_sentinel_that_died_is_not_the_only_one_that_is_asked() {
        for dead in 0..2 {
            let mut group = Sentinel::start(2).await;
            let redis = Redis::open(Options::new(group.url())).unwrap();
            eventually("it answers", LED, async || ping(&redis).await).await;
            group.kill_sentinel(dead);
            let told = group.server(0).command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
            assert!(told.int().is_some_and(|killed| killed > 0), "{told:?}");
            eventually("it answers again", LED, async || ping(&redis).await).await;
        }
    }

    #[tokio::test]
    async fn a_sentinel_that_hangs_is_left_for_the_next_one() {
        for frozen in 0..3 {
            let mut group = Sentinel::start(3).await;
            group.freeze_sentinel(frozen, true);
            let redis = Redis::open(Options::new(group.url())).unwrap();
            eventually("it answers", LED, async || ping(&redis).await).await;
        }
    }

    /// A client that knows a sentinel asks it for the way before it connects: longer than such a call may take.
    #[tokio::test]
    async fn a_short_limit_of_a_call_keeps_nobody_from_finding_the_way() {
        let group = Sentinel::start(1).await;
        let command_timeout = Duration::from_millis(20);
        let redis = Redis::open(Options { command_timeout, ..Options::new(group.url()) }).unwrap();
        // Where calls keep coming, each that ends is a look.
        let answered = async { while ping(&redis).await.is_err() {} };
        timeout(LED, answered).await.expect("it answers");
    }

    /// The client tells of each node that it has connected to, before it has given up on one that hangs.
    #[tokio::test]
    async fn a_cluster_one_node_of_which_hangs_is_not_said_to_be_there() {
        let cluster = Cluster::start().await;
        let hung = cluster.owner_of(0).await;
        for which in [hung, cluster.replica_of(hung).await] {
            cluster.node(which).pause();
        }
        let command_timeout = Duration::from_millis(500);
        let options = Options { command_timeout, ..Options::new(cluster.url()) };
        let redis = Redis::open(options).unwrap();
        let (stop, mut watching) = (CancellationToken::new(), JoinSet::new());
        watching.spawn({
            let (redis, stop) = (redis.clone(), stop.clone());
            async move { redis.watch(stop).await }
        });
        // Attempts end after the limit of a call, with a pause behind.
        let (since, mut looks) = (Instant::now(), interval(Duration::from_millis(10)));
        while since.elapsed() < 8 * command_timeout {
            looks.tick().await;
            assert_eq!(redis.trouble(), Some(Trouble::Unreachable), "{:?}", since.elapsed());
        }
        for which in 0..cluster.len() {
            cluster.node(which).resume();
        }
        eventually("it is there", LED, async || {
            redis.trouble().map_or(Ok(()), |trouble| Err(trouble.word()))
        })
        .await;
    }
}
