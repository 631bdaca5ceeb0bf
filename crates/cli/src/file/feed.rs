//! Reads a file's lines ahead of the calls, on a thread of its own.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::digest::{self, Named};
use super::line::{Fault, Request, Unfit, parse};

/// Bytes of lines in memory at once; a larger one travels alone.
const BYTES_AT_ONCE: u32 = 64 << 20;

/// What comes from a file.
#[derive(Debug)]
pub(super) enum Fed {
    /// A line to submit, and its share of the memory for lines.
    Request { number: u64, request: Request, share: OwnedSemaphorePermit },
    /// A line that is refused.
    Unfit { number: u64, unfit: Unfit },
    /// The file can't be read on.
    Unreadable(io::Error),
    /// The file is not what it was when it was named.
    Changed,
    /// Every line was read.
    End,
}

/// A file to be read.
pub(super) struct Feed {
    pub(super) path: PathBuf,
    pub(super) named: Named,
    /// The one url that lines may have.
    pub(super) url: String,
}

/// Whoever takes the lines has stopped.
struct Unwanted;

impl Feed {
    /// Reads to the end, or until nobody takes the lines any more.
    pub(super) fn run(self, to: &Sender<Fed>) {
        let last = match self.read(to) {
            Ok(Ok(())) => Fed::End,
            Ok(Err(Unwanted)) => return,
            Err(err) => Fed::Unreadable(err),
        };
        // Whoever has stopped needs no last word.
        drop(to.blocking_send(last));
    }

    fn read(&self, to: &Sender<Fed>) -> io::Result<Result<(), Unwanted>> {
        let memory = Arc::new(Semaphore::new(BYTES_AT_ONCE as usize));
        let mut names = HashMap::new();
        let mut lines = digest::open(&self.path)?;
        while let Some(line) = lines.next()? {
            let number = line.number;
            let share = match reserve(&memory, line.bytes.as_ref().map_or(0, Vec::len)) {
                Ok(share) => share,
                Err(Unwanted) => return Ok(Err(Unwanted)),
            };
            let fed = match self.judge(number, line.bytes, &mut names) {
                Ok(request) => Fed::Request { number, request, share },
                Err(unfit) => Fed::Unfit { number, unfit },
            };
            if to.blocking_send(fed).is_err() {
                return Ok(Err(Unwanted));
            }
        }
        let unchanged = digest::name(lines) == self.named.name;
        if !unchanged && to.blocking_send(Fed::Changed).is_err() {
            return Ok(Err(Unwanted));
        }
        Ok(Ok(()))
    }

    fn judge(
        &self,
        number: u64,
        bytes: Option<Vec<u8>>,
        names: &mut HashMap<String, u64>,
    ) -> Result<Request, Unfit> {
        let bytes = bytes.ok_or(Unfit { custom_id: None, fault: Fault::TooLong })?;
        let request = parse(&bytes, &self.url)?;
        match names.get(&request.name) {
            Some(first) => Err(repeated(request.custom_id, *first)),
            None => {
                names.insert(request.name.clone(), number);
                Ok(request)
            }
        }
    }
}

fn repeated(custom_id: Box<RawValue>, first: u64) -> Unfit {
    Unfit { custom_id: Some(custom_id), fault: Fault::Repeated { first } }
}

fn reserve(memory: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Unwanted> {
    let share = u32::try_from(bytes).unwrap_or(u32::MAX).min(BYTES_AT_ONCE);
    Handle::current().block_on(Arc::clone(memory).acquire_many_owned(share)).map_err(|_| Unwanted)
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    const LINE: &str = r#""method":"POST","url":"/u","body":{}"#;

    /// What the reader says of a file, each line by its number.
    async fn read(text: &str, name: Option<&str>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut named = Named::read(&path).unwrap();
        named.name = name.map_or(named.name, str::to_owned);
        let (sender, mut lines) = mpsc::channel(1);
        let feed = Feed { path, named, url: "/u".to_owned() };
        let reading = tokio::task::spawn_blocking(move || feed.run(&sender));
        let mut said = Vec::new();
        while let Some(fed) = lines.recv().await {
            said.push(match fed {
                Fed::Request { number, request, .. } => format!("{number} {}", request.name),
                Fed::Unfit { number, unfit } => format!("{number}: {}", unfit.fault),
                other => format!("{other:?}"),
            });
        }
        reading.await.unwrap();
        said
    }

    #[tokio::test]
    async fn a_name_that_comes_again_is_refused_with_the_line_that_had_it_first() {
        let line = |id: &str| format!("{{\"custom_id\":\"{id}\",{LINE}}}\n");
        let text = format!("{}\n{}{}{}", line("a"), line("b"), line("\\u0061"), line("a"));
        let expected = [
            "1 a",
            "3 b",
            "4: has the custom_id of line 1",
            "5: has the custom_id of line 1",
            "End",
        ];
        assert_eq!(read(&text, None).await, expected);
    }

    #[tokio::test]
    async fn a_bad_line_refuses_itself_only() {
        let text = format!("{{\n{{\"custom_id\":\"a\",{LINE}}}");
        let said = read(&text, None).await;
        assert!(said[0].starts_with("1: no JSON"), "{said:?}");
        assert_eq!(said[1..], ["2 a", "End"]);
    }

    #[tokio::test]
    async fn a_file_that_changed_since_it_was_named_is_told() {
        let text = format!("{{\"custom_id\":\"a\",{LINE}}}");
        assert_eq!(read(&text, Some("another")).await, ["1 a", "Changed", "End"]);
    }
}
