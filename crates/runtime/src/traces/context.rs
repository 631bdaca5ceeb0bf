//! Where a span stands: the context that `traceparent` carries, and the names of attempts.

use std::fmt;

use holdfast_core::model::Handle;
use sha2::{Digest, Sha256};

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The flags that are passed on: recorded, and made of random bits.
const KNOWN: u8 = 0b11;

/// A span's place in its trace, as W3C's `traceparent` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// Never 0.
    pub(super) trace: u128,
    /// Never 0.
    pub(super) span: u64,
    flags: u8,
}

impl Context {
    /// The first span of a new trace.
    pub(super) fn new() -> Self {
        Self { trace: rand::random::<u128>().max(1), span: fresh(), flags: SAMPLED }
    }

    /// Reads a `traceparent`; none if it is not one, or one that nobody may go on from.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return None };
        let widths = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
        let fits = |(part, width): &(&str, usize)| part.len() == *width && part.bytes().all(hex);
        if version == "ff" || !widths.iter().all(fits) {
            return None;
        }
        let context = Self {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            flags: u8::from_str_radix(flags, 16).ok()? & KNOWN,
        };
        (context.trace != 0 && context.span != 0).then_some(context)
    }

    /// Whether whoever began the trace has it recorded.
    pub(super) fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// A new span of the same trace.
    pub(super) fn child(self) -> Self {
        Self { span: fresh(), ..self }
    }

    /// The span of an attempt under this one. Whoever knows the request knows its name: also when
    /// the worker that made the attempt is dead.
    pub(super) fn attempt(self, handle: &Handle, number: u32) -> Self {
        let digest = Sha256::new()
            .chain_update(self.trace.to_be_bytes())
            .chain_update(self.span.to_be_bytes())
            .chain_update(handle.as_bytes())
            .chain_update(number.to_be_bytes())
            .finalize();
        let first = digest.iter().take(8).fold(0, |span: u64, byte| span << 8 | u64::from(*byte));
        Self { span: first.max(1), ..self }
    }

    /// The flags as OTLP has them, which also say whether the parent lies in another process.
    pub(super) fn flags(self, parent_is_remote: bool) -> u32 {
        const IS_KNOWN: u32 = 0x100;
        const IS_REMOTE: u32 = 0x200;
        u32::from(self.flags) | IS_KNOWN | if parent_is_remote { IS_REMOTE } else { 0 }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

fn fresh() -> u64 {
    rand::random::<u64>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn handle(last: u8) -> Handle {
        let mut bytes = [7; 32];
        bytes[31] = last;
        Handle::from(bytes)
    }

    #[test]
    fn what_was_read_is_written_the_same() {
        assert_eq!(Context::parse(GIVEN).unwrap().to_string(), GIVEN);
        let new = Context::new();
        assert_eq!(Context::parse(&new.to_string()), Some(new));
        assert!(new.is_sampled());
    }

    #[test]
    fn what_is_no_context_is_not_gone_on_from() {
        for text in [
            "",
            "00-a-b-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(Context::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_trace_that_nobody_records_is_known_as_one() {
        let unsampled = format!("{}00", &GIVEN[..GIVEN.len() - 2]);
        assert!(!Context::parse(&unsampled).unwrap().is_sampled());
    }

    #[test]
    fn a_child_stays_in_its_trace_and_has_a_name_of_its_own() {
        let parent = Context::parse(GIVEN).unwrap();
        let (one, other) = (parent.child(), parent.child());
        assert_eq!((one.trace, other.trace), (parent.trace, parent.trace));
        assert!(one.span != other.span && one.span != parent.span);
    }

    #[test]
    fn an_attempt_has_one_name_whoever_says_it_and_no_other_attempt_has_it() {
        let (one, other) = (Context::parse(GIVEN).unwrap(), Context::new());
        let named = |context: Context, last, number| context.attempt(&handle(last), number);
        assert_eq!(named(one, 1, 1), named(one, 1, 1));
        assert_eq!(named(one, 1, 1).trace, one.trace);
        let spans = [
            named(one, 1, 1).span,
            named(one, 1, 2).span,
            named(one, 2, 1).span,
            named(other, 1, 1).span,
            one.span,
        ];
        assert_eq!(spans.into_iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        // Another version may redeliver: it must find the same name.
        assert_eq!(format!("{:016x}", named(one, 1, 1).span), "fa56a682ac1f42b7");
    }
}
