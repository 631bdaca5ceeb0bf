//! Clients as they are: they submit, repeat what nobody knows, wait for results, cancel, and write down what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_testkit::Http;
use holdfast_testkit::http::Answer;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::ledger::{Ledger, Record, Told};

/// How many clients there are: so many requests at least are under way at any time.
const CLIENTS: u64 = 64;
/// How long a client is idle between two requests.
const THINKS: Duration = Duration::from_millis(60);
/// How long it lets go by before it repeats a call.
const AGAIN: Duration = Duration::from_millis(150);
/// How long one look for a result waits, in s.
const LOOK: u64 = 4;
/// Who has that much time ends by no deadline.
const LONG: Duration = Duration::from_secs(900);

/// Who all clients are.
pub(crate) struct Clients {
    ledger: Arc<Ledger>,
    /// Where the producers take calls.
    producers: Vec<String>,
    http: Http,
    /// Of ids.
    prefix: String,
    next: AtomicU64,
    seed: u64,
    /// No new requests.
    pub(crate) stop: CancellationToken,
    /// Nothing is repeated any more.
    pub(crate) give_up: CancellationToken,
}

/// How a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Submitted, then its result is waited for.
    Plain,
    /// The submit waits itself.
    Waits,
    /// With others in one call.
    Batch,
    /// Its caller wants it no more, soon after.
    Cancelled,
    /// With little time.
    Hurried,
}

const WAYS: [(usize, Way); 5] =
    [(10, Way::Plain), (6, Way::Waits), (2, Way::Batch), (2, Way::Cancelled), (1, Way::Hurried)];

/// One request as its client has it.
struct Item {
    id: String,
    text: String,
}

