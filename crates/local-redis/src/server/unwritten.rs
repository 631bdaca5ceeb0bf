//! What a server has answered for and not written.
//!
//! With another `appendfsync` than `always` it answers first. Told to shut down, it tries once more to write, and ends
//! whether that worked or not: whoever ends it has to look before.

use super::{ANSWER_LIMIT, PrivateServer};
use crate::resp::{Link, Value};

/// How far the append-only file is behind what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritten {
    /// The last write or flush failed: what came since is only in memory, and shutting down loses it.
    Failed,
    /// There is something still to be written, and nothing has failed.
    Waiting,
    /// It runs and does not say: it may hang on its disk, with anything still to be written.
    Untold,
}

impl PrivateServer {
    /// What it has answered for and not written to its append-only file; none if all of it is written, and also if it keeps
    /// no such file or has ended.
    pub fn unwritten(&mut self) -> Option<Unwritten> {
        if !self.is_running() {
            return None;
        }
        let told = Link::open(self.port, ANSWER_LIMIT)
            .and_then(|mut link| link.call(&["INFO", "persistence"]));
        match told {
            Ok(Value::Bytes(info)) => read(&String::from_utf8_lossy(&info)),
            _ => Some(Unwritten::Untold),
        }
    }
}

fn read(info: &str) -> Option<Unwritten> {
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        lines.find_map(|(field, value)| (field == name).then_some(value))
    };
    if field("aof_enabled") != Some("1") {
        None
    } else if field("aof_last_write_status") == Some("err") {
        Some(Unwritten::Failed)
    } else {
        field("aof_buffer_length").is_some_and(|bytes| bytes != "0").then_some(Unwritten::Waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_before_what_waits_and_nothing_without_a_file() {
        let told = |enabled, status, bytes| {
            read(&format!(
                "# Persistence\r\naof_enabled:{enabled}\r\naof_last_write_status:{status}\r\n\
                aof_buffer_length:{bytes}\r\n"
            ))
        };
        assert_eq!(told(1, "ok", 0), None);
        assert_eq!(told(1, "ok", 7), Some(Unwritten::Waiting));
        assert_eq!(told(1, "err", 7), Some(Unwritten::Failed));
        assert_eq!(told(1, "err", 0), Some(Unwritten::Failed), "a flush may fail as well");
        assert_eq!(told(0, "err", 7), None);
        assert_eq!(read(""), None);
    }
}
