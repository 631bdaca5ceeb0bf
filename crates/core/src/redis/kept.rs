//! Connections that are kept for as long as somebody asks for them, by one client after another.
//!
//! fred reconnects for ever, but not always. After a few errors that it takes for final its task ends, and every later call
//! waits in vain. And it takes a server for hung only when nothing was *sent* for a while: where calls keep coming, one that
//! is stopped or cut off is never left, and once the send buffer is full an order to reconnect is not even looked at. So
//! whoever gets no answer looks here, and the client is given up for a new one. The old one can't be connected anew: it would
//! go on counting what it had queued, and does not flush what it writes while it counts something.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, ClusterInterface, EventInterface},
    types::{cluster::ClusterRouting, config::Server},
};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::{AbortHandle, JoinSet},
    time::sleep,
};
use tracing::warn;

use super::{OpenError, Options, options::CONNECT, status::Lost};

/// How much news is kept for whoever is slow to take it.
const NEWS: usize = 32;

/// How long a client whose calls end after `limit` may look for its server by way of the sentinels. However short a call may
/// be: to find the way takes several, and a pause before the first.
pub(super) fn patience(limit: Duration) -> Duration {
    (2 * limit).clamp(Duration::from_secs(4), 2 * CONNECT)
}

/// How a client is built whose calls end after a limit, and which of the sentinels, if there are any, it asks first.
pub(super) type Build = fn(&Options, Duration, usize) -> Result<Client, OpenError>;

/// A client and the task that keeps its connections, which ends with this value: the client alone would keep it. What is
/// under way then ends without an answer, and is not sent again.
pub(super) struct Line<C = Client> {
    pub(super) client: C,
    task: AbortHandle,
}

impl<C> Drop for Line<C> {
    fn drop(&mut self) {
        // Not told to quit: it would wait for what it is writing.
        self.task.abort();
    }
}

impl<C: ClientLike> Line<C> {
    /// Starts to connect.
    pub(super) fn connect(client: C) -> Self {
        let task = client.connect().abort_handle();
        Self { client, task }
    }
}

/// What keeps connections: a client, until it is given up for another.
pub(super) struct Kept {
    options: Arc<Options>,
    build: Build,
    limit: Duration,
    is_clustered: bool,
    turn: AtomicUsize,
    now: Mutex<Now>,
    news: Arc<News>,
}

struct Now {
    line: Line,
    _telling: JoinSet<()>,
}

impl Now {
    fn connect(client: Client, news: &Arc<News>) -> Self {
        let mut telling = JoinSet::new();
        // Before it connects: what nobody listens to is not kept.
        let (made, lost) = (client.reconnect_rx(), client.error_rx());
        telling.spawn(tell(client.clone(), made, lost, Arc::clone(news)));
        Self { line: Line::connect(client), _telling: telling }
    }
}

impl Kept {
    /// Starts to connect with a client that is built so.
    pub(super) fn connect(
        options: &Arc<Options>,
        build: Build,
        limit: Duration,
    ) -> Result<Self, OpenError> {
        let client = build(options, limit, 0)?;
        let (is_clustered, news) = (client.is_clustered(), Arc::new(News::new()));
        let (turn, now) = (AtomicUsize::new(0), Mutex::new(Now::connect(client, &news)));
        Ok(Self { options: Arc::clone(options), build, limit, is_clustered, turn, now, news })
    }

    /// Whether keys are spread over nodes.
    pub(super) fn is_clustered(&self) -> bool {
        self.is_clustered
    }

    /// Which of the sentinels is asked first.
    pub(super) fn turn(&self) -> usize {
        self.turn.load(Ordering::Relaxed)
    }

    /// The client of this moment: for one call, the next may need another.
    pub(super) fn client(&self) -> Client {
        self.now().line.client.clone()
    }

    /// News of connections that are there, whoever made them.
    pub(super) fn made(&self) -> broadcast::Receiver<()> {
        self.news.made.subscribe()
    }

    /// News of connections that were lost or not made.
    pub(super) fn lost(&self) -> Lost {
        self.news.lost.subscribe()
    }

