//! The objects that OpenAI's API answers with, as far as a stand-in fills them.

use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: String,
    pub(super) object: &'a str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [Choice<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    pub(super) stand_in: Facts<'a>,
}

/// A choice of any of the three forms: message, delta or text.
#[derive(Default, Serialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    pub(super) logprobs: Option<()>,
    pub(super) finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    pub(super) refusal: Option<()>,
}

/// What a reader of many answers looks for, beside OpenAI's fields.
#[derive(Serialize)]
pub(super) struct Facts<'a> {
    pub(super) arrival: u64,
    pub(super) body_sha256: &'a str,
}

#[derive(Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) completion_tokens: usize,
    pub(super) total_tokens: usize,
}

#[derive(Serialize)]
pub(super) struct List<D> {
    pub(super) object: &'static str,
    pub(super) data: D,
}

#[derive(Serialize)]
pub(super) struct Model<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) owned_by: &'static str,
}

#[derive(Serialize)]
pub(super) struct Embedding {
    pub(super) object: &'static str,
    pub(super) index: usize,
    pub(super) embedding: Vec<f32>,
}

#[derive(Serialize)]
pub(super) struct Embeddings<'a> {
    #[serde(flatten)]
    pub(super) list: List<Vec<Embedding>>,
    pub(super) model: &'a str,
    pub(super) usage: EmbeddingUsage,
    pub(super) stand_in: Facts<'a>,
}

#[derive(Serialize)]
pub(super) struct EmbeddingUsage {
    pub(super) prompt_tokens: usize,
    pub(super) total_tokens: usize,
}

#[derive(Serialize)]
pub(super) struct ErrorBody<'a> {
    pub(super) error: ErrorObject<'a>,
}

#[derive(Serialize)]
pub(super) struct ErrorObject<'a> {
    pub(super) message: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) param: Option<()>,
    pub(super) code: Option<&'a str>,
}
