//! Whether Redis can be used, as far as calls and connection have told.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use fred::{
    error::{Error, ErrorKind},
    types::config::Server,
};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};
use tracing::{info, warn};

use super::options::UNREADABLE_PASSWORD;
use crate::{
    StoreError,
    error::{Refusal, denied_command},
    metrics,
    rights::Role,
};

/// Why Redis cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No connection, or no answer in time.
    Unreachable,
    /// It takes no writes.
    ReadOnly,
    /// It is starting, failing over, or busy.
    NotReady,
    /// A right is missing, or the password is wrong.
    Denied,
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Unreachable, Self::ReadOnly, Self::NotReady, Self::Denied];

    /// One word for reasons and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::ReadOnly => "read-only",
            Self::NotReady => "not-ready",
            Self::Denied => "denied",
        }
    }
}

/// News of connections that were lost or not made.
pub(super) type Lost = Receiver<(Error, Option<Server>)>;

/// Why no connection is made to a server that can't write: it refuses even the PING at its beginning.
pub const DISK_FULL: &str = "it can't write to its disk (MISCONF)";

/// Why a connection was not made, in words of our own: the server's may quote what was sent.
fn why(error: &Error) -> Option<&'static str> {
    let said = error.details().to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if *error.kind() == ErrorKind::Auth || says(&["wrongpass", "noauth", "invalid password"]) {
        return Some("user or password refused");
    }
    if says(&["misconf"]) {
        return Some(DISK_FULL);
    }
    if says(&["db index"]) {
        return Some("no such database");
    }
    match error.kind() {
        _ if error.details() == UNREADABLE_PASSWORD => Some(UNREADABLE_PASSWORD),
        ErrorKind::IO if says(&["refused"]) => Some("connection refused"),
        ErrorKind::IO if says(&["lookup", "name or service"]) => Some("host name not found"),
        ErrorKind::IO if says(&["unreachable"]) => Some("no route to the host"),
        ErrorKind::Tls => Some("no agreement on TLS"),
        _ => None,
    }
}

/// How long a denial counts if nobody sends that script again: what few callers ask for does not hold up all others.
const DENIED: Duration = Duration::from_secs(20);

#[derive(Default)]
struct State {
    trouble: Option<Trouble>,
    seen: bool,
    /// Whether the process tells of it.
    watched: bool,
    /// The scripts, or commands that submits can't do without, that lack a right, when that was last told, and the
    /// command where Redis named it: until the same one gets through.
    denied: BTreeMap<String, (Instant, Option<String>)>,
    /// What the user lacks for each role, as it was last asked for.
    lacking: BTreeMap<Role, Vec<String>>,
    /// Why there is no connection.
    lost: Option<&'static str>,
    /// The command that the user may not run, and without which no connection can be made: Sentinel and Cluster are asked
    /// where the server is.
    unmet: Option<String>,
}

impl State {
    fn is_denied(&self) -> bool {
        !self.denied.is_empty() || !self.lacking.is_empty()
    }
}

/// The last word on Redis.
#[derive(Default)]
pub(super) struct Status {
    /// Where it is, as logs name it.
    place: String,
    state: Mutex<State>,
    /// Connections that were lost or not made.
    lost: Mutex<Option<Lost>>,
}

impl Status {
    /// Nothing is known yet of the server at `place`; `lost` will tell of its connections.
    pub(super) fn new(place: String, lost: Lost) -> Self {
        Self { place, lost: Mutex::new(Some(lost)), ..Self::default() }
    }

