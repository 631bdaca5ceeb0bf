//! A call that is sent again until it is answered: every call of ours may be, under the same id.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::api::{Api, Came, NoAnswer};
use crate::call::Call;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::reply::{FOREIGN, Refusal, Reply};

/// The pause before the second try, and the longest one, where the server asks for none.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why a call has no answer that counts.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing came back.
    #[error(transparent)]
    Away(#[from] NoAnswer),
    /// The server asks to come again later.
    #[error(transparent)]
    Busy(Refusal),
    /// Something else than Holdfast answered.
    #[error(transparent)]
    Foreign(Refusal),
}

impl Trouble {
    /// Whether a submit may have been taken all the same.
    fn is_open(&self) -> bool {
        match self {
            Self::Away(NoAnswer::Connect { .. }) | Self::Foreign(_) => false,
            Self::Away(_) => true,
            // What stands before the API does not know what became of a call behind it.
            Self::Busy(refusal) => {
                refusal.status != 429
                    && matches!(refusal.code.as_str(), "outcome-unknown" | "internal" | FOREIGN)
            }
        }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(away) => away.into(),
            Trouble::Busy(refusal) | Trouble::Foreign(refusal) => refusal.into(),
        }
    }
}

/// How often something was tried, and since when it has no answer that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tries {
    since: Option<Instant>,
    pause: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self { since: None, pause: FIRST_PAUSE }
    }
}

/// The API, with patience.
pub(crate) struct Caller {
    api: Api,
    /// How long it may give no answer that counts.
    patience: Duration,
    /// When it ends in any case.
    until: Option<Instant>,
    /// Whether a queue that is full is waited for without limit: it drains.
    waits_for_room: bool,
    /// Whether Holdfast has answered before: then a page of something else will pass.
    is_known: AtomicBool,
    notes: Notes,
    /// Whether a call may have had an effect that its answer did not tell.
    is_open: AtomicBool,
    /// Each is told once: many calls run into the same.
    told_away: AtomicBool,
    told_full: AtomicBool,
}

impl Caller {
    /// Tries a call again for so long.
    pub(crate) fn new(api: Api, patience: Duration, notes: Notes) -> Self {
        let [is_known, is_open, told_away, told_full] = [(); 4].map(|()| AtomicBool::new(false));
        let (until, waits_for_room) = (None, false);
        Self {
            api,
            patience,
            until,
            waits_for_room,
            is_known,
            notes,
            is_open,
            told_away,
            told_full,
        }
    }

    /// The same, up to a time at most.
    pub(crate) fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// The same, and waits for room as long as that takes.
    pub(crate) fn waiting_for_room(self) -> Self {
        Self { waits_for_room: true, ..self }
    }

    /// Sends a call until it has an answer that counts, or patience ends.
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, Trouble> {
        let mut tries = Tries::default();
        loop {
            if let Some(reply) = self.attempt(call, &mut tries).await? {
                return Ok(reply);
            }
        }
    }

    /// Sends a call once. Without an answer that counts it rests, and there is none; or patience ends.
    pub(crate) async fn attempt(
        &self,
        call: &Call,
        tries: &mut Tries,
    ) -> Result<Option<Reply>, Trouble> {
        let (trouble, asked) = match self.api.send(call).await {
            Ok(reply) if reply.is_busy() => (Trouble::Busy(reply.refusal()), reply.retry_after()),
            Ok(reply) if reply.is_foreign() => (Trouble::Foreign(reply.refusal()), None),
            Ok(reply) => {
                self.is_known.store(true, Ordering::Relaxed);
                return Ok(Some(reply));
            }
            Err(away) => (Trouble::Away(away), None),
        };
        if trouble.is_open() {
            self.is_open.store(true, Ordering::Relaxed);
        }
        sleep(self.again(trouble, asked, tries)?).await;
        Ok(None)
    }

    /// Whether a call that failed may have had its effect.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Sends a call that is answered line by line, once: each line has its own tries.
    pub(crate) async fn call_for_lines(&self, call: &Call) -> Came {
        let came = self.api.send_for_lines(call).await;
        if matches!(came, Came::Lines(..)) {
            self.is_known.store(true, Ordering::Relaxed);
        }
        came
    }

