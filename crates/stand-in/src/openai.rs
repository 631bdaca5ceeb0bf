//! Answers in OpenAI's form.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tracing::warn;

use crate::arrival::sha256_hex;
use crate::prompt::{self, Asked, NotAnObject};
use shapes::{
    Choice, Completion, Embedding, EmbeddingUsage, Embeddings, ErrorBody, ErrorObject, Facts, List,
    Message, Model, Usage,
};

mod shapes;

/// The model a stand-in says it is, where the request names none.
const MODEL: &str = "stand-in";
const JSON: &str = "application/json";
/// Room for a usual answer.
const USUAL: usize = 512;
const SSE: &str = "text/event-stream";

/// An answer that was made, but not yet given.
pub(crate) struct Made {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) whole: Bytes,
    /// Where pieces end that are to be sent one by one; empty: all at once.
    pub(crate) ends: Vec<usize>,
}

/// What is answered, to which arrival.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) arrival: u64,
    /// Unix time in seconds.
    pub(crate) created: u64,
}

impl Made {
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        let mut whole = Vec::with_capacity(USUAL);
        // Writing our own structs to memory can't fail; if it ever did, half an object would show it.
        if serde_json::to_writer(&mut whole, value).is_err() {
            warn!("an answer could not be written");
        }
        Self::bytes(status, whole.into())
    }

    pub(crate) fn bytes(status: StatusCode, whole: Bytes) -> Self {
        Self { status, content_type: JSON, whole, ends: Vec::new() }
    }

    /// OpenAI's error object.
    pub(crate) fn error(status: StatusCode, message: &str, code: Option<&str>) -> Self {
        let kind = match status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        Self::json(status, &ErrorBody { error: ErrorObject { message, kind, param: None, code } })
    }
}

/// Answers a request.
pub(crate) fn answer(question: &Question<'_>) -> Made {
    let posts = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];
    match (question.method, question.path) {
        (&Method::GET, "/v1/models") => {
            Made::json(StatusCode::OK, &List { object: "list", data: [model(MODEL, question)] })
        }
        (&Method::GET, path) if path.starts_with("/v1/models/") => {
            let name = path.trim_start_matches("/v1/models/");
            Made::json(StatusCode::OK, &model(name, question))
        }
        (&Method::POST, path) if posts.contains(&path) => match prompt::read(question.body) {
            Ok(asked) => infer(question, &asked),
            Err(NotAnObject) => Made::error(
                StatusCode::BAD_REQUEST,
                "the body is no JSON object",
                Some("invalid_json"),
            ),
        },
        (_, path) if path == "/v1/models" || posts.contains(&path) => {
            Made::error(StatusCode::METHOD_NOT_ALLOWED, "this method is not for this URL", None)
        }
        _ => Made::error(StatusCode::NOT_FOUND, "no such URL", Some("unknown_url")),
    }
}

fn infer(question: &Question<'_>, asked: &Asked) -> Made {
    let digest = sha256_hex(question.body);
    let text = format!("arrival {}, sha256 {digest}: {}", question.arrival, asked.echo);
    let chat = question.path == "/v1/chat/completions";
    let reply = Reply { question, asked, digest: &digest, text: &text, chat };
    match question.path {
        "/v1/embeddings" => reply.embeddings(),
        _ if asked.stream => reply.stream(),
        _ => reply.whole(),
    }
}

/// All that the forms of an answer are filled from.
struct Reply<'a> {
    question: &'a Question<'a>,
    asked: &'a Asked,
    digest: &'a str,
    text: &'a str,
    chat: bool,
}

impl Reply<'_> {
    fn whole(&self) -> Made {
        let content = Some(self.text);
        let choice = if self.chat {
            let message = Message { role: Some("assistant"), content, refusal: None };
            Choice { message: Some(message), ..Choice::default() }
        } else {
            Choice { text: content, ..Choice::default() }
        };
        let object = if self.chat { "chat.completion" } else { "text_completion" };
        let choice = Choice { finish_reason: Some("stop"), ..choice };
        Made::json(StatusCode::OK, &self.completion(object, choice, Some(self.usage())))
    }

    fn stream(&self) -> Made {
        let mut whole = Vec::new();
        let mut ends = Vec::new();
        let object = if self.chat { "chat.completion.chunk" } else { "text_completion" };
        let pieces = self.text.split_inclusive(' ').map(Some).chain([None]);
        for (at, piece) in pieces.enumerate() {
            let role = (at == 0).then_some("assistant");
            let finish_reason = piece.is_none().then_some("stop");
            let choice = if self.chat {
                let delta = Message { role, content: piece, refusal: None };
                Choice { delta: Some(delta), finish_reason, ..Choice::default() }
            } else {
                Choice { text: Some(piece.unwrap_or_default()), finish_reason, ..Choice::default() }
            };
            let usage = piece.is_none().then(|| self.usage());
            let event = Made::json(StatusCode::OK, &self.completion(object, choice, usage)).whole;
            whole.extend_from_slice(b"data: ");
            whole.extend_from_slice(&event);
            whole.extend_from_slice(b"\n\n");
            ends.push(whole.len());
        }
        whole.extend_from_slice(b"data: [DONE]\n\n");
        ends.push(whole.len());
        Made { status: StatusCode::OK, content_type: SSE, whole: whole.into(), ends }
    }

    fn completion<'a>(
        &'a self,
        object: &'a str,
        choice: Choice<'a>,
        usage: Option<Usage>,
    ) -> Completion<'a> {
        let prefix = if self.chat { "chatcmpl" } else { "cmpl" };
        Completion {
            id: format!("{prefix}-{}-{}", self.question.arrival, &self.digest[..16]),
            object,
            created: self.question.created,
            model: self.model(),
            choices: [choice],
            usage,
            stand_in: self.facts(),
        }
    }

    fn embeddings(&self) -> Made {
        let vector = |input: &String| {
            let digest = Sha256::digest(input);
            digest.iter().take(8).map(|byte| f32::from(*byte) / 256.0).collect()
        };
        let inputs = self.asked.inputs.iter().enumerate();
        let data = inputs.map(|(index, input)| Embedding {
            object: "embedding",
            index,
            embedding: vector(input),
        });
        let Usage { prompt_tokens, .. } = self.usage();
        let embeddings = Embeddings {
            list: List { object: "list", data: data.collect::<Vec<_>>() },
            model: self.model(),
            usage: EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens },
            stand_in: self.facts(),
        };
        Made::json(StatusCode::OK, &embeddings)
    }

    fn model(&self) -> &str {
        self.asked.model.as_deref().unwrap_or(MODEL)
    }

    fn facts(&self) -> Facts<'_> {
        Facts { arrival: self.question.arrival, body_sha256: self.digest }
    }

    /// A token is four bytes, give or take.
    fn usage(&self) -> Usage {
        let prompt_tokens = self.question.body.len().div_ceil(4);
        let completion_tokens = self.text.len().div_ceil(4);
        Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
    }
}

fn model<'a>(id: &'a str, question: &Question<'_>) -> Model<'a> {
    Model { id, object: "model", created: question.created, owned_by: "holdfast" }
}
