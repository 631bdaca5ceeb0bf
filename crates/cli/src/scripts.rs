//! `script ls`, `script show`: the Lua scripts of this version.

use holdfast_core::script;
use serde::Serialize;

use crate::args::Form;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::table;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    sha1: String,
    keys: usize,
    head: usize,
    row: usize,
}

/// Lists them.
pub(crate) fn list(form: Form, output: &mut Output) -> Result<(), Failure> {
    let rows =
        script::all().into_iter().map(|script::Listing { name, sha1, keys, head, row, .. }| Row {
            name,
            sha1,
            keys,
            head,
            row,
        });
    let rows: Vec<Row> = rows.collect();
    if form == Form::Json {
        return output.json(&rows);
    }
    let cells = |row: &Row| {
        let counts = [row.keys, row.head, row.row].map(|count| count.to_string());
        [vec![row.name.to_owned(), row.sha1.clone()], counts.to_vec()].concat()
    };
    let heading = ["NAME", "SHA1", "KEYS", "HEAD", "ROW"];
    output.text(&table(&heading, rows.iter().map(cells).collect()))
}

/// Prints one as Redis gets it: its SHA-1 is the one that is listed.
pub(crate) fn show(name: &str, output: &mut Output) -> Result<(), Failure> {
    let found = script::all().into_iter().find(|script| script.name == name);
    let found = found.ok_or_else(|| Failure::Unknown(format!("there is no script {name}")))?;
    output.text(&found.text)
}
