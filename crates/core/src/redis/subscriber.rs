//! Listening to the channels of shards. Hints only: whoever listens also polls.
//!
//! Who only listens does not notice that nobody speaks any more: not that the server hangs or is cut off while another has
//! taken its place, and on Cluster not that a slot has moved. So a listener says now and then what it listens to.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use fred::{
    clients::SubscriberClient,
    error::ErrorKind,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{Value, config::Server},
};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::warn;

use super::{
    OpenError, Options, Redis,
    kept::{Line, patience},
};
use crate::{StoreError, error::Refusal};

/// How long to wait before subscriptions that failed are tried again; for want of a right it is [`REFRESH`].
const AGAIN: Duration = Duration::from_millis(250);

/// How often a subscription is said again.
const REFRESH: Duration = Duration::from_secs(10);

/// How often a listener behind Sentinel looks whether it has a connection.
const LOOK: Duration = Duration::from_secs(1);

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Bytes on a channel.
    Heard {
        /// Which channel.
        channel: String,
        /// What was said.
        bytes: Bytes,
    },
    /// Subscribed, for the first time or again: something may have been missed before.
    Subscribed,
}

/// A subscription to sharded channels that is renewed whenever the connection is.
pub struct Subscriber {
    options: Arc<Options>,
    /// Which of the sentinels, if there are any, is asked first.
    turn: usize,
    ear: Ear,
    channels: Vec<String>,
    /// Since when there is no connection, as far as somebody looked.
    away: Option<Instant>,
    /// The channels that are to be asked for now.
    wanted: VecDeque<String>,
    /// Those that could not be subscribed to: none of them holds up another.
    failed: Vec<String>,
    /// When they are tried again.
    again: Instant,
    /// Whether one was subscribed to that nobody was told of yet.
    news: bool,
    /// It was said that our user has no right to.
    denied: bool,
}

/// A client that listens, and what it tells.
struct Ear {
    line: Line<SubscriberClient>,
    messages: broadcast::Receiver<fred::types::Message>,
    connections: broadcast::Receiver<Server>,
    _refreshing: JoinSet<()>,
}

impl Ear {
    /// Starts to connect.
    fn open(options: &Options, turn: usize, channels: &[String]) -> Result<Self, OpenError> {
        let client = options.subscriber(turn)?;
        let (messages, connections) = (client.message_rx(), client.reconnect_rx());
        let mut refreshing = JoinSet::new();
        refreshing.spawn(refresh(client.clone(), channels.to_vec()));
        Ok(Self { line: Line::connect(client), messages, connections, _refreshing: refreshing })
    }
}

impl Subscriber {
    /// A listener beside `redis`, on a connection of its own.
    pub fn open(redis: &Redis, channels: Vec<String>) -> Result<Self, OpenError> {
        let (options, turn) = (Arc::clone(&redis.options), redis.kept.turn());
        let ear = Ear::open(&options, turn, &channels)?;
        Ok(Self {
            options,
            turn,
            ear,
            wanted: channels.iter().cloned().collect(),
            channels,
            away: None,
            failed: Vec::new(),
            again: Instant::now(),
            news: false,
            denied: false,
        })
    }

    /// The next message. May be dropped and called again.
    pub async fn next(&mut self) -> Message {
        loop {
            self.look();
            self.subscribe().await;
            if std::mem::take(&mut self.news) {
                return Message::Subscribed;
            }
            tokio::select! {
                message = self.ear.messages.recv() => match message {
                    Ok(message) => {
                        let bytes = match message.value {
                            Value::Bytes(bytes) => bytes,
                            Value::String(text) => text.into_inner(),
                            _ => continue,
                        };
                        return Message::Heard { channel: message.channel.to_string(), bytes };
                    }
                    // Too slow: what was missed is as lost as with a connection.
                    Err(RecvError::Lagged(_)) => return Message::Subscribed,
                    Err(RecvError::Closed) => std::future::pending::<()>().await,
                },
                _ = self.ear.connections.recv() => {
                    self.failed.clear();
                    self.wanted = self.channels.iter().cloned().collect();
                }
                () = sleep_until(self.again), if !self.failed.is_empty() => {
                    self.wanted.extend(self.failed.drain(..));
                }
                () = sleep(LOOK), if self.ear.line.client.uses_sentinels() => {}
            }
        }
    }

    /// Takes another client if no sentinel has led this one to a server for a while: it goes on with whom it asked before,
    /// also with one that died or hangs. A new one begins with the next.
    fn look(&mut self) {
        let client = &self.ear.line.client;
        if client.is_connected() || !client.uses_sentinels() {
            self.away = None;
            return;
        }
        let away = *self.away.get_or_insert_with(Instant::now);
        if away.elapsed() < patience(self.options.command_timeout) {
            return;
        }
        (self.away, self.turn) = (None, self.turn.wrapping_add(1));
        match Ear::open(&self.options, self.turn, &self.channels) {
            Ok(ear) => {
                warn!("no sentinel led a listener to redis: its connection is made anew");
                self.ear = ear;
                // All are asked for once it is there.
                self.wanted.clear();
                self.failed.clear();
            }
            Err(err) => warn!(error = %err, "no new connection to listen on can be made"),
        }
    }