    /// Where Redis is.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Why there is no connection, as far as the client says it and since the last one was made.
    pub(super) fn why_lost(&self) -> Option<&'static str> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut news, mut unmet) = (None, None);
        while let Some(lost) = lost.as_mut() {
            match lost.try_recv() {
                Ok((error, _)) => {
                    news = why(&error).or(news);
                    unmet = Some(denied_command(&error).map(str::to_owned));
                }
                // What was missed is older than what comes.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let mut state = self.lock();
        state.lost = news.or(state.lost);
        if let Some(unmet) = unmet {
            state.unmet = unmet;
        }
        state.lost
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        let state = self.lock();
        let trouble = if state.seen { state.trouble } else { Some(Trouble::Unreachable) };
        drop(state);
        if trouble == Some(Trouble::Unreachable) {
            self.why_lost();
            // Whoever is let in, but not told where the server is, lacks a right.
            if self.lock().unmet.is_some() {
                return Some(Trouble::Denied);
            }
        }
        trouble
    }

    /// What was found lacking, and the commands that scripts were denied and that Redis named, as far as no such script has
    /// got through since.
    pub(super) fn denied_commands(&self) -> Vec<String> {
        let state = self.lock();
        let denied = state.denied.values().filter_map(|(_, command)| command.as_ref());
        let denied = denied.chain(&state.unmet);
        let mut all: Vec<_> = state.lacking.values().flatten().chain(denied).cloned().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Metrics and log lines tell of this one from now on. They are the process's, which has further connections to the same
    /// server: what befell one of those that is seldom used would stand there until it is used again.
    pub(super) fn watched(&self) {
        let mut state = self.lock();
        state.watched = true;
        let (seen, trouble) = (state.seen, state.trouble);
        drop(state);
        if seen {
            gauges(trouble);
        }
    }

    /// The connection came or went. A fresh one is believed until a call says otherwise.
    pub(super) fn connected(&self, connected: bool) {
        self.why_lost();
        // Rights may be others by now.
        let mut state = self.lock();
        if connected {
            (state.lost, state.unmet) = (None, None);
        }
        state.denied.clear();
        state.lacking.clear();
        drop(state);
        self.set((!connected).then_some(Trouble::Unreachable));
    }

    /// A connection was lost, or not made. That one is still there proves nothing: the client tells of a server that hangs
    /// before it closes its connection.
    pub(super) fn lost(&self, connected: bool) {
        if connected {
            self.why_lost();
        } else {
            self.connected(false);
        }
    }

    /// A call ended: without an error, or with this one. `script`: the script that it ran, if it ran one; that could not
    /// have ended well where writes are refused.
    pub(super) fn note(&self, error: Option<&Error>, script: Option<&str>) {
        let error = error.map(|error| StoreError::new("", error.clone()));
        let is_denied = self.note_denied(error.as_ref(), script);
        // A read proves no write, also where the server says that it does not know the script yet.
        let of_a_read = || match self.trouble() {
            Some(Trouble::ReadOnly) if script.is_none() => Some(Trouble::ReadOnly),
            _ => None,
        };
        let trouble = match error {
            None if is_denied => Some(Trouble::Denied),
            None => of_a_read(),
            Some(error) => match error.refusal() {
                Some(Refusal::ReadOnly) => Some(Trouble::ReadOnly),
                Some(Refusal::NotReady) => Some(Trouble::NotReady),
                Some(Refusal::Denied) => Some(Trouble::Denied),
                // At maxmemory all but submit and redrive goes on: Redis is well, its callers hear of it.
                Some(Refusal::OutOfMemory | Refusal::Other) if is_denied => Some(Trouble::Denied),
                Some(Refusal::OutOfMemory | Refusal::Other) => of_a_read(),
                None => Some(Trouble::Unreachable),
            },
        };
        self.set(trouble);
    }

    /// The user was asked about, and lacks these for a role.
    pub(super) fn lacks(&self, role: Role, rights: &[String]) {
        let mut state = self.lock();
        match rights {
            [] => drop(state.lacking.remove(&role)),
            rights => drop(state.lacking.insert(role, rights.to_vec())),
        }
        if state.lacking.is_empty() {
            // Whatever a script was denied before is granted by now; what only some submits need was not asked for.
            state.denied.retain(|name, (_, command)| command.as_ref() == Some(name));
        }
        let (is_denied, was) = (state.is_denied(), state.trouble);
        drop(state);
        // Whoever could ask has reached a server.
        match was {
            _ if is_denied => self.set(Some(Trouble::Denied)),
            Some(Trouble::Denied) => self.set(None),
            _ => {}
        }
    }

    /// A command that is no script, and that submits can't do without, was denied or got through.
    pub(super) fn note_needed(&self, command: &'static str, denied: bool) {
        let mut state = self.lock();
        match denied {
            true => {
                let now = (Instant::now(), Some(command.to_owned()));
                state.denied.insert(command.to_owned(), now);
            }
            false => drop(state.denied.remove(command)),
        }
        drop(state);
        if denied {
            self.set(Some(Trouble::Denied));
        }
    }

    /// Keeps who is denied. Whether anybody still is: another call that goes well proves nothing about the right that lacks.
    fn note_denied(&self, error: Option<&StoreError>, script: Option<&str>) -> bool {
        let mut state = self.lock();
        match (script, error) {
            (Some(script), None) => drop(state.denied.remove(script)),
            (Some(script), Some(error)) if error.refusal() == Some(Refusal::Denied) => {
                let command = error.denied_command().map(str::to_owned);
                state.denied.insert(script.to_owned(), (Instant::now(), command));
            }
            _ => {}
        }
        state.denied.retain(|_, (since, _)| since.elapsed() < DENIED);
        state.is_denied()
    }

    fn set(&self, trouble: Option<Trouble>) {
        let mut state = self.lock();
        if state.seen && state.trouble == trouble {
            return;
        }
        let was_seen = std::mem::replace(&mut state.seen, true);
        state.trouble = trouble;
        let watched = state.watched;
        drop(state);
        if !watched {
            return;
        }
        match trouble.and_then(|_| self.trouble()) {
            // The first word is no news: nothing was connected yet.
            Some(_) if !was_seen => {}
            Some(Trouble::Denied) => {
                let commands = self.denied_commands().join(" ");
                let (trouble, redis) = (Trouble::Denied.word(), &self.place);
                warn!(trouble, redis, commands, "redis can't be used");
            }
            Some(trouble) => {
                let why = (trouble == Trouble::Unreachable).then(|| self.why_lost()).flatten();
                warn!(trouble = trouble.word(), redis = self.place, why, "redis can't be used");
            }
            None => info!("redis answers"),
        }
        gauges(trouble);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Plain values: whole whatever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gauges(trouble: Option<Trouble>) {
    metrics::redis_up(trouble.is_none());
    for one in Trouble::ALL {
        metrics::redis_fault(one.word(), trouble == Some(one));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: Option<&str> = Some("settle");

    #[test]
    fn a_right_that_a_script_lacks_is_named_until_that_script_gets_through() {
        let status = Status::default();
        let denied = |command: &str| {
            let text = format!(
                "ERR ACL failure in script: User u has no permissions to run the '{command}' command"
            );
            Error::new(ErrorKind::Unknown, text)
        };
        status.note(Some(&denied("zadd")), SCRIPT);
        assert_eq!(status.trouble(), Some(Trouble::Denied));
        assert_eq!(status.denied_commands(), ["zadd"]);
        status.note(None, Some("depth"));
        status.note(None, None);
        assert_eq!(status.trouble(), Some(Trouble::Denied), "others get through");
        status.note(Some(&denied("hset")), Some("claim"));
        assert_eq!(status.denied_commands(), ["hset", "zadd"]);
        status.note(None, SCRIPT);
        assert_eq!(status.trouble(), Some(Trouble::Denied));
        status.note(None, Some("claim"));
        assert_eq!(status.trouble(), None);
        // What is no script may be denied without harm: INFO, say.
        status.note(Some(&Error::new(ErrorKind::Unknown, "NOPERM said the server")), None);
        status.note(None, None);
        assert_eq!(status.trouble(), None);
    }

    #[test]
    fn what_a_role_lacks_is_named_until_it_is_asked_again() {
        let status = Status::default();
        status.note(None, SCRIPT);
        let rights = ["zadd", "~hf1:queues"].map(str::to_owned);
        status.lacks(Role::Worker, &rights);
        status.lacks(Role::Producer, &rights[..1]);
        assert_eq!(status.denied_commands(), rights);
        status.note(None, SCRIPT);
        assert_eq!(status.trouble(), Some(Trouble::Denied), "what gets through proves nothing");
        status.lacks(Role::Worker, &[]);
        assert_eq!(status.denied_commands(), ["zadd"]);
        let text = "NOPERM no permissions to run the 'zadd' command".to_owned();
        status.note(Some(&Error::new(ErrorKind::Unknown, text)), SCRIPT);
        status.lacks(Role::Producer, &[]);
        assert_eq!(status.trouble(), None, "nobody has to send the script again");
        status.lacks(Role::Worker, &rights);
        status.connected(true);
        assert_eq!(status.denied_commands(), [""; 0], "another server may answer");
    }

    #[test]
    fn a_command_that_submits_need_is_denied_until_it_gets_through_itself() {
        let status = Status::default();
        status.note_needed("info", true);
        status.note(None, SCRIPT);
        status.lacks(Role::Producer, &[]);
        assert_eq!(status.trouble(), Some(Trouble::Denied), "others get through");
        assert_eq!(status.denied_commands(), ["info"]);
        status.note_needed("info", false);
        status.note(None, None);
        assert_eq!(status.trouble(), None);
    }

    #[test]
    fn why_there_is_no_connection_is_told_in_words_of_our_own_until_one_is_made() {
        let (news, lost) = tokio::sync::broadcast::channel(8);
        let status = Status::new("h:1".to_owned(), lost);
        assert_eq!((status.place(), status.why_lost()), ("h:1", None));
        for (kind, said, told) in [
            (ErrorKind::IO, "Os { code: 111, kind: ConnectionRefused }", "connection refused"),
            (ErrorKind::Auth, "WRONGPASS for S3CRET", "user or password refused"),
            (ErrorKind::Unknown, "MISCONF Errors writing to the AOF file: S3CRET", DISK_FULL),
            (ErrorKind::Unknown, "ERR DB index is out of range", "no such database"),
            (ErrorKind::Unknown, "ERR unknown command with S3CRET", "no such database"),
        ] {
            news.send((Error::new(kind, said), None)).unwrap();
            assert_eq!(status.why_lost(), Some(told), "{said}");
        }
        status.connected(true);
        assert_eq!(status.why_lost(), None);
    }

    #[test]
    fn a_connection_that_is_lost_does_not_answer_for_those_that_are_still_there() {
        let status = Status::default();
        status.note(None, SCRIPT);
        status.lost(true);
        assert_eq!(status.trouble(), None, "another node of a Cluster, say");
        status.note(Some(&Error::new(ErrorKind::Timeout, "")), SCRIPT);
        status.lost(true);
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
        status.connected(true);
        status.lost(false);
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
    }

    #[test]
    fn a_right_without_which_no_connection_is_made_is_told_by_its_name() {
        let (news, lost) = tokio::sync::broadcast::channel(8);
        let status = Status::new("h:1".to_owned(), lost);
        let text = "NOPERM User u has no permissions to run the 'cluster|slots' command";
        news.send((Error::new(ErrorKind::Sentinel, text), None)).unwrap();
        assert_eq!(status.trouble(), Some(Trouble::Denied));
        assert_eq!(status.denied_commands(), ["cluster|slots"]);
        news.send((Error::new(ErrorKind::IO, "Os { kind: ConnectionRefused }"), None)).unwrap();
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
        assert_eq!(status.denied_commands(), [""; 0]);
    }

    #[test]
    fn only_the_connection_that_is_watched_is_told_of() {
        let recorder = metrics::recorder().unwrap();
        let (a, b) = (Status::default(), Status::default());
        let late = || Error::new(ErrorKind::Timeout, "Request timed out.");
        let told = |what: &str| {
            let all = recorder.handle().render();
            let start = format!("{what} ");
            all.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        const GONE: &str = "holdfast_redis_fault{reason=\"unreachable\"}";
        ::metrics::with_local_recorder(&recorder, || {
            a.watched();
            a.note(None, SCRIPT);
            b.note(Some(&late()), SCRIPT);
            a.note(None, SCRIPT);
            assert_eq!(told("holdfast_redis_up").as_deref(), Some("1"));
            assert_eq!(told(GONE).as_deref(), Some("0"));
            assert_eq!(b.trouble(), Some(Trouble::Unreachable), "who uses it knows");
            a.note(Some(&late()), SCRIPT);
            b.note(None, SCRIPT);
            assert_eq!(told("holdfast_redis_up").as_deref(), Some("0"));
            assert_eq!(told(GONE).as_deref(), Some("1"));
            // What was found before anybody watched is told then.
            b.watched();
            assert_eq!(told("holdfast_redis_up").as_deref(), Some("1"));
        });
    }

    #[test]
    fn nothing_is_well_before_the_first_word() {
        let status = Status::default();
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
        status.note(None, SCRIPT);
        assert_eq!(status.trouble(), None);
    }

    #[test]
    fn a_server_that_takes_no_writes_is_named_so() {
        let status = Status::default();
        for word in ["READONLY", "MISCONF", "NOREPLICAS"] {
            status.note(
                Some(&Error::new(ErrorKind::Unknown, format!("{word} said the server"))),
                SCRIPT,
            );
            status.note(None, None);
            let unknown = Error::new(ErrorKind::Unknown, "NOSCRIPT No matching script.");
            status.note(Some(&unknown), None);
            assert_eq!(status.trouble(), Some(Trouble::ReadOnly), "{word}: a read proves no write");
            status.note(None, SCRIPT);
            assert_eq!(status.trouble(), None, "{word}");
        }
    }
}
