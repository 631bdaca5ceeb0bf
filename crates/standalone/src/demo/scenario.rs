//! What goes wrong: one worker is killed, another is frozen past its lease and woken again.

use std::time::Duration;

use holdfast_core::counted;
use holdfast_stand_in::ScriptError;
use tokio::time::{Instant, sleep};

use super::fleet::{Aground, FROZEN, Fleet, KILLED};
use super::gateway::Gateway;
use super::ledger::Kill;
use super::report::Story;
use super::settings::SLOTS;
use super::submit::Callers;

/// How long each step may take, beyond a lease.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How many calls the two workers have at least under way when it happens to them.
const HELD: usize = SLOTS / 2;
/// How long the count of fenced settlements must stand still to be the last one.
const STILL: Duration = Duration::from_millis(300);

/// Why the play could not be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flop {
    #[error(transparent)]
    Fleet(#[from] Aground),
    #[error("the stand-in does not take its script")]
    Script(#[from] ScriptError),
    #[error("waited in vain until {what}")]
    Late { what: &'static str },
}

fn under_way(calls: usize) -> String {
    counted(calls, "call under way", "calls under way")
}

/// The stage, and who is on it.
pub(crate) struct Scenario<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) callers: &'a Callers,
    pub(crate) story: &'a Story,
    pub(crate) requests: usize,
    pub(crate) lease: Duration,
}

/// What happened.
pub(crate) struct Played {
    pub(crate) kill: Kill,
    pub(crate) fenced: u64,
}

impl Scenario<'_> {
    /// Plays it over a running fleet.
    pub(crate) async fn play(&self, fleet: &mut Fleet) -> Result<Played, Flop> {
        let third = self.requests as u64 / 3;
        self.until("a third of the requests was called", || self.gateway.arrived() >= third)
            .await?;
        self.gateway.hold_up(KILLED, FROZEN)?;
        let both_hold = || [KILLED, FROZEN].iter().all(|it| self.gateway.open(it).len() >= HELD);
        self.until("both workers have calls under way", both_hold).await?;

        let kill = self.kill(fleet)?;
        self.freeze_and_wake(fleet).await?;
        let fenced = self.fenced(fleet).await?;
        self.story.tell(format_args!(
            "{FROZEN} was refused {}: its leases were others' by then",
            counted(fenced, "time", "times")
        ));
        Ok(Played { kill, fenced })
    }

    fn kill(&self, fleet: &mut Fleet) -> Result<Kill, Flop> {
        let held = self.gateway.open(KILLED).len();
        let at = self.gateway.now();
        fleet.kill(KILLED)?;
        self.story.tell(format_args!("SIGKILL to {KILLED}, with {}", under_way(held)));
        Ok(Kill { worker: KILLED.to_owned(), at })
    }

    /// Past its lease, with its answers in its sockets, and until others have answered what it held.
    async fn freeze_and_wake(&self, fleet: &mut Fleet) -> Result<(), Flop> {
        let held = self.gateway.open(FROZEN);
        fleet.freeze(FROZEN)?;
        let calls = under_way(held.len());
        self.story.tell(format_args!("SIGSTOP to {FROZEN}, with {calls}"));
        let answered = || self.gateway.open(FROZEN).is_empty();
        self.until("the frozen worker's answers lie in its sockets", answered).await?;
        let taken_over = || self.callers.have_read(&held);
        self.until("others have answered what the frozen worker held", taken_over).await?;
        fleet.wake(FROZEN)?;
        self.story.tell(format_args!("SIGCONT to {FROZEN}: others have answered what it held"));
        Ok(())
    }

    /// The fenced settlements, once the woken worker has brought all of its own.
    async fn fenced(&self, fleet: &mut Fleet) -> Result<u64, Flop> {
        let until = Instant::now() + STEP_LIMIT;
        let mut seen = (0, Instant::now());
        loop {
            let fenced = fleet.fenced().await?;
            if fenced != seen.0 {
                seen = (fenced, Instant::now());
            }
            // Late is not the same as never: the ledger tells that nothing was fenced.
            if fenced > 0 && seen.1.elapsed() >= STILL || Instant::now() >= until {
                return Ok(fenced);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn until(&self, what: &'static str, mut holds: impl FnMut() -> bool) -> Result<(), Flop> {
        let until = Instant::now() + self.lease + STEP_LIMIT;
        while !holds() {
            if Instant::now() >= until {
                return Err(Flop::Late { what });
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}
