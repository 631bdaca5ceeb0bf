//! The targets, by whose readers they hold.

mod asked;
mod gateway;
mod kept;
mod replies;
mod rules;
mod stored;
mod submitted;
mod tool;
mod wire;

use crate::Target;
pub(crate) use replies::truths;

/// Every target, in the order of its name.
pub const TARGETS: &[Target] = &[
    target("address", asked::address, &["/v1/queues/q/requests/", "%2F", "%252e", "?", "#", "//"]),
    target("answer", gateway::answer, ANSWER),
    target("batch", submitted::batch, &["[", "]", "[1,2]", "{\"id\":\"a\"}", "\r\n\r\n", " "]),
    target("batch-line", tool::batch_line, LINE),
    target(
        "content-type",
        asked::content_type,
        &["application/json", "; charset=", "utf-8", "x-ndjson"],
    ),
    target("cursor", asked::cursor, &["\u{1}", "AQAA"]),
    target("depth", submitted::depth, &["[", "]", "{\"a\":", "}", "\"[\""]),
    target("embedded", tool::embedded, &["{\"a\":", "\"\\n\"", "}", "1e400", "\r\n"]),
    target("id", asked::id, &[".", "..", "/", "%2F", "~:@+=-"]),
    target("idempotency-key", asked::idempotency_key, &["in-body", "\"in-body\"", "\"", " "]),
    target("item", submitted::item, ITEM),
    target("keys", kept::keys, KEYS),
    target("lines", tool::lines, &["\r", "\n", "\u{feff}", "\u{2028}", "\u{b}"]),
    target("members", stored::members, &["|", "0123456789abcdef"]),
    target("names", stored::names, &["0123456789abcdef", "a.b_c-d", "\u{e9}"]),
    target("outcomes", tool::outcomes, OUTCOMES),
    target("prefer", asked::prefer, &["wait=", "wait=\"5\"", ";", ",", "respond-async"]),
    target("query", asked::query, &["wait=", "generation=", "limit=", "0123456789abcdef", "&"]),
    target("record", stored::record, &["\0\u{c}content-type", "\0\u{1}t\0\u{1}i\0\0"]),
    target("refusal", tool::refusal, &["{\"type\":\"/problems/x\"", ",\"detail\":", "}"]),
    target("replies", replies::replies, &[]),
    target(
        "request",
        stored::request,
        &["\0\u{1}t\0\u{1}i\0\0", "{\"path\":\"/\"}", "\"headers\":[[\"a\",\"b\"]]"],
    ),
    target("resp", wire::resp, &["*", "$", ":", "+", "-", "$-1\r\n", "*1\r\n", "\r\n"]),
    target("retry-after", gateway::retry_after, &["Wed, 29 Nov 2034 09:59:56 GMT", ", ", "1.5"]),
    target("settings", kept::settings, SETTINGS),
    target("shown", tool::shown, &["://", "@", "user:S3CRET@", "\u{1b}[31m", "\u{202e}", "'"]),
    target("ticket", stored::ticket, &["\0\u{1}t\0\u{1}i\0\0", "a", "b", "r", "t"]),
    target("traceparent", asked::traceparent, TRACE),
];

const fn target(name: &'static str, run: fn(&[u8]), words: &'static [&'static str]) -> Target {
    Target { name, run, words }
}

const ANSWER: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "HTTP/1.0 ",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Content-Encoding: gzip\r\n",
    "Content-Type: ",
    "Retry-After: ",
    "Location: ",
    "\r\n\r\n",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "\u{1f}\u{8b}",
];

const ITEM: &[&str] = &[
    "\"id\":",
    "\"deadline\":",
    "\"timeout\":\"90s\"",
    "\"not_before\":",
    "\"path\":\"/v1/embeddings\"",
    "\"headers\":{\"x-priority\":\"1\"}",
    "\"metadata\":{}",
    "\"payload\":",
    "1800000600",
    "{",
    "}",
];

const KEYS: &[&str] = &[
    "tenant=",
    "scopes=",
    "submit,read",
    "expires=",
    "name=",
    "sha256=",
    "hfk_",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "#",
];

const LINE: &[&str] = &[
    "\"custom_id\":\"a\"",
    "\"method\":\"POST\"",
    "\"url\":\"/v1/chat/completions\"",
    "\"body\":",
    "{",
    "}",
    "\\u0041",
];

const OUTCOMES: &[&str] = &[
    "{\"index\":0,\"status\":202}\n",
    "\"unread\":true",
    "\"retry_after\":3",
    "\"problem\":{\"type\":\"/problems/x\"}",
    "}\n",
];

const SETTINGS: &[&str] = &[
    "[redis]\n",
    "[producer]\n",
    "[worker]\n",
    "[reclaimer]\n",
    "[log]\n",
    "[traces]\n",
    "[tenants.a]\n",
    "[queues.b]\n",
    "url = ",
    "target = ",
    "lease = ",
    "15s",
    "8MiB",
    "true",
    "WORKER_LEASE=6s",
    "redis://u:S3CRET@h",
    "'''",
];

const TRACE: &[&str] = &[
    "00-",
    "ff-",
    "00000000000000000000000000000000",
    "0000000000000000",
    "0af7651916cd43dd8448eb211c80319c",
    "-b7ad6b7169203331-01",
];
