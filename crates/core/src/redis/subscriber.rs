//! Listening to the channels of shards. Hints only: whoever listens also polls.
//!
//! Who only listens does not notice that nobody speaks any more: not that the server hangs or is cut off while another has
//! taken its place, and on Cluster not that a slot has moved. So a listener says now and then what it listens to.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use fred::{
    clients::SubscriberClient,
    error::ErrorKind,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::Value,
};
use tokio::{
    sync::broadcast::error::RecvError,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::warn;

use super::{OpenError, Redis};
use crate::{StoreError, error::Refusal};

/// How long to wait before subscriptions that failed are tried again; for want of a right it is [`REFRESH`].
const AGAIN: Duration = Duration::from_millis(250);

/// How often a subscription is said again.
const REFRESH: Duration = Duration::from_secs(10);

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
    client: SubscriberClient,
    channels: Vec<String>,
    messages: tokio::sync::broadcast::Receiver<fred::types::Message>,
    connections: tokio::sync::broadcast::Receiver<fred::types::config::Server>,
    /// The channels that are to be asked for now.
    wanted: VecDeque<String>,
    /// Those that could not be subscribed to: none of them holds up another.
    failed: Vec<String>,
    /// When they are tried again.
    again: Instant,
    /// Whether one was subscribed to that nobody was told of yet.
    news: bool,
    _refreshing: JoinSet<()>,
    /// It was said that our user has no right to.
    denied: bool,
}

impl Subscriber {
    /// A listener beside `redis`, on a connection of its own.
    pub fn open(redis: &Redis, channels: Vec<String>) -> Result<Self, OpenError> {
        let client = redis.options.subscriber()?;
        let (messages, connections) = (client.message_rx(), client.reconnect_rx());
        drop(client.connect());
        let mut refreshing = JoinSet::new();
        refreshing.spawn(refresh(client.clone(), channels.clone()));
        Ok(Self {
            client,
            wanted: channels.iter().cloned().collect(),
            channels,
            messages,
            connections,
            failed: Vec::new(),
            again: Instant::now(),
            news: false,
            _refreshing: refreshing,
            denied: false,
        })
    }

    /// The next message. May be dropped and called again.
    pub async fn next(&mut self) -> Message {
        loop {
            self.subscribe().await;
            if std::mem::take(&mut self.news) {
                return Message::Subscribed;
            }
            tokio::select! {
                message = self.messages.recv() => match message {
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
                _ = self.connections.recv() => {
                    self.failed.clear();
                    self.wanted = self.channels.iter().cloned().collect();
                }
                () = sleep_until(self.again), if !self.failed.is_empty() => {
                    self.wanted.extend(self.failed.drain(..));
                }
            }
        }
    }

    /// Channels may lie on several nodes, and a user may have a right to some of them only: one call each.
    async fn subscribe(&mut self) {
        while let Some(channel) = self.wanted.front() {
            let said = self.client.ssubscribe(channel.as_str()).await;
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
    use holdfast_testkit::{RedisServer, eventually};

    use super::*;
    use crate::redis::Options;

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
}