impl Clients {
    pub(crate) fn new(ledger: Arc<Ledger>, producers: Vec<String>, leg: &str, seed: u64) -> Self {
        Self {
            ledger,
            producers,
            http: Http::new(),
            prefix: format!("{leg}-{seed:x}"),
            next: AtomicU64::new(0),
            seed,
            stop: CancellationToken::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Lets all of them begin.
    pub(crate) fn begin(self: &Arc<Self>) -> JoinSet<()> {
        (0..CLIENTS).map(|number| Arc::clone(self).client(number)).collect()
    }

    async fn client(self: Arc<Self>, number: u64) {
        let mut dice = Dice::new(self.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        while !self.stop.is_cancelled() {
            let way = dice.weighed(&WAYS);
            let count = if way == Way::Batch { 2 + dice.below(7) } else { 1 };
            let items: Vec<Item> = (0..count).map(|_| self.item(way, &mut dice)).collect();
            if way == Way::Batch {
                self.submit_together(&items, &mut dice).await;
            }
            for item in &items {
                self.live(item, way, &mut dice).await;
            }
            sleep(THINKS).await;
        }
    }

    /// A new request, in the ledger from now on.
    fn item(&self, way: Way, dice: &mut Dice) -> Item {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.prefix);
        let timeout = match way {
            Way::Hurried => Duration::from_millis(dice.of(&[300, 1_500, 4_000])),
            _ => LONG,
        };
        let filler = "hold ".repeat(dice.of(&[0, 4, 30, 200, 1_000]));
        let text = format!(
            "{{\"id\":\"{id}\",\"timeout\":\"{}ms\",\"payload\":{{\"model\":\"m\",\"messages\":\
             [{{\"role\":\"user\",\"content\":\"{id} {filler}\"}}]}}}}",
            timeout.as_millis()
        );
        let sent = self.ledger.now();
        self.ledger.write(&id, |story| (story.sent, story.timeout) = (sent, timeout));
        Item { id, text }
    }

    /// From the submit to the record.
    async fn live(&self, item: &Item, way: Way, dice: &mut Dice) {
        let wait = if way == Way::Waits { 3 } else { 0 };
        while !self.ledger.story(&item.id).is_kept() {
            if self.submit(item, wait, dice).await || self.give_up.is_cancelled() {
                break;
            }
            self.pause(AGAIN).await;
        }
        if !self.ledger.story(&item.id).is_kept() {
            return;
        }
        if way == Way::Cancelled {
            sleep(Duration::from_millis(dice.of(&[0, 20, 100, 1_000]))).await;
            self.cancel(item, dice).await;
        }
        if self.ledger.story(&item.id).read.is_empty() {
            self.wait_for(&item.id, dice).await;
        }
    }

    /// One copy of a submit. True: it is refused for good.
    async fn submit(&self, item: &Item, wait: u64, dice: &mut Dice) -> bool {
        let prefer = format!("wait={wait}");
        let json = ("content-type", "application/json");
        let with_wait = [json, ("prefer", prefer.as_str())];
        let headers = if wait > 0 { &with_wait[..] } else { &with_wait[..1] };
        let call = self.ledger.call();
        let url = self.url(dice, "");
        let answer = self.http.try_request("POST", &url, headers, item.text.clone()).await;
        let (told, record) = match answer {
            Err(why) => {
                call.failed();
                (Told::Unknown(why), None)
            }
            Ok(answer) => match answer.header("holdfast-outcome") {
                Some(_) => {
                    call.answered(Duration::from_secs(wait));
                    let record = record(&answer);
                    (Told::Kept(record.generation.clone()), Some(record))
                }
                None => {
                    let body = parsed(&answer.body);
                    self.ledger.look(&item.id, body["id"].as_str());
                    let told = told(u64::from(answer.status), &body);
                    count(call, &told, wait);
                    (told, None)
                }
            },
        };
        let refused = is_final(&told);
        let now = self.ledger.now();
        self.ledger.write(&item.id, |story| {
            story.told.push((now, told));
            story.read.extend(record.map(|record| (now, record)));
        });
        refused
    }

    /// Many in one call; what it does not tell is submitted alone afterwards.
    async fn submit_together(&self, items: &[Item], dice: &mut Dice) {
        let body: String = items.iter().map(|item| item.text.clone() + "\n").collect();
        let url = self.url(dice, "").replace("/requests", "/batch");
        let call = self.ledger.call();
        let headers = [("content-type", "application/x-ndjson")];
        let answer = self.http.try_request("POST", &url, &headers, body).await;
        let mut outcomes: Vec<Told> = match &answer {
            Ok(answer) if answer.status == 207 => {
                call.answered(Duration::ZERO);
                let lines = answer.text().lines().map(|line| parsed(line.as_bytes()));
                lines.zip(items).map(|(line, item)| self.told_in_line(item, &line)).collect()
            }
            Ok(answer) => {
                let told = told(u64::from(answer.status), &parsed(&answer.body));
                count(call, &told, 0);
                vec![told; items.len()]
            }
            Err(why) => {
                call.failed();
                vec![Told::Unknown(why.clone()); items.len()]
            }
        };
        outcomes.resize(items.len(), Told::Unknown("no line tells it".to_owned()));
        for (item, told) in items.iter().zip(outcomes) {
            let now = self.ledger.now();
            self.ledger.write(&item.id, |story| story.told.push((now, told)));
        }
    }

    /// What a line of a batch's answer tells. Lines come in the order of the items: they are read so, as a simple client does.
    fn told_in_line(&self, item: &Item, line: &Value) -> Told {
        self.ledger.look(&item.id, line["id"].as_str());
        match (line["status"].as_u64(), &line["problem"]) {
            (Some(status), Value::Null) => told(status, line),
            (Some(status), problem) => told(status, problem),
            (None, _) => Told::Unknown("a line without a status".to_owned()),
        }
    }

    async fn cancel(&self, item: &Item, dice: &mut Dice) {
        self.ledger.write(&item.id, |story| story.cancel_asked = true);
        let call = self.ledger.call();
        match self.http.try_request("DELETE", &self.url(dice, &item.id), &[], "").await {
            Ok(answer) if answer.status < 500 => call.answered(Duration::ZERO),
            _ => call.failed(),
        }
    }

    /// Looks for the record until it is there, or nothing is kept any more.
    async fn wait_for(&self, id: &str, dice: &mut Dice) {
        while !self.give_up.is_cancelled() {
            let path = format!("{id}/result?wait={LOOK}");
            match self.look(&self.url(dice, &path), LOOK).await {
                Some(Look::Ended(record)) => {
                    let now = self.ledger.now();
                    return self.ledger.write(id, |story| story.read.push((now, record)));
                }
                Some(Look::Missing) => return self.ledger.write(id, |story| story.missed = true),
                Some(Look::Lives) => {}
                None => self.pause(AGAIN).await,
            }
        }
    }

    async fn look(&self, url: &str, wait: u64) -> Option<Look> {
        let call = self.ledger.call();
        match self.http.try_request("GET", url, &[], "").await {
            Ok(answer) if answer.status == 200 => {
                call.answered(Duration::from_secs(wait));
                Some(Look::Ended(record(&answer)))
            }
            Ok(answer) if answer.status == 202 => {
                call.answered(Duration::from_secs(wait));
                Some(Look::Lives)
            }
            Ok(answer) if answer.status == 404 => Some(Look::Missing),
            _ => {
                call.failed();
                None
            }
        }
    }

    /// Reads every record once more, as it stands.
    pub(crate) async fn read_again(self: &Arc<Self>) {
        let stories = self.ledger.stories();
        let ids: Vec<String> =
            stories.into_iter().filter(|(_, it)| it.is_kept()).map(|(id, _)| id).collect();
        let mut readers = JoinSet::new();
        for (number, ids) in ids.chunks(ids.len().div_ceil(32).max(1)).enumerate() {
            let (clients, ids) = (Arc::clone(self), ids.to_vec());
            readers.spawn(async move {
                let mut dice = Dice::new(number as u64);
                for id in ids {
                    clients.read_once_more(&id, &mut dice).await;
                }
            });
        }
        readers.join_all().await;
    }

    async fn read_once_more(&self, id: &str, dice: &mut Dice) {
        for _ in 0..20 {
            let looked = self.look(&self.url(dice, &format!("{id}/result")), 0).await;
            let now = self.ledger.now();
            match looked {
                Some(Look::Ended(record)) => {
                    return self.ledger.write(id, |story| story.read.push((now, record)));
                }
                Some(Look::Missing) => return self.ledger.write(id, |story| story.missed = true),
                Some(Look::Lives) => return,
                None => sleep(AGAIN).await,
            }
        }
    }

    /// A producer, whichever.
    fn url(&self, dice: &mut Dice, path: &str) -> String {
        let slash = if path.is_empty() { "" } else { "/" };
        format!("{}/v1/queues/q/requests{slash}{path}", dice.of(&self.producers))
    }

    async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.give_up.cancelled() => {}
        }
    }
}

