//! The wire protocol of Redis, as the finder of a local server reads it.

use holdfast_local_redis::resp::{self, Value};

use crate::draws::Draws;

/// Frames, and what comes of them in parts.
pub(super) fn resp(bytes: &[u8]) {
    let whole = resp::parse(bytes);
    if let Ok(Some((value, used))) = &whole {
        assert!((1..=bytes.len()).contains(used));
        assert_eq!(resp::parse(&bytes[..*used]), Ok(Some((value.clone(), *used))));
        for end in (0..*used).take(200) {
            assert_eq!(resp::parse(&bytes[..end]), Ok(None), "not whole yet");
        }
    }
    let mut draws = Draws::new(bytes);
    let mut words = Vec::new();
    while !draws.is_empty() {
        words.push(draws.piece());
    }
    let frame = resp::encode(&words);
    let values = words.iter().map(|word| Value::from(*word)).collect();
    assert_eq!(resp::parse(&frame), Ok(Some((Value::Array(values), frame.len()))));
}
