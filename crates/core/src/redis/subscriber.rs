//! Listening to the channels of shards. Hints only: whoever listens also polls.
//!
//! Who only listens does not notice that nobody speaks any more: not that the server hangs or is cut off while another has
//! taken its place, and on Cluster not that a slot has moved. So a listener says now and then what it listens to.

use std::time::Duration;

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
    time::{sleep, timeout},
};
use tracing::warn;

use super::{OpenError, Redis};
use crate::{StoreError, error::Refusal};

/// How long to wait before a subscription that failed is tried again.
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
    subscribed: bool,
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
            channels,
            messages,
            connections,
            subscribed: false,
            _refreshing: refreshing,
            denied: false,
        })
    }

    /// The next message. May be dropped and called again.
    pub async fn next(&mut self) -> Message {
        loop {
            if !self.subscribed {
                self.subscribe().await;
                self.subscribed = true;
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
                _ = self.connections.recv() => self.subscribed = false,
            }
        }
    }

    /// Channels may lie on several nodes: one call each, until each has been taken.
    async fn subscribe(&mut self) {
        for channel in &self.channels {
            while let Err(error) = self.client.ssubscribe(channel.as_str()).await {
                let denied =
                    StoreError::new("ssubscribe", error).refusal() == Some(Refusal::Denied);
                if denied && !self.denied {
                    self.denied = true;
                    warn!(
                        "redis does not let this user subscribe: ends and cancels are seen by polling only"
                    );
                }
                sleep(AGAIN).await;
            }
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
