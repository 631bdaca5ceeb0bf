//! Submits the requests and reads their results, over HTTP like any caller.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::http::{Answer, Http, NoAnswer};
use super::ledger::Reading;
use super::report::Story;
use super::requests::Request;
use super::settings::QUEUE;

/// How many submits are under way at once, and how many results are waited for.
const SUBMITS: usize = 16;
const WAITS: usize = 256;
/// How long the API may hold a wait, in seconds.
const WAIT: u32 = 10;
/// How long a submit is repeated, and the last look at a result.
const LIMIT: Duration = Duration::from_secs(20);
/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// Why a submit was not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAccepted {
    #[error("{id} was refused with status {status}: {problem}")]
    Refused { id: String, status: StatusCode, problem: String },
    #[error("{id} could not be submitted")]
    NoAnswer { id: String, source: NoAnswer },
    #[error("a caller's task failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Why it is not known whether there is a result.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error("the API says: later")]
    Later,
    #[error("no answer")]
    NoAnswer(#[from] NoAnswer),
}

/// Callers of the API, and what they were told. Clones are the same value.
#[derive(Clone)]
pub(crate) struct Callers {
    http: Http,
    requests: String,
    told: Arc<Told>,
    story: Story,
}

#[derive(Default)]
struct Told {
    accepted: Mutex<BTreeMap<String, Bytes>>,
    first: Mutex<BTreeMap<String, Reading>>,
}

impl Callers {
    pub(crate) fn new(http: Http, api: SocketAddr, story: Story) -> Self {
        let requests = format!("http://{api}/v1/queues/{QUEUE}/requests");
        Self { http, requests, told: Arc::default(), story }
    }

    /// Submits all of them and reads each result as soon as it exists, at most until `give_up`.
    pub(crate) async fn run(
        &self,
        requests: Vec<Request>,
        give_up: Instant,
    ) -> Result<(), NotAccepted> {
        let submits = Arc::new(Semaphore::new(SUBMITS));
        let waits = Arc::new(Semaphore::new(WAITS));
        let mut callers = JoinSet::new();
        for request in requests {
            let (caller, submits, waits) = (self.clone(), Arc::clone(&submits), Arc::clone(&waits));
            callers.spawn(async move {
                // Nobody closes them.
                let submitting = submits.acquire().await;
                caller.submit(&request).await?;
                drop(submitting);
                let _waiting = waits.acquire().await;
                caller.read(&request.id, give_up).await;
                Ok::<(), NotAccepted>(())
            });
        }
        while let Some(called) = callers.join_next().await {
            called??;
        }
        Ok(())
    }

    /// Submits one, again under the same id where that is what the answer asks for.
    async fn submit(&self, request: &Request) -> Result<(), NotAccepted> {
        let until = Instant::now() + LIMIT;
        loop {
            let answer = self.http.post_json(&self.requests, request.item()).await;
            let is_late = Instant::now() >= until;
            match answer {
                Ok(answer) if answer.status.is_success() => {
                    let id = request.id.clone();
                    lock(&self.told.accepted).insert(id, request.payload.clone());
                    return Ok(());
                }
                Ok(answer) if is_late || !asks_for_another_try(answer.status) => {
                    let (id, status) = (request.id.clone(), answer.status);
                    let problem = String::from_utf8_lossy(&answer.body).into_owned();
                    return Err(NotAccepted::Refused { id, status, problem });
                }
                Err(source) if is_late => {
                    return Err(NotAccepted::NoAnswer { id: request.id.clone(), source });
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    /// Waits for a result. What is not there by `give_up` stays unread: the ledger says that it is lost.
    async fn read(&self, id: &str, give_up: Instant) {
        while Instant::now() < give_up {
            match self.result(id, WAIT).await {
                Ok(Some(reading)) => {
                    lock(&self.told.first).insert(id.to_owned(), reading);
                    self.story.ended();
                    return;
                }
                Ok(None) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Every result once more. Whoever is asked to try again does so: that there is no answer now says nothing of a result.
    pub(crate) async fn read_again(&self) -> BTreeMap<String, Reading> {
        let (mut last, until) = (BTreeMap::new(), Instant::now() + LIMIT);
        for id in self.accepted().into_keys() {
            let reading = loop {
                match self.result(&id, 0).await {
                    Err(_) if Instant::now() < until => sleep(PAUSE).await,
                    read => break read,
                }
            };
            if let Ok(Some(reading)) = reading {
                last.insert(id, reading);
            }
        }
        last
    }

    /// The result, if there is one within `wait` seconds.
    async fn result(&self, id: &str, wait: u32) -> Result<Option<Reading>, Untold> {
        let answer = self.http.get(&format!("{}/{id}/result?wait={wait}", self.requests)).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(Reading::of(answer))),
            status if asks_for_another_try(status) => Err(Untold::Later),
            _ => Ok(None),
        }
    }

    /// What was accepted so far, with the bytes of each call.
    pub(crate) fn accepted(&self) -> BTreeMap<String, Bytes> {
        lock(&self.told.accepted).clone()
    }

    /// What was read so far.
    pub(crate) fn first(&self) -> BTreeMap<String, Reading> {
        lock(&self.told.first).clone()
    }

    /// Whether the results of all these calls were read.
    pub(crate) fn have_read(&self, bodies: &[Bytes]) -> bool {
        let first = lock(&self.told.first);
        let accepted = lock(&self.told.accepted);
        let wanted = accepted.iter().filter(|(_, body)| bodies.contains(body));
        wanted.map(|(id, _)| id).all(|id| first.contains_key(id))
    }
}

impl Reading {
    fn of(answer: Answer) -> Self {
        Self {
            outcome: answer.header("holdfast-outcome"),
            status: answer.header("holdfast-status"),
            generation: answer.header("holdfast-generation"),
            body: answer.body,
        }
    }
}

/// Whether the API says: again, with the same id.
fn asks_for_another_try(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Whole also after a panic: each change is one insertion.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// An API that answers with these, one a connection.
    async fn api(answers: [&'static str; 3]) -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, mut serving) = (listener.local_addr().unwrap(), JoinSet::new());
        serving.spawn(async move {
            for answer in answers {
                let (mut caller, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    asked.push(caller.read_u8().await.unwrap());
                }
                let rest = "connection: close\r\ncontent-length: 2\r\n\r\n{}";
                caller.write_all(format!("HTTP/1.1 {answer}\r\n{rest}").as_bytes()).await.unwrap();
            }
        });
        (address, serving)
    }

    #[tokio::test]
    async fn an_api_that_says_later_has_lost_nothing() {
        let later = "503 Service Unavailable\r\nretry-after: 1";
        let (address, _serving) = api([later, later, "200 OK"]).await;
        let callers = Callers::new(Http::new(), address, Story::new(1));
        lock(&callers.told.accepted).insert("a".to_owned(), Bytes::new());
        assert!(callers.read_again().await.contains_key("a"));
    }
}
