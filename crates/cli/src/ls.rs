//! `ls`: the caller's own requests, over HTTP, page by page.

use std::collections::HashSet;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::api::Api;
use crate::args::{Form, LsArgs};
use crate::call::Call;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::output::Output;
use crate::requests::text;
use crate::table::table;

/// Rows that one call may bring.
const PAGE: usize = 256;

const HEADING: [&str; 7] =
    ["ID", "STATE", "OUTCOME", "ATTEMPTS", "SUBMITTED", "DEADLINE", "GENERATION"];

/// The member of a status behind each column.
const COLUMNS: [&str; 7] =
    ["id", "state", "outcome", "attempts", "submitted_at", "deadline", "generation"];

/// A page as the API gives it.
#[derive(Deserialize)]
struct Page {
    requests: Vec<Box<RawValue>>,
    cursor: Option<String>,
}

/// What is printed for programs: the rows as they came.
#[derive(Default, Serialize)]
struct Listed {
    requests: Vec<Box<RawValue>>,
    /// Where the list goes on; none at its end.
    cursor: Option<String>,
}

/// Lists requests, up to so many.
pub(crate) async fn list(args: &LsArgs, output: &mut Output) -> Result<(), Failure> {
    let api = Api::open(&args.api)?;
    let mut listed = Listed { cursor: args.cursor.clone(), ..Listed::default() };
    // What moves while it is listed may come twice.
    let mut known = HashSet::new();
    loop {
        let room = args.limit.saturating_sub(listed.requests.len());
        let query = query(args.state.as_deref(), room.min(PAGE), listed.cursor.as_deref());
        let reply = api.send(&Call::list(&args.api.queue, &query)).await?;
        if reply.status != StatusCode::OK {
            return Err(reply.refusal().into());
        }
        let page: Page = serde_json::from_slice(&reply.body)
            .map_err(|_| Failure::Nonsense("a page that is no list of requests"))?;
        let new = page.requests.into_iter().filter(|row| known.insert(name(row)));
        listed.requests.extend(new);
        listed.cursor = page.cursor;
        if listed.cursor.is_none() || listed.requests.len() >= args.limit {
            break;
        }
    }
    match args.output {
        Form::Json => output.json(&listed)?,
        Form::Table => {
            let rows = listed.requests.iter().map(|row| cells(row)).collect();
            output.text(&table(&HEADING, rows))?;
        }
    }
    if let (Form::Table, Some(cursor)) = (args.output, &listed.cursor) {
        output.finish()?;
        Notes::plain().say(format!("holdfastctl: there may be more; go on with --cursor {cursor}"));
    }
    Ok(())
}

fn query(state: Option<&str>, limit: usize, cursor: Option<&str>) -> String {
    let state = state.map(|state| format!("&state={state}")).unwrap_or_default();
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    format!("limit={limit}{state}{cursor}")
}

/// Id and generation: what was told before has the same.
fn name(row: &RawValue) -> (String, String) {
    let row: Map<String, Value> = serde_json::from_str(row.get()).unwrap_or_default();
    let of = |member: &str| row.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    (of("id"), of("generation"))
}

fn cells(row: &RawValue) -> Vec<String> {
    let row: Map<String, Value> = serde_json::from_str(row.get()).unwrap_or_default();
    let cell = |member: &&str| row.get(*member).map_or_else(String::new, |it| text(member, it));
    COLUMNS.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column_also_for_what_is_not_there() {
        let row = r#"{"id":"a","state":"pending","attempts":0,"deadline":1.5,"generation":"ab"}"#;
        let row = RawValue::from_string(row.to_owned()).unwrap();
        assert_eq!(cells(&row), ["a", "pending", "", "0", "", "1970-01-01T00:00:01Z", "ab"]);
        assert_eq!(name(&row), ("a".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn a_page_is_asked_for_by_what_is_wanted() {
        assert_eq!(query(None, 100, None), "limit=100");
        assert_eq!(query(Some("dead"), 5, Some("AQ")), "limit=5&state=dead&cursor=AQ");
    }
}
