//! The HTTP API, one call at a time: what to send, and what came back.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use holdfast_runtime::Environment;
use holdfast_runtime::settings::SecretFile;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::args::{ApiArgs, OPERATOR, SERVER};
use crate::call::Call;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::tls;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a call may take, beside what it asks to wait: a large body over a slow line is in it.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of answers in memory at once; a larger one travels alone.
const ANSWERS_AT_ONCE: u32 = 64 << 20;
/// What is taken for an answer that does not say its length.
const UNTOLD_LENGTH: u32 = 1 << 20;

/// No whole answer came.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Nobody was reached.
    #[error("can't connect to {server}: {why}; {hint}")]
    Connect {
        /// Who.
        server: String,
        /// What the system says.
        why: String,
        /// How to go elsewhere.
        hint: &'static str,
    },
    /// The connection ended before the answer did.
    #[error("{server} broke off before its answer was whole")]
    Cut {
        /// Who.
        server: String,
    },
    /// It takes too long.
    #[error("no whole answer from {server} within {limit:?}")]
    Late {
        /// Who.
        server: String,
        /// How long was waited.
        limit: Duration,
    },
}

/// What came of a call that is answered line by line.
pub(crate) enum Came {
    /// It is answered with something else, as a whole.
    Whole(Result<Reply, NoAnswer>),
    /// What came of the lines, and what holds for those that are missing: the answer broke off.
    Lines(Bytes, NoAnswer),
}

/// The flags that give an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// That of the API.
    Server,
    /// That of the operators' listener.
    Operator,
}

impl Flag {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "--server",
            Self::Operator => "--operator",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Server => SERVER,
            Self::Operator => OPERATOR,
        }
    }

    /// How to go elsewhere, where nobody is.
    fn elsewhere(self) -> &'static str {
        match self {
            Self::Server => "--server names another API",
            Self::Operator => {
                "--operator names another operators' listener, --redis or --config go straight to Redis"
            }
        }
    }
}

/// The API behind an address. Connections are kept.
pub(crate) struct Api {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
    /// Which flag gave the address.
    flag: Flag,
    authorization: Option<HeaderValue>,
    memory: Arc<Semaphore>,
}

impl Api {
    /// The API that the command line names.
    pub(crate) fn open(args: &ApiArgs) -> Result<Self, Failure> {
        Self::at((Flag::Server, &args.server.0), args.key_file.as_deref())
    }

    /// The one behind an address, which a flag of that name gave.
    pub(crate) fn at((flag, url): (Flag, &str), key_file: Option<&Path>) -> Result<Self, Failure> {
        let server = address(flag, url)?;
        let authorization = match key_file {
            Some(path) => Some(bearer(&SecretFile::new(path))),
            None => Environment::of_process()
                .callers_key()
                .map(|key| authorization(key.expose(), || "HOLDFAST_KEY".to_owned())),
        };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_LIMIT));
        let connector = tls::connector(connector, &server)?;
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        let memory = Arc::new(Semaphore::new(ANSWERS_AT_ONCE as usize));
        Ok(Self { client, server, flag, authorization: authorization.transpose()?, memory })
    }

    /// Sends a call once and reads its answer.
    pub(crate) async fn send(&self, call: &Call) -> Result<Reply, NoAnswer> {
        let limit = CALL_LIMIT + call.wait;
        match timeout(limit, self.exchange(call)).await {
            Ok(answered) => answered,
            Err(_) => Err(NoAnswer::Late { server: self.server.clone(), limit }),
        }
    }

    /// Sends a call that is answered with 207 and lines, once. Lines that came count, also if the answer breaks off.
    pub(crate) async fn send_for_lines(&self, call: &Call) -> Came {
        let late = || NoAnswer::Late { server: self.server.clone(), limit: CALL_LIMIT };
        let mut lines = None;
        match timeout(CALL_LIMIT, self.exchange_lines(call, &mut lines)).await {
            Ok(Ok(Some(reply))) => Came::Whole(Ok(reply)),
            Ok(Ok(None)) => Came::Lines(lines.unwrap_or_default().freeze(), self.cut()),
            Ok(Err(end)) => broken_off(lines, end),
            Err(_) => broken_off(lines, late()),
        }
    }

    /// Fills `lines` as they come; an answer that has none is given back.
    async fn exchange_lines(
        &self,
        call: &Call,
        lines: &mut Option<BytesMut>,
    ) -> Result<Option<Reply>, NoAnswer> {
        let answer = self.answer(call).await?;
        if answer.status() != StatusCode::MULTI_STATUS {
            return self.read(answer).await.map(Some);
        }
        let (lines, mut body) = (lines.insert(BytesMut::new()), answer.into_body());
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|_| self.cut())?.into_data() {
                lines.extend_from_slice(&data);
            }
        }
        Ok(None)
    }

    async fn exchange(&self, call: &Call) -> Result<Reply, NoAnswer> {
        let answer = self.answer(call).await?;
        self.read(answer).await
    }

    fn cut(&self) -> NoAnswer {
        NoAnswer::Cut { server: self.server.clone() }
    }

    /// The head of an answer, whose body is on its way.
    async fn answer(&self, call: &Call) -> Result<Response<Incoming>, NoAnswer> {
        let request = self.request(call).map_err(|_| self.cut())?;
        self.client.request(request).await.map_err(|err| {
            if !err.is_connect() {
                return self.cut();
            }
            let (server, hint) = (self.server.clone(), self.flag.elsewhere());
            NoAnswer::Connect { server, why: reason(&err), hint }
        })
    }

    async fn read(&self, answer: Response<Incoming>) -> Result<Reply, NoAnswer> {
        let cut = || self.cut();
        let (head, body) = answer.into_parts();
        let share = u32::try_from(length(&head.headers).unwrap_or(UNTOLD_LENGTH.into()));
        let share = share.unwrap_or(u32::MAX).min(ANSWERS_AT_ONCE);
        let share = Arc::clone(&self.memory).acquire_many_owned(share).await.map_err(|_| cut())?;
        let body = body.collect().await.map_err(|_| cut())?.to_bytes();
        Ok(Reply::new(head.status, head.headers, body, share))
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.server, call.path));
        if matches!(call.method, Method::POST | Method::PUT) {
            request = request.header(CONTENT_TYPE, call.kind);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.body(Full::new(call.body.clone()))
    }
}

