//! Who runs which command: MONITOR, whose lines name a connection, and CLIENT LIST, which says whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use holdfast_testkit::{RedisServer, eventually};

use crate::stage::SOON;

/// The commands that each connection runs, from now on.
pub(crate) struct Monitor {
    said: Arc<Mutex<Vec<String>>>,
    /// Connections and their users, as far as they were seen.
    users: BTreeMap<String, String>,
}

/// A line of MONITOR: the connection, or none for a script of the one before, and the command.
#[derive(Debug, PartialEq, Eq)]
struct Spoken {
    from: Option<String>,
    command: String,
}

impl Monitor {
    /// Listens until Redis ends.
    pub(crate) fn start(redis: &RedisServer) -> Self {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).expect("Redis");
        stream.write_all(b"AUTH tester -\r\nMONITOR\r\n").expect("Redis");
        let said = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&said);
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                kept.lock().expect("lines").push(line);
            }
        });
        Self { said, users: BTreeMap::new() }
    }

    /// Notes whose the connections of this moment are.
    pub(crate) async fn look(&mut self, redis: &RedisServer) {
        let answer = redis.command(&["CLIENT", "LIST"]).await;
        for line in answer.text().expect("text").lines() {
            let field = |name: &str| line.split(' ').find_map(|it| it.strip_prefix(name));
            if let (Some(address), Some(user)) = (field("addr="), field("user=")) {
                self.users.insert(address.to_owned(), user.to_owned());
            }
        }
    }

    /// What each user has run so far; `late` is whose the connections are that nobody has seen.
    pub(crate) async fn used(
        &self,
        redis: &RedisServer,
        late: &str,
    ) -> BTreeMap<String, BTreeSet<String>> {
        // What was run before this is read when this is.
        let mark = format!("mark-{}", self.said.lock().expect("lines").len());
        redis.command(&["ECHO", &mark]).await;
        eventually("the monitor has caught up", SOON, async || {
            let lines = self.said.lock().expect("lines");
            if lines.iter().any(|line| line.contains(&mark)) { Ok(()) } else { Err("not yet") }
        })
        .await;
        let (mut used, mut last) = (BTreeMap::<String, BTreeSet<String>>::new(), late);
        for line in self.said.lock().expect("lines").iter() {
            let Some(Spoken { from, command }) = spoken(line) else { continue };
            if let Some(from) = from {
                last = self.users.get(&from).map_or(late, String::as_str);
            }
            used.entry(last.to_owned()).or_default().insert(command);
        }
        used
    }
}

/// `+1700000000.1 [0 127.0.0.1:5000] "hget" "key"`; from a script `[0 lua]`.
fn spoken(line: &str) -> Option<Spoken> {
    let (head, words) = line.strip_prefix('+')?.split_once("] \"")?;
    let from = head.rsplit_once(' ')?.1;
    let mut words = words.split('"').step_by(2);
    let command = words.next()?.to_lowercase();
    // Rights are given to these by what stands behind them.
    let command = match (command.as_str(), words.next()) {
        ("script" | "client", Some(word)) => format!("{command}|{}", word.to_lowercase()),
        _ => command,
    };
    Some(Spoken { from: (from != "lua").then(|| from.to_owned()), command })
}

#[test]
fn a_line_names_the_connection_or_a_script_of_the_one_before() {
    let told = |from: Option<&str>, command: &str| {
        Some(Spoken { from: from.map(str::to_owned), command: command.to_owned() })
    };
    assert_eq!(spoken("+OK"), None);
    assert_eq!(
        spoken(r#"+1.5 [0 127.0.0.1:5] "HGET" "] \"x" "y""#),
        told(Some("127.0.0.1:5"), "hget")
    );
    assert_eq!(spoken(r#"+1.5 [0 lua] "time""#), told(None, "time"));
    assert_eq!(
        spoken(r#"+1.5 [0 127.0.0.1:5] "SCRIPT" "LOAD" "return 1""#),
        told(Some("127.0.0.1:5"), "script|load")
    );
}
