//! Reading packed values: big-endian numbers and length-prefixed bytes, never past the end.

use bytes::Bytes;

use super::Undecodable;

/// A cursor over a packed value.
pub(super) struct Reader {
    rest: Bytes,
    what: &'static str,
}

impl Reader {
    pub(super) fn new(what: &'static str, bytes: Bytes) -> Self {
        Self { rest: bytes, what }
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<Bytes, Undecodable> {
        if self.rest.len() < length {
            return Err(self.broken());
        }
        Ok(self.rest.split_to(length))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let broken = self.broken();
        self.bytes(N)?.as_ref().try_into().map_err(|_| broken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Undecodable> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Undecodable> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Undecodable> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Undecodable> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind a length of 16 bits.
    pub(super) fn short(&mut self) -> Result<Bytes, Undecodable> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    /// Bytes behind a length of 32 bits.
    pub(super) fn long(&mut self) -> Result<Bytes, Undecodable> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).map_err(|_| self.broken())?)
    }

    pub(super) fn rest(self) -> Bytes {
        self.rest
    }

    pub(super) fn broken(&self) -> Undecodable {
        Undecodable { what: self.what }
    }
}
