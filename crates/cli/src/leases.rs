//! `lease ls`: what is leased, to whom, and until when.

use std::collections::BTreeMap;

use holdfast_core::inspect::{self, LeaseRow};
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::Session;
use holdfast_core::script::{Depth, registered_workers};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::args::{Form, RowsArgs};
use crate::failure::Failure;
use crate::listing::Listing;
use crate::notes::Notes;
use crate::output::Output;
use crate::store::{Store, id_text};
use crate::table::table;
use crate::time::{seconds, span};

const HEADING: [&str; 11] = [
    "QUEUE",
    "ID",
    "TENANT",
    "WORKER",
    "ATTEMPTS",
    "LAPSES",
    "AGE",
    "EXPIRES-IN",
    "CANCEL",
    "KEY",
    "HANDLE",
];

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    queue: String,
    shard: u32,
    id: Option<String>,
    tenant: Option<String>,
    key: String,
    handle: String,
    worker: Option<String>,
    session: Option<String>,
    attempts: Option<u32>,
    lapses: Option<u16>,
    forgiven: Option<u16>,
    cancel_asked: Option<bool>,
    claimed_at: Option<Number>,
    expires_at: Option<Number>,
    #[serde(skip)]
    times: [String; 2],
}

/// Lists the leases of all shards, each shard's in the order in which they lapse.
pub(crate) async fn list(args: &RowsArgs, output: &mut Output) -> Result<(), Failure> {
    let store = Store::open(&args.store.redis)?;
    let shards = store.shards(&args.store).await?;
    let workers = store.told(registered_workers(&store.redis).await)?;
    let workers = workers.into_iter().map(|row| (row.session, worker_name(&row.text))).collect();
    let mut listing = Listing::new(args.limit);
    for shard in &shards {
        let now = store.told(Depth { shard }.run(&store.redis).await)?.now;
        let read = async |offset, limit| {
            store.told(inspect::leases(&store.redis, shard, offset, limit).await)
        };
        listing.add(read, |lease| Row::of(shard, lease, &workers, now)).await?;
    }
    listing.tell_rest(&Notes::plain());
    let rows = listing.rows;
    match args.store.output {
        Form::Json => output.json(&rows),
        Form::Table => output.text(&table(&HEADING, rows.iter().map(Row::cells).collect())),
    }
}

/// What a worker calls itself; what it says of itself altogether if that is not to be read.
fn worker_name(text: &str) -> String {
    #[derive(Deserialize)]
    struct Worker {
        name: String,
    }
    serde_json::from_str::<Worker>(text).map_or_else(|_| text.to_owned(), |worker| worker.name)
}

impl Row {
    fn of(
        shard: &ShardKeys,
        lease: &LeaseRow,
        workers: &BTreeMap<Session, String>,
        now: u64,
    ) -> Self {
        let ticket = lease.ticket.as_ref();
        let identity = ticket.and_then(|ticket| ticket.identity.as_ref());
        let session = lease.fence.session();
        let claimed_at = ticket.map(|ticket| ticket.claimed_at).filter(|at| *at > 0);
        Self {
            queue: shard.queue.to_string(),
            shard: shard.shard,
            id: identity.map(|identity| id_text(&identity.id)),
            tenant: identity.map(|identity| identity.tenant.to_string()),
            key: lease.handle.key().to_string(),
            handle: lease.handle.to_string(),
            worker: session.and_then(|session| workers.get(&session).cloned()),
            session: session.map(|session| session.to_string()),
            attempts: ticket.map(|ticket| ticket.attempts),
            lapses: ticket.map(|ticket| ticket.lapses),
            forgiven: ticket.map(|ticket| ticket.forgiven),
            cancel_asked: ticket.map(|ticket| ticket.cancel_asked),
            claimed_at: claimed_at.and_then(seconds),
            expires_at: seconds(lease.expires_at),
            times: [
                claimed_at.map_or_else(String::new, |at| span(at, now)),
                span(now, lease.expires_at),
            ],
        }
    }

    fn cells(&self) -> Vec<String> {
        let [age, left] = self.times.clone();
        let who =
            self.worker.clone().or_else(|| Some(format!("session {}", self.session.as_ref()?)));
        let cancel = if self.cancel_asked == Some(true) { "asked" } else { "" };
        vec![
            self.queue.clone(),
            self.id.clone().unwrap_or_default(),
            self.tenant.clone().unwrap_or_default(),
            who.unwrap_or_default(),
            count(self.attempts),
            count(self.lapses),
            age,
            left,
            cancel.to_owned(),
            self.key.clone(),
            self.handle.clone(),
        ]
    }
}

/// A number that may be lost.
pub(crate) fn count(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use holdfast_core::model::{
        Digest, Draft, Fence, Generation, Handle, Identity, Key, QueueName, Ticket,
    };

    use super::*;

    fn lease(ticket: Option<Ticket>) -> LeaseRow {
        let handle = Handle::new(1, Generation::from([3; 8]), Key::from([9; 16]));
        LeaseRow {
            fence: Fence::new(Session::from([0xab; 8]), 2),
            handle,
            expires_at: 17_000,
            ticket,
        }
    }

    fn ticket() -> Ticket {
        let identity =
            Identity { tenant: "t".try_into().unwrap(), id: "i\u{1b}".try_into().unwrap() };
        let generation = Generation::from([3; 8]);
        let digest = Digest([0; 32]);
        let draft = Draft { generation, digest, deadline: 1, not_before: 0, body_size: 0 };
        let ticket = Ticket::unpack(draft.pack(&identity, "")).unwrap();
        Ticket { attempts: 2, lapses: 1, claimed_at: 10_000, ..ticket }
    }

    fn row(lease: &LeaseRow, workers: &[(Session, &str)]) -> Row {
        let shard = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
        let workers =
            workers.iter().map(|(session, name)| (*session, (*name).to_owned())).collect();
        Row::of(&shard, lease, &workers, 12_500)
    }

    #[test]
    fn a_lease_is_shown_with_its_holder_and_the_key_that_its_fields_lie_under() {
        let row = row(&lease(Some(ticket())), &[(Session::from([0xab; 8]), "gpu-7")]);
        let cells = row.cells();
        assert_eq!(cells[..9], ["q", "i\u{1b}", "t", "gpu-7", "2", "1", "2.5s", "4.5s", ""]);
        assert_eq!(cells[9], "09".repeat(16));
        assert_eq!(cells[10], format!("0000000000000001{}{}", "03".repeat(8), "09".repeat(16)));
        assert_eq!(
            (row.session.as_deref(), row.expires_at),
            (Some("abababababababab"), seconds(17_000))
        );
    }

    #[test]
    fn a_lease_whose_ticket_is_lost_is_shown_by_what_is_left() {
        let cells = row(&lease(None), &[]).cells();
        assert_eq!(cells[..8], ["q", "", "", "session abababababababab", "", "", "", "4.5s"]);
    }

    #[test]
    fn a_worker_is_called_by_its_name() {
        assert_eq!(worker_name(r#"{"name":"gpu-7","version":"1","concurrency":64}"#), "gpu-7");
        assert_eq!(worker_name("gpu-7"), "gpu-7");
    }
}
