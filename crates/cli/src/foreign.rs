//! The readers of files and of what servers answer, each alone: to be held to their rules with any bytes.
//!
//! They are the functions that commands use, and nothing else.

use std::io::{self, BufRead};

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};

use crate::item::{Item, Until};
use crate::reply::Reply;
use crate::{ended, escape, file};

/// The lines of a file that hold something: the number of each, and its bytes unless there are too many.
pub fn lines(file: impl BufRead) -> io::Result<Vec<(u64, Option<Vec<u8>>)>> {
    file::lines(file)
}

/// A line of an OpenAI batch file, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// Its `custom_id`, read.
    pub name: String,
    /// The same as it is written.
    pub custom_id: String,
    /// The body for the gateway, byte for byte.
    pub body: String,
    /// The text that is submitted for it, under this id.
    pub item: Bytes,
}

/// Reads a line of an OpenAI batch file whose requests go to `url`, to be submitted as `id`.
pub fn batch_line(line: &[u8], url: &str, id: &str) -> Result<BatchLine, String> {
    let (custom_id, name, body) = file::batch_line(line, url)?;
    let until = Until::Default;
    let item = Item { id, until: &until, custom_id: Some(&custom_id), payload: &body }.text();
    Ok(BatchLine { name, custom_id: custom_id.get().to_owned(), body: body.get().to_owned(), item })
}

/// The status of each of so many lines of a call that was answered with this stream of outcomes; none where nothing is told.
pub fn outcomes(lines: usize, answer: Bytes) -> Vec<Option<u16>> {
    file::outcomes(lines, answer)
}

/// What a refusal is told as.
pub fn refusal(status: StatusCode, answer: Bytes) -> String {
    Reply::part(status, HeaderMap::new(), answer).refusal().to_string()
}

/// An answer's body as one line of JSON, and how it is to be read if it was none before.
pub fn embedded(body: &[u8]) -> Result<(String, Option<&'static str>), String> {
    let (line, encoding) = ended::embedded(body).map_err(|failure| failure.to_string())?;
    Ok((line.get().to_owned(), encoding))
}

/// A text as it is shown on a terminal.
pub fn shown(text: &str) -> String {
    escape::plain(text)
}

/// A text without users and passwords of the addresses in it.
pub fn without_credentials(text: &str) -> String {
    escape::without_credentials(text)
}
