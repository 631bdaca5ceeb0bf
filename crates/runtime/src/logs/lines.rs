//! Lines on their way to standard output, by a thread of their own: whoever stops reading them stops nobody else.
//!
//! What finds no place is dropped and counted, and the count is told once somebody reads again. What operators did is
//! never dropped: there is little of it, and somebody will ask.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Metadata, warn};
use tracing_subscriber::fmt::MakeWriter;

/// How many bytes wait at most.
const ROOM: usize = 4 << 20;

/// Lines that wait to be written. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something came, or something is done.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    /// Whether one is being written.
    writing: bool,
}

impl Lines {
    /// Starts the thread that writes them.
    pub(super) fn to(place: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Self::default();
        let written = lines.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || written.write_all(place))?;
        Ok(lines)
    }

    fn write_all(&self, mut place: impl Write) {
        loop {
            let (line, dropped) = self.next();
            // If nobody can read them, there is nobody to tell.
            let _ = place.write_all(&line).and_then(|()| place.flush());
            self.lock().writing = false;
            self.0.changed.notify_all();
            if dropped > 0 {
                warn!(dropped, "log lines were dropped: nobody read them");
            }
        }
    }

    /// Waits for a line; gives it, and how many were dropped before.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut queue = self.lock();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.writing = true;
                return (line, std::mem::take(&mut queue.dropped));
            }
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn push(&self, line: Vec<u8>, must_stay: bool) {
        let mut queue = self.lock();
        if !must_stay && queue.bytes + line.len() > ROOM {
            queue.dropped += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until all is written, at most so long.
    pub(super) fn flush(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut queue = self.lock();
        while queue.writing || !queue.lines.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Plain values: whole whatever panicked.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line as it is put together.
pub(super) struct Line<'a> {
    lines: &'a Lines,
    bytes: Vec<u8>,
    must_stay: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.lines.push(std::mem::take(&mut self.bytes), self.must_stay);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, bytes: Vec::new(), must_stay: false }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line { lines: self, bytes: Vec::new(), must_stay: super::is_audit(event) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what is written only while its door is open, and keeps it.
    #[derive(Clone, Default)]
    struct Door(Arc<Behind>);

    #[derive(Default)]
    struct Behind {
        kept: Mutex<Kept>,
        opened: Condvar,
    }

    #[derive(Default)]
    struct Kept {
        is_open: bool,
        bytes: Vec<u8>,
    }

    impl Door {
        fn open(&self) {
            self.0.kept.lock().unwrap().is_open = true;
            self.0.opened.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.kept.lock().unwrap().bytes.clone()).unwrap()
        }
    }

    impl Write for Door {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let kept = self.0.kept.lock().unwrap();
            let mut kept = self.0.opened.wait_while(kept, |kept| !kept.is_open).unwrap();
            kept.bytes.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_does_not_read_holds_up_nobody_and_loses_all_but_what_must_stay() {
        let door = Door::default();
        let lines = Lines::to(door.clone()).unwrap();
        lines.push(b"first\n".to_vec(), false);
        while !lines.lock().writing {
            thread::yield_now();
        }
        for _ in 0..100 {
            lines.push(vec![b'x'; ROOM / 50], false);
        }
        lines.push(b"audit\n".to_vec(), true);
        let begun = Instant::now();
        lines.flush(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(10), "the end is not held up either");
        let dropped = lines.lock().dropped;
        assert_eq!(dropped, 50);

        door.open();
        lines.flush(Duration::from_secs(20));
        assert!(door.text().ends_with("audit\n"));
        assert_eq!(lines.lock().dropped, 0, "it was told");
    }
}
