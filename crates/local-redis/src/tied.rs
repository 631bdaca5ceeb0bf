//! Child processes that die with their parent.
//!
//! Three things see to it: the child is killed when its [`Tied`] is dropped; on Linux the kernel kills it when the
//! thread that started it ends, which also covers a parent that was killed; and whoever needs more writes a pid file
//! that the next start reads, as [`PrivateServer`](crate::PrivateServer) does.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The tool that asks the kernel for a signal at the parent's death; a call of our own would need `unsafe`.
const SETPRIV: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];

/// Runs what follows, unless the parent died before the kernel knew that it is to be told: `shell -c this parent …`.
const IF_PARENT_LIVES: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// A command that runs `program` and is killed by the kernel when the thread that starts it ends, where that can be
/// had. Arguments are added as usual; start it by [`Tied::spawn`], whose thread lives as long as the child.
pub fn command(program: &Path) -> Command {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let [tool, option, signal] = SETPRIV;
    if !*WORKS.get_or_init(setpriv_works) {
        return Command::new(program);
    }
    let mut command = Command::new(tool);
    command.args([option, signal, "--", "/bin/sh", "-c", IF_PARENT_LIVES]);
    command.arg(std::process::id().to_string()).arg(program);
    command
}

/// Whether there is a `setpriv` that knows the option: the one of busybox does not.
fn setpriv_works() -> bool {
    let [tool, option, signal] = SETPRIV;
    let mut probe = Command::new(tool);
    probe.args([option, signal, "--", tool, "--version"]);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// A running child process. Dropped, it is killed.
#[derive(Debug)]
pub struct Tied {
    child: Child,
    keeper: Option<Keeper>,
}

/// The thread that started the child and does nothing else, until `release` is dropped.
#[derive(Debug)]
struct Keeper {
    release: Sender<()>,
    thread: JoinHandle<()>,
}

impl Tied {
    /// Starts `command` from a thread that lives as long as the child.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let (release, released) = channel::<()>();
        let (started, starting) = channel();
        let thread = thread::Builder::new().name("holdfast-keeper".into()).spawn(move || {
            // Nothing is ever sent: the wait ends when the sender is dropped.
            if started.send(command.spawn()).is_ok() {
                released.recv().unwrap_or_default();
            }
        })?;
        let child = starting.recv().map_err(io::Error::other)??;
        Ok(Self { child, keeper: Some(Keeper { release, thread }) })
    }

    /// Takes over a child that is only killed when it is dropped.
    pub(crate) fn guard(child: Child) -> Self {
        Self { child, keeper: None }
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How the child ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until the child has ended, at most for `limit`.
    pub fn wait_within(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the child with SIGKILL, and waits until it is gone. One that has ended by itself keeps its status.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        // Nobody is left to tell; a child that is gone already is what we want.
        self.kill().map(drop).unwrap_or_default();
        if let Some(Keeper { release, thread }) = self.keeper.take() {
            drop(release);
            thread.join().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn sleeper() -> Tied {
        let mut sleep = command(Path::new("/bin/sleep"));
        sleep.arg("60");
        Tied::spawn(sleep).unwrap()
    }

    #[cfg(target_os = "linux")]
    fn alive(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_child_runs_until_it_is_killed() {
        let mut child = sleeper();
        assert_eq!(child.wait_within(Duration::from_millis(50)).unwrap(), None);
        assert!(!child.kill().unwrap().success());
        assert!(child.ended().unwrap().is_some());
    }

    #[test]
    fn a_child_that_ends_by_itself_keeps_its_status() {
        let mut shell = command(Path::new("/bin/sh"));
        shell.args(["-c", "exit 7"]);
        let mut child = Tied::spawn(shell).unwrap();
        let status = child.wait_within(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!((status.code(), child.kill().unwrap().code()), (Some(7), Some(7)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_dropped_child_is_killed() {
        let child = sleeper();
        let pid = child.pid();
        assert!(alive(pid));
        drop(child);
        assert!(!alive(pid));
    }

    #[test]
    #[ignore = "the parent of the next test, which runs and kills it"]
    fn a_parent_to_be_killed() {
        println!("child {}", sleeper().pid());
        let child = sleeper();
        println!("child {}", child.pid());
        // Ends with its standard input, so that nobody waits for it in vain.
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_dies_with_a_parent_that_is_killed() {
        if !setpriv_works() {
            eprintln!("not tested: there is no setpriv that knows --pdeathsig");
            return;
        }
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "tied::tests::a_parent_to_be_killed"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        let pids = lines.filter_map(|line| line.unwrap().rsplit_once("child ")?.1.parse().ok());
        let [dropped, running]: [u32; 2] = pids.take(2).collect::<Vec<_>>().try_into().unwrap();
        assert!(!alive(dropped) && alive(running));

        parent.kill().unwrap();
        parent.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while alive(running) {
            assert!(Instant::now() < until, "the child outlived its parent");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