    /// Channels may lie on several nodes, and a user may have a right to some of them only: one call each.
    async fn subscribe(&mut self) {
        while let Some(channel) = self.wanted.front() {
            let said = self.ear.line.client.ssubscribe(channel.as_str()).await;
            let Some(channel) = self.wanted.pop_front() else { return };
            let Err(error) = said else {
                self.news = true;
                continue;
            };
            self.failed.push(channel);
            let denied = StoreError::new("ssubscribe", error).refusal() == Some(Refusal::Denied);
            if denied && !self.denied {
                self.denied = true;
                warn!(
                    "redis does not let this user subscribe: ends and cancels are seen by polling only"
                );
            }
            // A right comes seldom, and not within a moment.
            self.again = Instant::now() + if denied { REFRESH } else { AGAIN };
            // Without a connection each takes its time.
            self.look();
        }
    }
}

/// Says again and again what is listened to. A node that does not serve a channel any more sends elsewhere, and one that
/// does not answer is left: the client does not take a listener's connection for dead by itself.
async fn refresh(client: SubscriberClient, channels: Vec<String>) {
    loop {
        sleep(REFRESH).await;
        for channel in &channels {
            let said = client.ssubscribe(channel.as_str()).await;
            if said.is_err_and(|error| *error.kind() == ErrorKind::Timeout) {
                // The next connection is seen by who waits for messages.
                timeout(REFRESH, client.force_reconnection()).await.map(drop).unwrap_or_default();
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::{RedisServer, Sentinel, eventually};
    use tokio::time::interval;

    use super::*;

    /// Within this a listener hears.
    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn a_channel_that_is_denied_silences_no_other() {
        let server = RedisServer::start().await;
        let rights = ["on", ">secret", "+@all", "~*", "resetchannels", "&hf1:ours"];
        server.command(&[&["ACL", "SETUSER", "listener"], &rights[..]].concat()).await;
        let mut options = Options::new(server.url().replace("//", "//listener:secret@"));
        options.command_timeout = Duration::from_secs(2);
        let redis = Redis::open(options).unwrap();
        let channels = ["hf1:denied", "hf1:ours"].map(str::to_owned).to_vec();
        let mut subscriber = Subscriber::open(&redis, channels).unwrap();
        let first = timeout(SOON, subscriber.next()).await;
        assert_eq!(first.ok(), Some(Message::Subscribed), "of what is allowed");
        says(&server, &mut subscriber, "hf1:ours").await;

        // Tried again, not for ever left out.
        server.command(&["ACL", "SETUSER", "listener", "&hf1:denied"]).await;
        let again = timeout(2 * REFRESH, subscriber.next()).await;
        assert_eq!(again.ok(), Some(Message::Subscribed), "of what was denied before");
        says(&server, &mut subscriber, "hf1:denied").await;
    }

    /// What is said on a channel is heard.
    async fn says(server: &RedisServer, subscriber: &mut Subscriber, channel: &str) {
        eventually("somebody listens", SOON, async || {
            let heard = server.command(&["SPUBLISH", channel, "hello"]).await;
            if heard.int() == Some(1) { Ok(()) } else { Err(format!("{heard:?}")) }
        })
        .await;
        // The first connection is news as well.
        let heard = timeout(SOON, async {
            loop {
                match subscriber.next().await {
                    Message::Subscribed => {}
                    Message::Heard { channel, bytes } => return (channel, bytes),
                }
            }
        });
        let hello = Bytes::from_static(b"hello");
        assert_eq!(heard.await.ok(), Some((channel.to_owned(), hello)));
    }

    /// How long it may take until a sentinel has led a listener to its server.
    const LED: Duration = Duration::from_secs(20);

    /// What is said on the channel is heard, also if it takes another connection.
    async fn hears(server: &RedisServer, subscriber: &mut Subscriber, word: &'static str) {
        let mut turns = interval(Duration::from_millis(200));
        let heard = async {
            loop {
                tokio::select! {
                    _ = turns.tick() => {
                        server.command(&["SPUBLISH", "hf1:ours", word]).await;
                    }
                    message = subscriber.next() => match message {
                        Message::Heard { bytes, .. } if bytes == word => return,
                        _ => {}
                    },
                }
            }
        };
        timeout(LED, heard).await.unwrap_or_else(|_| panic!("{word} is not heard"));
    }

    fn listener(group: &Sentinel) -> Subscriber {
        let redis = Redis::open(Options::new(group.url())).unwrap();
        Subscriber::open(&redis, vec!["hf1:ours".to_owned()]).unwrap()
    }

    #[tokio::test]
    async fn a_listener_is_led_by_the_sentinel_that_is_left() {
        for dead in 0..2 {
            let mut group = Sentinel::start(2).await;
            let mut subscriber = listener(&group);
            hears(group.server(0), &mut subscriber, "before").await;
            group.kill_sentinel(dead);
            let told = group.server(0).command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            assert!(told.int().is_some_and(|killed| killed > 0), "{told:?}");
            hears(group.server(0), &mut subscriber, "after").await;
        }
    }

    #[tokio::test]
    async fn a_listener_leaves_a_sentinel_that_hangs_for_the_next_one() {
        for frozen in 0..3 {
            let mut group = Sentinel::start(3).await;
            group.freeze_sentinel(frozen, true);
            hears(group.server(0), &mut listener(&group), "hello").await;
        }
    }
}
