//! The calls of the API, as they are written.

use std::time::Duration;

use bytes::Bytes;
use holdfast_core::model::{Generation, QueueName};
use hyper::Method;

/// One call of the API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// The form of the body.
    pub(crate) kind: &'static str,
    /// How long the API is asked to wait.
    pub(crate) wait: Duration,
}

/// One JSON value, and one a line.
pub(crate) const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";

/// A request of a queue, as paths name it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) queue: QueueName,
    pub(crate) id: String,
    pub(crate) generation: Option<String>,
}

impl Target {
    /// The request of that name.
    pub(crate) fn new(queue: &QueueName, id: &str, generation: Option<Generation>) -> Self {
        let generation = generation.map(|generation| generation.to_string());
        Self { queue: queue.clone(), id: id.to_owned(), generation }
    }

    /// Asks where it is.
    pub(crate) fn status(&self) -> Call {
        self.call(Method::GET, "", None)
    }

    /// Asks how it ended, and waits for that so long.
    pub(crate) fn result(&self, wait: Duration) -> Call {
        self.call(Method::GET, "/result", Some(wait))
    }

    /// Has it stopped.
    pub(crate) fn cancel(&self) -> Call {
        self.call(Method::DELETE, "", None)
    }

    fn call(&self, method: Method, tail: &str, wait: Option<Duration>) -> Call {
        let asked = wait.map(|wait| format!("wait={}", wait.as_secs()));
        let pinned = self.generation.as_ref().map(|it| format!("generation={it}"));
        let query: Vec<String> = asked.into_iter().chain(pinned).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let id = encoded(&self.id);
        let path = format!("{}/{id}{tail}{mark}{}", requests(&self.queue), query.join("&"));
        let (body, wait) = (Bytes::new(), wait.unwrap_or_default());
        Call { method, path, body, kind: JSON, wait }
    }
}

impl Call {
    /// Submits an item.
    pub(crate) fn submit(queue: &QueueName, item: Bytes) -> Self {
        let (method, path) = (Method::POST, requests(queue));
        Self { method, path, body: item, kind: JSON, wait: Duration::ZERO }
    }

    /// Submits items, one a line.
    pub(crate) fn batch(queue: &QueueName, items: Bytes) -> Self {
        let (method, path) = (Method::POST, format!("/v1/queues/{queue}/batch"));
        Self { method, path, body: items, kind: LINES, wait: Duration::ZERO }
    }

    /// Lists requests, as a query of that route wants them.
    pub(crate) fn list(queue: &QueueName, query: &str) -> Self {
        let (path, wait) = (format!("{}?{query}", requests(queue)), Duration::ZERO);
        Self { method: Method::GET, path, body: Bytes::new(), kind: JSON, wait }
    }
}

fn requests(queue: &QueueName) -> String {
    format!("/v1/queues/{queue}/requests")
}

/// An id as one segment of a path: all but the unreserved characters in percent, so that whatever it is, the server is
/// asked for that and nothing else.
pub(crate) fn encoded(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    // These two alone would be taken out of a path on the way.
    let is_dots = matches!(id, "." | "..");
    let mut path = String::with_capacity(id.len());
    for byte in id.bytes() {
        if plain(byte) && !is_dots {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_of_the_path_whatever_stands_in_it() {
        for (id, path) in [
            ("a:b", "a%3Ab"),
            ("a+b", "a%2Bb"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("x?wait=1#y", "x%3Fwait%3D1%23y"),
            ("..", "%2E%2E"),
            ("a.b-c_d~e", "a.b-c_d~e"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(encoded(id), path);
        }
    }

    #[test]
    fn a_call_names_queue_id_wait_and_generation() {
        let queue = QueueName::try_from("q").unwrap();
        let generation = Generation::from([0xab; 8]);
        let target = Target::new(&queue, "a:b", Some(generation));
        let call = target.result(Duration::from_secs(30));
        assert_eq!(
            call.path,
            "/v1/queues/q/requests/a%3Ab/result?wait=30&generation=abababababababab"
        );
        assert_eq!(Target::new(&queue, "x", None).cancel().path, "/v1/queues/q/requests/x");
    }
}
