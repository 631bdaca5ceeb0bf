use std::fs;
use std::io::{Read, Write};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::*;
use crate::{Resolver, default_cache};

/// A real server, fetched if need be.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let search_path = std::env::var_os("PATH").unwrap();
        let resolver = Resolver { explicit: None, search_path, cache: default_cache().unwrap() };
        resolver.resolve(&mut |line| eprintln!("{line}")).unwrap().path
    })
}

fn options(dir: &TempDir) -> Options {
    Options::new(binary(), dir.path())
}

fn ask(server: &PrivateServer, words: &[&str]) -> Value {
    Link::open(server.port(), ANSWER_LIMIT).unwrap().call(words).unwrap()
}

fn freeze(pid: u32) {
    let freeze = format!("kill -STOP {pid}");
    assert!(
        std::process::Command::new("/bin/sh").args(["-c", &freeze]).status().unwrap().success()
    );
}

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn a_server_keeps_what_it_acknowledged_over_stop_and_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = PrivateServer::start(options(&dir)).unwrap();
    let (port, pid) = (server.port(), server.pid());
    assert_eq!(ask(&server, &["SET", "key", "value"]), Value::Simple("OK".into()));

    server.stop(LIMIT).unwrap();
    assert!(!server.is_running());
    assert!(Link::open(port, ANSWER_LIMIT).is_err(), "nobody listens any more");

    server.restart().unwrap();
    assert_eq!(ask(&server, &["GET", "key"]), Value::from("value"));
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
}

#[test]
fn a_server_that_does_not_end_when_told_is_killed_and_that_is_no_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = PrivateServer::start(options(&dir)).unwrap();
    freeze(server.pid());
    assert_eq!(server.unwritten(), Some(Unwritten::Untold));
    let told = server.stop(Duration::from_secs(1));
    assert!(matches!(told, Err(StopError::Killed { .. })), "{told:?}");
    assert!(!server.is_running());
    server.stop(LIMIT).expect("nothing is left to end");
}

#[test]
fn a_killed_server_that_wrote_through_has_lost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut server =
        PrivateServer::start(Options { appendfsync: AppendFsync::Always, ..options(&dir) })
            .unwrap();
    ask(&server, &["SET", "key", "value"]);
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(ask(&server, &["GET", "key"]), Value::from("value"));
}

#[test]
fn a_private_server_is_set_up_as_the_protocol_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let args = vec!["--maxmemory".into(), "100mb".into()];
    let server = PrivateServer::start(Options { args, ..options(&dir) }).unwrap();
    let settings = [
        ("bind", "127.0.0.1"),
        ("protected-mode", "yes"),
        ("save", ""),
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("maxmemory-policy", "noeviction"),
        ("maxmemory", "104857600"),
        ("dir", server.dir().to_str().unwrap()),
    ];
    for (name, value) in settings {
        assert_eq!(
            ask(&server, &["CONFIG", "GET", name]),
            Value::Array(vec![name.into(), value.into()])
        );
    }
}

#[test]
fn a_server_answers_on_its_unix_socket_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = PrivateServer::start(options(&dir)).unwrap();
    let url = server.unix_url().unwrap();
    let mut socket =
        std::os::unix::net::UnixStream::connect(url.strip_prefix("redis+unix://").unwrap())
            .unwrap();
    socket.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
    assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
}

#[test]
fn a_dropped_server_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let server = PrivateServer::start(options(&dir)).unwrap();
    let port = server.port();
    drop(server);
    assert!(Link::open(port, ANSWER_LIMIT).is_err());
}

#[test]
fn a_folder_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let server = PrivateServer::start(options(&dir)).unwrap();
    let refused = PrivateServer::start(options(&dir)).unwrap_err();
    assert!(
        matches!(&refused, StartError::InUse { owner, .. } if *owner == std::process::id().to_string())
    );
    assert_eq!(ask(&server, &["PING"]), Value::Simple("PONG".into()), "the first is left alone");
    drop(server);
    PrivateServer::start(options(&dir)).unwrap();
}

#[test]
fn a_server_that_a_killed_owner_left_behind_is_ended_and_its_data_kept() {
    let dir = tempfile::tempdir().unwrap();
    let owned = PrivateServer::start(options(&dir)).unwrap();
    ask(&owned, &["SET", "key", "value"]);
    // As if the owner had died: the process goes on, the folder's lock is free.
    let PrivateServer { process: mut left, _lock: lock, .. } = owned;
    drop(lock);

    let server = PrivateServer::start(options(&dir)).unwrap();
    assert!(left.wait_within(LIMIT).unwrap().is_some(), "the earlier server has ended");
    assert_eq!(ask(&server, &["GET", "key"]), Value::from("value"));
}

#[test]
fn a_stranger_on_the_noted_port_is_left_alone() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stranger = PrivateServer::start(options(&other)).unwrap();
    fs::write(dir.path().join("server.pid"), format!("{} {}\n", stranger.pid(), stranger.port()))
        .unwrap();
    let server = PrivateServer::start(options(&dir)).unwrap();
    assert_eq!(ask(&stranger, &["PING"]), Value::Simple("PONG".into()));
    assert_ne!(server.port(), stranger.port());
}

