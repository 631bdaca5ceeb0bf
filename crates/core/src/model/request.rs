//! What was submitted: immutable, written once, read by whoever dispatches it.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::{Identity, Undecodable, wire::Reader};

const VERSION: u8 = 1;

/// What a caller asked for beside the body. Fields that a newer version added are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// Path at the target, if not the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers to pass on, as name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The caller's own notes, kept as long as the body: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// `X-Request-Id` of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// W3C `traceparent` of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// A value of the `request` hash: version ‖ u16 length of the names ‖ names ‖ u32 length ‖ envelope ‖ body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose it is.
    pub identity: Identity,
    /// What limits are counted by; empty: the tenant.
    pub lane: String,
    /// What was asked for beside the body.
    pub envelope: Envelope,
    /// The bytes for the gateway, exactly as submitted.
    pub body: Bytes,
}

impl Request {
    /// Packs it.
    pub fn pack(&self) -> Result<Bytes, Undecodable> {
        let envelope = if self.envelope == Envelope::default() {
            Vec::new()
        } else {
            serde_json::to_vec(&self.envelope).map_err(|_| Undecodable { what: "envelope" })?
        };
        let mut names = Vec::new();
        self.identity.pack(&self.lane, &mut names);
        let mut packed =
            BytesMut::with_capacity(7 + names.len() + envelope.len() + self.body.len());
        packed.put_u8(VERSION);
        packed.put_u16(names.len() as u16);
        packed.put_slice(&names);
        packed
            .put_u32(u32::try_from(envelope.len()).map_err(|_| Undecodable { what: "envelope" })?);
        packed.put_slice(&envelope);
        packed.put_slice(&self.body);
        Ok(packed.freeze())
    }

    /// Reads it; the body is a slice of `packed`.
    pub fn unpack(packed: Bytes) -> Result<Self, Undecodable> {
        let mut reader = Reader::new("request", packed);
        if reader.u8()? != VERSION {
            return Err(reader.broken());
        }
        let (identity, lane) = Identity::unpack(reader.short()?)?;
        let envelope = reader.long()?;
        let envelope = if envelope.is_empty() {
            Envelope::default()
        } else {
            serde_json::from_slice(&envelope).map_err(|_| Undecodable { what: "envelope" })?
        };
        Ok(Self { identity, lane, envelope, body: reader.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        Request {
            identity,
            lane: String::new(),
            envelope: Envelope::default(),
            body: Bytes::from_static(b"{\"n\": 1.0}\0\xff"),
        }
    }

    #[test]
    fn a_body_comes_back_byte_for_byte() {
        let mut request = request();
        assert_eq!(Request::unpack(request.pack().unwrap()).unwrap(), request);
        request.envelope.metadata = Some("{\"a\": [1.0]}".to_owned());
        assert_eq!(Request::unpack(request.pack().unwrap()).unwrap(), request);
    }

    #[test]
    fn cut_or_foreign_bytes_are_refused() {
        let packed = request().pack().unwrap();
        for end in 0..13 {
            assert!(Request::unpack(packed.slice(..end)).is_err(), "{end}");
        }
        assert!(Request::unpack(Bytes::from_static(b"\x02\0\0")).is_err());
    }
}
