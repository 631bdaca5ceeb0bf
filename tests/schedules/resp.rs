//! Commands and answers as they stand on a connection.

use holdfast_model::value::Value;

/// A command: its name and arguments.
pub(crate) type Words = Vec<Vec<u8>>;

/// Bytes that came, and are not yet a whole command.
#[derive(Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole command.
    pub(crate) fn next(&mut self) -> Option<Words> {
        let (words, length) = whole(&self.bytes)?;
        self.bytes.drain(..length);
        Some(words)
    }
}

/// A command at the start of `bytes`, and how long it is.
fn whole(bytes: &[u8]) -> Option<(Words, usize)> {
    let (count, mut at) = number(bytes, 0, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = number(bytes, at, b'$')?;
        words.push(bytes.get(start..start + length)?.to_vec());
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// The number behind `kind`, and where its line ends.
fn number(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], kind, "not a command: {}", rest[..end].escape_ascii());
    let digits = std::str::from_utf8(&rest[1..end]).expect("digits");
    Some((digits.parse().expect("a number"), at + end + 2))
}

/// An answer as the older protocol has it, which the client speaks.
pub(crate) fn encode(value: &Value, to: &mut Vec<u8>) {
    let all = |kind: char, values: &[Value], to: &mut Vec<u8>| {
        to.extend(format!("{kind}{}\r\n", values.len()).bytes());
        values.iter().for_each(|value| encode(value, to));
    };
    match value {
        Value::Nil => to.extend(b"$-1\r\n"),
        Value::Number(number) => to.extend(format!(":{number}\r\n").bytes()),
        Value::Status(text) => to.extend(format!("+{text}\r\n").bytes()),
        Value::Error(text) => to.extend(format!("-{text}\r\n").bytes()),
        Value::Bytes(bytes) => {
            to.extend(format!("${}\r\n", bytes.len()).bytes());
            to.extend_from_slice(bytes);
            to.extend(b"\r\n");
        }
        Value::Array(values) | Value::Push(values) => all('*', values, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_whole_when_its_last_byte_has_come() {
        let bytes = b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*1\r\n$4\r\nPING\r\n";
        let (mut decoder, mut heard) = (Decoder::default(), Vec::new());
        for byte in bytes {
            decoder.feed(&[*byte]);
            heard.extend(decoder.next());
        }
        assert_eq!(heard, [vec![b"ECHO".to_vec(), b"a\r\n".to_vec()], vec![b"PING".to_vec()]]);
    }
}
