//! Bytes in a script: text as it is, anything else in base64.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes of an answer. As JSON: `"text"`, or `{"base64": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Payload(pub Bytes);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Binary { base64: String },
}

/// The base64 of a payload is none.
#[derive(Debug, thiserror::Error)]
#[error("base64 must be standard base64 with padding")]
struct NotBase64;

impl TryFrom<Written> for Payload {
    type Error = NotBase64;

    fn try_from(written: Written) -> Result<Self, NotBase64> {
        match written {
            Written::Text(text) => Ok(Self(text.into())),
            Written::Binary { base64 } => {
                STANDARD.decode(base64).map(|bytes| Self(bytes.into())).map_err(|_| NotBase64)
            }
        }
    }
}

impl From<Payload> for Written {
    fn from(payload: Payload) -> Self {
        match std::str::from_utf8(&payload.0) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: STANDARD.encode(&payload.0) },
        }
    }
}

impl From<&'static str> for Payload {
    fn from(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}