#[test]
fn a_server_left_behind_that_does_not_answer_is_named_and_not_run_beside() {
    let dir = tempfile::tempdir().unwrap();
    let PrivateServer { process: left, _lock: lock, .. } =
        PrivateServer::start(options(&dir)).unwrap();
    drop(lock);
    freeze(left.pid());
    let refused = PrivateServer::start(options(&dir)).unwrap_err();
    assert!(matches!(refused, StartError::LeftOver { pid, .. } if pid == left.pid()), "{refused}");
}

/// Listens as process 1 that serves `dir`, and answers as long as `answers` says so to what it is asked.
fn left_behind(dir: &Path, mut answers: impl FnMut(&str) -> bool + Send + 'static) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    fs::write(dir.join("server.pid"), format!("1 {port}\n")).unwrap();
    let dir = fs::canonicalize(dir).unwrap().to_str().unwrap().to_owned();
    // Ends with the process of the tests.
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut asked, mut chunk) = (Vec::new(), [0; 512]);
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                asked.extend_from_slice(&chunk[..read]);
                let Some((words, used)) = crate::resp::parse(&asked).unwrap() else { continue };
                asked.drain(..used);
                let word = words.array().unwrap()[0].text().unwrap().to_owned();
                if !answers(&word) {
                    break;
                }
                let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
                let answer = match word.as_str() {
                    "INFO" => bulk("process_id:1\r\n"),
                    "CONFIG" => format!("*2\r\n{}{}", bulk("dir"), bulk(&dir)),
                    _ => "+PONG\r\n".to_owned(),
                };
                stream.write_all(answer.as_bytes()).unwrap();
            }
            silent.push(stream);
        }
    });
}

/// What a start in the folder of such a server leads to, which is given little time to end.
fn beside(dir: &Path) -> Result<(), StartError> {
    Folder::open(dir)?.end_left_over(Duration::from_millis(100))
}

#[test]
fn a_server_left_behind_that_is_slow_to_end_is_still_there() {
    let dir = tempfile::tempdir().unwrap();
    // Told to end it takes connections as the kernel does for it, and answers nothing.
    let mut ends = false;
    left_behind(dir.path(), move |word| {
        ends |= word == "SHUTDOWN";
        !ends
    });
    let refused = beside(dir.path());
    assert!(matches!(refused, Err(StartError::LeftOver { pid: 1, .. })), "{refused:?}");
}

#[test]
fn a_server_left_behind_that_answers_and_does_not_say_who_it_is_may_be_it() {
    for silent in ["INFO", "CONFIG"] {
        let dir = tempfile::tempdir().unwrap();
        left_behind(dir.path(), move |word| word != silent);
        let refused = beside(dir.path());
        assert!(
            matches!(refused, Err(StartError::LeftOver { pid: 1, .. })),
            "{silent}: {refused:?}"
        );
    }
}

/// Another Redis may have got the port, with a password.
#[test]
fn who_does_not_say_who_it_is_is_not_taken_for_a_process_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    left_behind(dir.path(), |word| word != "INFO");
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let file = dir.path().join("server.pid");
    let noted = fs::read_to_string(&file).unwrap();
    let (_, port) = noted.split_once(' ').unwrap();
    fs::write(&file, format!("{} {port}", gone.id())).unwrap();
    beside(dir.path()).unwrap();
}

#[test]
fn a_port_that_is_freed_a_moment_later_is_taken_then() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let held = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let freed = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    let server = PrivateServer::start(Options { port: Some(port), ..options(&dir) }).unwrap();
    assert!(freed.is_finished());
    assert_eq!(server.port(), port);
}

#[test]
fn a_port_that_is_taken_is_refused_if_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = PrivateServer::start(Options { port: Some(port), ..options(&dir) }).unwrap_err();
    assert_eq!(refused.to_string(), format!("port {port} on 127.0.0.1 is taken"));
}

#[test]
fn a_server_that_does_not_start_says_why_in_the_words_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let args = vec!["--no-such-setting".into(), "1".into()];
    let refused = PrivateServer::start(Options { args, ..options(&dir) }).unwrap_err().to_string();
    assert!(refused.contains("no-such-setting"), "{refused}");
    let missing = Options::new("/no/such/server", dir.path());
    let refused = PrivateServer::start(missing).unwrap_err().to_string();
    assert!(refused.contains("/no/such/server"), "{refused}");
}

#[test]
fn a_server_is_given_the_time_that_its_data_take_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = PrivateServer::start(options(&dir)).unwrap();
    let fill = "for i = 1, 3000 do redis.call('SET', i, i) end";
    assert_eq!(ask(&server, &["EVAL", fill, "0"]), Value::Nil);
    server.stop(LIMIT).unwrap();
    drop(server);

    let (ready_within, began) = (Duration::from_millis(200), Instant::now());
    let args = vec!["--key-load-delay".into(), "1000".into()];
    let slow = Options { ready_within, args, ..options(&dir) };
    let server = PrivateServer::start(slow).unwrap();
    assert!(began.elapsed() > 5 * ready_within, "it was there before anybody had to wait");
    assert_eq!(ask(&server, &["GET", "3000"]), Value::from("3000"));
}

#[test]
fn a_folder_too_deep_for_a_unix_socket_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(100));
    let refused = PrivateServer::start(Options::new(binary(), &deep)).unwrap_err();
    assert!(matches!(refused, StartError::SocketPath { .. }), "{refused}");
    PrivateServer::start(Options { unix_socket: false, ..Options::new(binary(), &deep) }).unwrap();
}