fn broken_off(lines: Option<BytesMut>, end: NoAnswer) -> Came {
    match lines {
        Some(lines) => Came::Lines(lines.freeze(), end),
        None => Came::Whole(Err(end)),
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The system's word for a connection that was not made; what stands above it may name more than is needed.
fn reason(err: &(dyn Error + 'static)) -> String {
    let (mut at, mut told) = (Some(err), None);
    while let Some(err) = at {
        told = err.downcast_ref::<io::Error>().map(ToString::to_string).or(told);
        at = err.source();
    }
    told.unwrap_or_else(|| "no connection".to_owned())
}

/// Checks an address without repeating it: a password may stand in it.
fn address(flag: Flag, text: &str) -> Result<String, Failure> {
    let wrong = |rule: &str| Err(Failure::Usage(format!("holdfastctl: {} {rule}", flag.name())));
    let no_address = || wrong(&format!("must be an address like {}", flag.example()));
    let Ok(uri) = text.parse::<Uri>() else {
        return no_address();
    };
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            wrong("must not hold a user or a password: give a key with --key-file")
        }
        (Some(scheme @ ("http" | "https")), Some(authority)) if uri.query().is_none() => {
            Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
        }
        _ => no_address(),
    }
}

fn bearer(file: &SecretFile) -> Result<HeaderValue, Failure> {
    let place = || format!("--key-file {}", file.path().display());
    let key = file.read().map_err(|err| Failure::Input { place: place(), rule: err.rule() })?;
    authorization(key.expose(), place)
}

/// The header of a key that stands at `place`.
fn authorization(key: &str, place: impl Fn() -> String) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(format!("Bearer {key}"));
    let mut value = value.map_err(|_| Failure::Input {
        place: place(),
        rule: "must hold a key of visible characters".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_holds_nothing_secret() {
        let address = |text| super::address(Flag::Server, text);
        assert_eq!(address("http://h:1").unwrap(), "http://h:1");
        assert_eq!(address("http://h:1/base/").unwrap(), "http://h:1/base");
        assert_eq!(address("https://h").unwrap(), "https://h");
        for (text, told) in [
            ("http://u:S3CRET@h", "--key-file"),
            ("127.0.0.1:8080", "must be an address"),
            ("http://h?x=S3CRET", "must be an address"),
            ("http://h /", "must be an address"),
            ("", "must be an address"),
        ] {
            let failure = address(text).unwrap_err();
            assert_eq!(failure.code(), 2);
            let said = failure.to_string();
            assert!(said.contains(told) && !said.contains("S3CRET"), "{text}: {said}");
        }
        let said = super::address(Flag::Operator, "127.0.0.1:8081").unwrap_err().to_string();
        assert!(
            said.contains("--operator must be an address like http://127.0.0.1:8081"),
            "{said}"
        );
    }

    #[test]
    fn a_key_is_read_from_its_file_and_shown_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "S3CRET\n").unwrap();
        let value = bearer(&SecretFile::new(&path)).unwrap();
        assert_eq!(value.as_bytes(), b"Bearer S3CRET");
        assert!(!format!("{value:?}").contains("S3CRET"));
        assert!(bearer(&SecretFile::new(folder.path().join("none"))).is_err());
    }
}
