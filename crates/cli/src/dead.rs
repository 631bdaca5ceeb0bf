//! `dead ls`: the dead letters, and what ended them.

use holdfast_core::inspect::{self, DeadRow};
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Failure as Fault, Identity};
use serde::Serialize;
use serde_json::Number;

use crate::args::{Form, RowsArgs};
use crate::failure::Failure;
use crate::leases::count;
use crate::listing::Listing;
use crate::notes::Notes;
use crate::output::Output;
use crate::store::{Store, id_text};
use crate::table::table;
use crate::time::{seconds, utc};

const HEADING: [&str; 11] = [
    "QUEUE",
    "ID",
    "TENANT",
    "OUTCOME",
    "LAST-FAILURE",
    "ATTEMPTS",
    "LAPSES",
    "ENDED",
    "KEPT-UNTIL",
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
    generation: String,
    outcome: Option<&'static str>,
    last_failure: Option<LastFailure>,
    attempts: Option<u32>,
    lapses: Option<u16>,
    forgiven: Option<u16>,
    ended_at: Option<Number>,
    kept_until: Option<Number>,
    #[serde(skip)]
    times: [String; 2],
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct LastFailure {
    code: &'static str,
    /// The gateway's, if it gave one.
    status: Option<u16>,
}

/// Lists the dead letters of all shards, each shard's in the order in which they are swept.
pub(crate) async fn list(args: &RowsArgs, output: &mut Output) -> Result<(), Failure> {
    let store = Store::open(&args.store.redis)?;
    let mut listing = Listing::new(args.limit);
    for shard in &store.shards(&args.store).await? {
        let read = async |offset, limit| {
            store.told(inspect::dead(&store.redis, shard, offset, limit).await)
        };
        listing.add(read, |letter| Row::of(shard, letter)).await?;
    }
    listing.tell_rest(&Notes::plain());
    let rows = listing.rows;
    match args.store.output {
        Form::Json => output.json(&rows),
        Form::Table => output.text(&table(&HEADING, rows.iter().map(Row::cells).collect())),
    }
}

impl Row {
    fn of(shard: &ShardKeys, letter: &DeadRow) -> Self {
        let DeadRow { handle, kept_until, ticket, record } = letter;
        let (ticket, record) = (ticket.as_ref(), record.as_ref());
        let identity: Option<&Identity> = letter.identity();
        let failure = record.and_then(|record| record.failure);
        let failure = failure.or_else(|| Some(ticket?.failure?.0));
        let ended_at = record.map(|record| record.ended_at);
        Self {
            queue: shard.queue.to_string(),
            shard: shard.shard,
            id: identity.map(|identity| id_text(&identity.id)),
            tenant: identity.map(|identity| identity.tenant.to_string()),
            key: handle.key().to_string(),
            handle: handle.to_string(),
            generation: handle.generation().to_string(),
            outcome: record.map(|record| record.outcome.word()),
            last_failure: failure.map(LastFailure::of),
            attempts: record.map(|it| it.attempts).or_else(|| Some(ticket?.attempts)),
            lapses: record.map(|it| it.lapses).or_else(|| Some(ticket?.lapses)),
            forgiven: record.map(|it| it.forgiven).or_else(|| Some(ticket?.forgiven)),
            ended_at: ended_at.and_then(seconds),
            kept_until: seconds(*kept_until),
            times: [ended_at.map_or_else(String::new, utc), utc(*kept_until)],
        }
    }

    fn cells(&self) -> Vec<String> {
        let [ended, kept] = self.times.clone();
        vec![
            self.queue.clone(),
            self.id.clone().unwrap_or_default(),
            self.tenant.clone().unwrap_or_default(),
            self.outcome.unwrap_or_default().to_owned(),
            self.last_failure.as_ref().map_or_else(String::new, LastFailure::told),
            count(self.attempts),
            count(self.lapses),
            ended,
            kept,
            self.key.clone(),
            self.handle.clone(),
        ]
    }
}

impl LastFailure {
    fn of(fault: Fault) -> Self {
        Self { code: fault.code.word(), status: Some(fault.status).filter(|status| *status > 0) }
    }

    fn told(&self) -> String {
        match self.status {
            Some(status) => format!("{} {status}", self.code),
            None => self.code.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::model::{
        Answer, FailureCode, Generation, Handle, Key, Outcome, QueueName, Record,
    };

    use super::*;

    fn letter(record: Option<Record>) -> DeadRow {
        let handle = Handle::new(1, Generation::from([3; 8]), Key::from([9; 16]));
        DeadRow { handle, kept_until: 86_400_000, ticket: None, record }
    }

    fn record() -> Record {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        Record {
            outcome: Outcome::GaveUp,
            generation: Generation::from([3; 8]),
            ended_at: 1_000,
            attempts: 4,
            lapses: 1,
            forgiven: 0,
            failure: Some(Fault { code: FailureCode::Status, status: 503 }),
            status: 0,
            identity: Some(identity),
            answer: Answer::default(),
        }
    }

    #[test]
    fn a_dead_letter_is_shown_with_what_ended_it() {
        let shard = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
        let row = Row::of(&shard, &letter(Some(record())));
        let expected = [
            "q",
            "i",
            "t",
            "gave-up",
            "status 503",
            "4",
            "1",
            "1970-01-01T00:00:01Z",
            "1970-01-02T00:00:00Z",
        ];
        assert_eq!(row.cells()[..9], expected);
        assert_eq!(
            (row.key.as_str(), row.generation.as_str()),
            (&*"09".repeat(16), "0303030303030303")
        );
    }

    #[test]
    fn a_dead_letter_of_which_nothing_is_left_is_still_shown() {
        let shard = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
        let cells = Row::of(&shard, &letter(None)).cells();
        assert_eq!(cells[..8], ["q", "", "", "", "", "", "", ""]);
        assert_eq!(cells[9], "09".repeat(16));
    }
}