enum Look {
    Ended(Record),
    Lives,
    Missing,
}

/// The record that an answer shows.
fn record(answer: &Answer) -> Record {
    let header = |name| answer.header(name).unwrap_or_default().to_owned();
    Record {
        generation: header("holdfast-generation"),
        outcome: header("holdfast-outcome"),
        status: answer.header("holdfast-status").and_then(|status| status.parse().ok()),
        body: answer.body.to_vec(),
    }
}

/// A body as JSON; nothing where it is none.
fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_default()
}

/// What an answer tells of a submit.
fn told(status: u64, body: &Value) -> Told {
    let problem = body["type"].as_str().unwrap_or("none").trim_start_matches("/problems/");
    match (status, body["generation"].as_str()) {
        (200 | 202, Some(generation)) => Told::Kept(generation.to_owned()),
        // These say that nobody knows; so does an answer that is not as it should be.
        _ if ["outcome-unknown", "internal", "store-denied", "none"].contains(&problem) => {
            Told::Unknown(format!("{status} {problem}"))
        }
        _ => Told::Refused(problem.to_owned()),
    }
}

/// Whether repeating it is no use.
fn is_final(told: &Told) -> bool {
    let soon = ["queue-full", "store-full", "store-unreachable", "store-read-only", "overloaded"];
    let later = ["draining", "durability-unavailable", "request-timeout"];
    matches!(told, Told::Refused(problem) if !soon.contains(&problem.as_str()) && !later.contains(&problem.as_str()))
}

fn count(call: crate::ledger::Call<'_>, told: &Told, wait: u64) {
    match told {
        Told::Kept(_) => call.answered(Duration::from_secs(wait)),
        Told::Refused(problem) if problem == "store-full" => call.full(),
        Told::Refused(_) | Told::Unknown(_) => call.failed(),
    }
}
