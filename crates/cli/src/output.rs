//! Standard output: one writer, so that no write can fail unseen.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Standard output.
pub(crate) struct Output {
    place: BufWriter<Box<dyn Write + Send>>,
    /// Whether a person reads it.
    for_eyes: bool,
}

impl Output {
    /// The process's own.
    pub(crate) fn stdout() -> Self {
        Self { for_eyes: io::stdout().is_terminal(), ..Self::to(io::stdout()) }
    }

    /// Another place, for tests.
    pub(crate) fn to(place: impl Write + Send + 'static) -> Self {
        Self { place: BufWriter::new(Box::new(place)), for_eyes: false }
    }

    /// Prints a text of our own, as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.place.write_all(bytes).map_err(failed)
    }

    /// Prints a body as it is. On a terminal it ends its line, so that what is told next to it begins one of its own.
    pub(crate) fn body(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bytes(bytes)?;
        if self.for_eyes && !bytes.is_empty() && !bytes.ends_with(b"\n") {
            self.text("\n")?;
        }
        Ok(())
    }

    /// Prints a value as JSON for people and programs, with a line end behind it.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let written = serde_json::to_writer_pretty(&mut self.place, value);
        written.map_err(|err| failed(err.into()))?;
        self.text("\n")
    }

    /// Prints JSON that came as text, as it came, with a line end behind it.
    pub(crate) fn json_line(&mut self, json: &[u8]) -> Result<(), Failure> {
        self.bytes(json.trim_ascii_end())?;
        self.text("\n")
    }

    /// Hands over what is held back; called once more at the very end.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.place.flush().map_err(failed)
    }
}

fn failed(err: io::Error) -> Failure {
    Failure::of_write("standard output", &err)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Fails each write in one way.
    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ended_by(kind: io::ErrorKind) -> Failure {
        let mut output = Output::to(Broken(kind));
        output.text("held back, so it does not fail yet").unwrap();
        output.finish().unwrap_err()
    }

    #[test]
    fn what_is_held_back_fails_at_the_end_at_the_latest() {
        let full = ended_by(io::ErrorKind::StorageFull);
        assert_eq!(
            (full.code(), full.to_string().as_str()),
            (1, "can't write to standard output: no storage space")
        );
    }

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_body_ends_its_line_on_a_terminal_and_is_left_as_it_is_elsewhere() {
        for (for_eyes, body, printed) in [
            (true, "{}", "{}\n"),
            (true, "{}\n", "{}\n"),
            (true, "", ""),
            (false, "{}", "{}"),
            (false, "", ""),
        ] {
            let kept = Kept::default();
            let mut output = Output { for_eyes, ..Output::to(kept.clone()) };
            output.body(body.as_bytes()).unwrap();
            output.finish().unwrap();
            assert_eq!(*kept.0.lock().unwrap(), printed.as_bytes(), "{body:?}");
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error_to_speak_of() {
        let closed = ended_by(io::ErrorKind::BrokenPipe);
        assert!(matches!(closed, Failure::Closed));
        assert_eq!(closed.code(), 141);
    }
}