    /// How long to wait before the next try, `asked` being what the server asks for; the trouble, if patience has ended.
    pub(crate) fn again(
        &self,
        trouble: Trouble,
        asked: Option<Duration>,
        tries: &mut Tries,
    ) -> Result<Duration, Trouble> {
        let is_full = matches!(&trouble, Trouble::Busy(refusal) if refusal.status == 429);
        // Who meets nothing of Holdfast at first has the wrong address.
        if matches!(trouble, Trouble::Foreign(_)) && !self.is_known.load(Ordering::Relaxed) {
            return Err(trouble);
        }
        if is_full && self.waits_for_room {
            tries.since = None;
        } else if tries.since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
            return Err(trouble);
        }
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(trouble);
        }
        self.tell(&trouble, is_full);
        let pause = spread(asked.unwrap_or(tries.pause));
        tries.pause = (tries.pause * 2).min(LONGEST_PAUSE);
        Ok(left.map_or(pause, |left| pause.min(left)))
    }

    fn tell(&self, trouble: &Trouble, is_full: bool) {
        let told = if is_full { &self.told_full } else { &self.told_away };
        if !told.swap(true, Ordering::Relaxed) {
            self.notes.say(format!("holdfastctl: {trouble}; trying again"));
        }
    }
}

/// Up to a quarter more, so that many who were refused together do not return together.
fn spread(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(1.0..1.25))
}

#[cfg(test)]
mod tests {
    use holdfast_core::model::QueueName;
    use holdfast_testkit::StandIn;
    use holdfast_testkit::stand_in::{Options, Rule};

    use super::*;
    use crate::args::{ApiArgs, Hidden};

    fn caller(url: &str, patience: Duration) -> Caller {
        let queue = QueueName::try_from("q").unwrap();
        let args = ApiArgs { server: Hidden(url.to_owned()), key_file: None, queue };
        Caller::new(Api::open(&args).unwrap(), patience, Notes::plain())
    }

    fn submit() -> Call {
        Call::submit(&QueueName::try_from("q").unwrap(), "{}".into())
    }

    async fn refusing(status: u16, times: Option<u64>) -> StandIn {
        let server = StandIn::start(Options::default()).await.unwrap();
        let rule = Rule::new().status(status).header("retry-after", "0");
        server.script(vec![Rule { times, ..rule }]).unwrap();
        server
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_with_the_same_bytes() {
        let server = refusing(503, Some(2)).await;
        let caller = caller(&server.url(), Duration::from_secs(30));
        // The stand-in knows no such path, and says so in its own way.
        let came = caller.call(&submit()).await;
        assert!(matches!(came, Err(Trouble::Foreign(refusal)) if refusal.status == 404));
        assert_eq!(server.bodies(), ["{}", "{}", "{}"]);
    }

    #[tokio::test]
    async fn a_page_of_something_else_passes_once_holdfast_was_there() {
        let server = StandIn::start(Options::default()).await.unwrap();
        let status = Rule::new().status(202).body(r#"{"id":"a","generation":"ab"}"#);
        let page = Rule::new().status(302).body("<html>").times(2);
        server.script(vec![status.clone().times(1), page, status]).unwrap();
        let caller = caller(&server.url(), Duration::from_secs(30));
        for arrived in [1, 4] {
            assert_eq!(caller.call(&submit()).await.unwrap().status, 202);
            assert_eq!(server.counts().arrived, arrived);
        }
    }

    #[tokio::test]
    async fn patience_ends() {
        let server = refusing(503, None).await;
        let trouble = caller(&server.url(), Duration::from_millis(20)).call(&submit()).await;
        assert!(matches!(trouble, Err(Trouble::Busy(refusal)) if refusal.status == 503));
        assert!(server.counts().arrived >= 2);
    }

    #[tokio::test]
    async fn a_full_queue_is_waited_for_where_that_is_wanted() {
        let server = refusing(429, Some(3)).await;
        let caller = caller(&server.url(), Duration::ZERO).waiting_for_room();
        let came = caller.call(&submit()).await;
        assert!(matches!(came, Err(Trouble::Foreign(refusal)) if refusal.status == 404));
        let server = refusing(429, None).await;
        let impatient = self::caller(&server.url(), Duration::ZERO).call(&submit()).await;
        assert!(matches!(impatient, Err(Trouble::Busy(refusal)) if refusal.status == 429));
    }

    #[tokio::test]
    async fn nobody_there_is_told_with_the_systems_word() {
        let url = format!("http://127.0.0.1:{}", holdfast_testkit::free_port());
        let trouble = caller(&url, Duration::ZERO).call(&submit()).await.unwrap_err();
        assert!(trouble.to_string().starts_with(&format!("can't connect to {url}: ")), "{trouble}");
        assert!(trouble.to_string().contains("refused"), "{trouble}");
    }
}