    /// Looks at how a call ended that was begun at `sent`, and gives the client up if nobody answers there any more.
    pub(super) fn look<T>(&self, slot: Option<u16>, sent: Instant, answer: &Result<T, Error>) {
        // On Cluster one node may be silent while others are not, and its slots stand for it.
        let slot = slot.filter(|_| self.is_clustered);
        let is_late = answer.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Timeout);
        if !is_late {
            // A connection that broke is no silence either: the client has noticed.
            self.news.heard(slot);
        }
        if answer.is_err() {
            // Much later than a call may take it was not the server that hung, but this process.
            let in_time = self.limit * 3 / 4..self.limit * 3 / 2;
            let is_late = is_late && in_time.contains(&sent.elapsed());
            // Whoever is still connecting has time limits of its own for that.
            self.give_up(|client| {
                let is_silent = || {
                    let nodes = slot.and_then(|_| client.cached_cluster_state());
                    self.news.is_silent(slot, sent, nodes.as_ref())
                };
                is_late && client.is_connected() && is_silent()
            });
        }
    }

    /// Takes another client if this one is silent, finds no server or has given up by itself.
    fn give_up(&self, is_silent: impl FnOnce(&Client) -> bool) {
        let mut now = self.now();
        let client = &now.line.client;
        let (is_silent, is_lost) = (is_silent(client), self.is_lost(client));
        if !is_silent && !is_lost && !now.line.task.is_finished() {
            return;
        }
        if is_lost {
            self.turn.fetch_add(1, Ordering::Relaxed);
        }
        let client = match (self.build)(&self.options, self.limit, self.turn()) {
            Ok(client) => client,
            Err(err) => return warn!(error = %err, "no new connections to redis can be made"),
        };
        warn!(is_silent, is_lost, "the connections to redis are given up, and made anew");
        self.news.given_up();
        if is_silent {
            let why = Error::new(ErrorKind::Timeout, "nobody answers on this connection");
            self.news.lost((why, None));
        }
        *now = Now::connect(client, &self.news);
    }

    /// Whether no sentinel has led to a server for a while. The client goes on with whom it asked before; and once it was
    /// connected it knows none of those that it was told of, but only whom the last one named, itself left out. A new one
    /// knows all, and begins with another.
    fn is_lost(&self, client: &Client) -> bool {
        let is_away = client.uses_sentinels() && !client.is_connected();
        is_away && self.news.is_away_for(patience(self.limit))
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // One client or another: whole whatever panicked.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is told of all clients, one after another.
struct News {
    made: broadcast::Sender<()>,
    lost: broadcast::Sender<(Error, Option<Server>)>,
    heard: Mutex<Heard>,
}

/// When something was last heard.
struct Heard {
    /// When the connections were made, or the client that is to make them: nobody is silent who was asked before.
    since: Instant,
    /// Since when there is no connection.
    away: Option<Instant>,
    answers: HashMap<Option<u16>, Instant>,
}

impl News {
    fn new() -> Self {
        let since = Instant::now();
        let heard = Heard { since, away: Some(since), answers: HashMap::new() };
        Self {
            made: broadcast::Sender::new(NEWS),
            lost: broadcast::Sender::new(NEWS),
            heard: Mutex::new(heard),
        }
    }

    fn heard(&self, slot: Option<u16>) {
        self.lock().answers.insert(slot, Instant::now());
    }

    /// Whether nothing was heard since a call was sent, on connections that were there by then: on Cluster, from the node that
    /// has its slot.
    fn is_silent(&self, slot: Option<u16>, sent: Instant, nodes: Option<&ClusterRouting>) -> bool {
        let heard = self.lock();
        let node = |slot: Option<u16>| nodes?.get_server(slot?);
        let asked = node(slot);
        let is_of =
            |other: &Option<u16>| *other == slot || asked.is_some() && node(*other) == asked;
        let mut answers = heard.answers.iter();
        sent > heard.since && !answers.any(|(other, last)| *last >= sent && is_of(other))
    }

    fn is_away_for(&self, time: Duration) -> bool {
        self.lock().away.is_some_and(|since| since.elapsed() >= time)
    }

    /// Whoever listens is told, even if nobody does: then there is nobody to tell.
    fn made(&self) {
        let mut heard = self.lock();
        (heard.since, heard.away) = (Instant::now(), None);
        drop(heard);
        self.made.send(()).unwrap_or_default();
    }

    fn lost(&self, news: (Error, Option<Server>)) {
        self.lock().away.get_or_insert_with(Instant::now);
        self.lost.send(news).unwrap_or_default();
    }

    /// The next client has its time from now on.
    fn given_up(&self) {
        let mut heard = self.lock();
        heard.since = Instant::now();
        heard.away = Some(heard.since);
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // Plain values: whole whatever panicked.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How soon it is looked again whether a client is connected that told of a connection.
const AGAIN: Duration = Duration::from_millis(5);

/// Passes on what a client tells, for as long as it lives.
///
/// It tells of a connection before it is connected, and on Cluster of each one, also while another node can't be reached and
/// no call is sent to any: all of them together are one.
async fn tell(
    client: Client,
    mut made: broadcast::Receiver<Server>,
    mut lost: Lost,
    news: Arc<News>,
) {
    let mut is_coming = false;
    loop {
        tokio::select! {
            // What was lost comes before what was made in its place.
            biased;
            told = lost.recv() => match told {
                Ok(told) => {
                    is_coming = false;
                    news.lost(told);
                }
                // What was missed is older than what comes.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            told = made.recv() => match told {
                Ok(_) | Err(RecvError::Lagged(_)) => is_coming = true,
                Err(RecvError::Closed) => return,
            },
            () = sleep(AGAIN), if is_coming => {}
        }
        if is_coming && client.is_connected() {
            is_coming = false;
            news.made();
        }
    }
}

#[cfg(test)]
mod tests {
    use fred::types::Value;

    use super::*;

    /// One that is slow answers those who asked before, and they may have asked about other slots.
    #[test]
    fn a_node_of_a_cluster_is_silent_when_nothing_is_heard_of_any_of_its_slots() {
        let range = |first: i64, last: i64, port: i64| {
            let node = Value::Array(vec!["127.0.0.1".into(), port.into(), "id".into()]);
            Value::Array(vec![first.into(), last.into(), node])
        };
        let slots = vec![range(0, 99, 1), range(100, 199, 2), range(200, 16_383, 1)];
        let nodes = ClusterRouting::from_cluster_slots(Value::Array(slots), "127.0.0.1").unwrap();
        let news = News::new();
        while Instant::now() <= news.lock().since {}
        let sent = Instant::now();
        let is_silent = |slot| news.is_silent(Some(slot), sent, Some(&nodes));
        assert!(is_silent(5) && is_silent(150));
        news.heard(Some(300));
        assert!(!is_silent(5), "its node answers");
        assert!(is_silent(150), "another one does");
        news.heard(Some(150));
        assert!(!is_silent(199));
        let last = Instant::now();
        while Instant::now() <= last {}
        let later = Instant::now();
        assert!(news.is_silent(Some(5), later, Some(&nodes)), "nothing since");
        // Where it is not known who has a slot, it stands for itself.
        assert!(news.is_silent(Some(5), sent, None) && !news.is_silent(Some(300), sent, None));
    }
}
