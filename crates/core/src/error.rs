//! What can go wrong between us and Redis, split by what the caller must do.

use std::{error::Error as StdError, fmt};

use fred::error::{Error, ErrorKind};

/// What Redis says before it runs anything: the call changed nothing.
///
/// CLUSTERDOWN is one such word, and yet not here: at the first one the client gives up the connection, and tells the same to
/// every call that was on it. Those may have run.
const NOT_RUN: &[&str] = &[
    "NOSCRIPT",
    "BUSY",
    "LOADING",
    "OOM",
    "READONLY",
    "MASTERDOWN",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "NOREPLICAS",
    "NOAUTH",
    "NOPERM",
    "WRONGPASS",
    "MISCONF",
    "BADARG",
];

/// A call to Redis that gave no usable answer.
///
/// There is no variant for "fenced" or "full": those are answers.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The call may or may not have run: send it again, every script is repeatable.
    #[error("{call}: no answer from redis")]
    Unanswered {
        /// The script or command.
        call: &'static str,
        /// What the client saw.
        source: Error,
    },
    /// Redis answered with an error. A script that fails half-way keeps its writes.
    #[error("{call}: refused by redis ({})", reason(.source))]
    Refused {
        /// The script or command.
        call: &'static str,
        /// What Redis said.
        source: Error,
    },
    /// Redis answered something this version does not know.
    #[error("{call}: unknown reply")]
    Reply {
        /// The script or command.
        call: &'static str,
    },
    /// Too many calls are already waiting for Redis: this one was not sent.
    #[error("{call}: too many calls wait for redis")]
    Crowded {
        /// The script or command.
        call: &'static str,
    },
}

/// Why Redis refused a call before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `maxmemory` is reached.
    OutOfMemory,
    /// It takes no writes: a replica, a full disk, too few replicas.
    ReadOnly,
    /// It is starting, failing over, or busy with somebody's script; or somebody killed this one.
    NotReady,
    /// The user lacks a right, or the password is wrong.
    Denied,
    /// Anything else.
    Other,
}

impl StoreError {
    pub(crate) fn new(call: &'static str, source: Error) -> Self {
        if is_said_by_redis(&source) {
            Self::Refused { call, source }
        } else {
            Self::Unanswered { call, source }
        }
    }

    /// Whether the call may have changed something all the same.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Refused { source, .. } => {
                !NOT_RUN.contains(&first_word(source)) && !is_killed(source)
            }
            Self::Crowded { .. } => false,
            Self::Unanswered { .. } | Self::Reply { .. } => true,
        }
    }

    /// Whether Redis itself said no.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Why Redis refused, if it did.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Refused { source, .. } = self else { return None };
        if is_denied(source) {
            return Some(Refusal::Denied);
        }
        if is_killed(source) {
            return Some(Refusal::NotReady);
        }
        Some(match first_word(source) {
            "OOM" => Refusal::OutOfMemory,
            "READONLY" | "MISCONF" | "NOREPLICAS" => Refusal::ReadOnly,
            "BUSY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK" => {
                Refusal::NotReady
            }
            _ => Refusal::Other,
        })
    }

    /// Why Redis takes no writes, and with them none of our scripts, where that is what it says.
    pub fn refused_writes(&self) -> Option<&'static str> {
        let Self::Refused { source, .. } = self else { return None };
        match first_word(source) {
            "MISCONF" => Some("it can't write to its disk, which may be full"),
            "READONLY" => Some("it is a replica: ask its primary"),
            "NOREPLICAS" => Some("too few of its replicas are there"),
            _ => None,
        }
    }

    /// Whether Redis holds something that is not ours in a place of ours: a key of another type, or what answers as nothing
    /// of ours does. Asking again does not help.
    pub fn is_foreign(&self) -> bool {
        match self {
            Self::Refused { source, .. } => first_word(source) == "WRONGTYPE",
            Self::Reply { .. } => true,
            Self::Unanswered { .. } | Self::Crowded { .. } => false,
        }
    }

    /// Whether the user is known and lacks a right.
    pub(crate) fn lacks_right(&self) -> bool {
        let Self::Refused { source, .. } = self else { return false };
        is_denied(source) && !matches!(first_word(source), "NOAUTH" | "WRONGPASS")
    }

    /// The command that the user may not run, in small letters, where Redis denies one and says which.
    pub fn denied_command(&self) -> Option<&str> {
        let Self::Refused { source, .. } = self else { return None };
        denied_command(source)
    }
}

/// Whether the user lacks a right. Inside a script it has no word of its own: Redis 7.0 says the first of these texts, all
/// others the second. What the script wrote before stays.
fn is_denied(error: &Error) -> bool {
    const IN_SCRIPT: [&str; 2] =
        ["ERR The user executing the script ", "ERR ACL failure in script: "];
    matches!(first_word(error), "NOAUTH" | "NOPERM" | "WRONGPASS")
        || IN_SCRIPT.iter().any(|start| error.details().starts_with(start))
}

/// Whether somebody ended the script by SCRIPT KILL. Redis does so only with one that has written nothing; what it says
/// goes on in other words on each server.
fn is_killed(error: &Error) -> bool {
    error.details().starts_with("ERR Script killed by user with SCRIPT KILL")
}

/// Of the text only what is a command by its form: a key or a user's name stands in such texts too.
pub(crate) fn denied_command(error: &Error) -> Option<&str> {
    let text = error.details();
    let (name, _) = text.split_once(" run the '")?.1.split_once("' command")?;
    let is_one = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'|' | b'-' | b'_');
    (is_denied(error) && name.len() <= 40 && name.bytes().all(is_one)).then_some(name)
}

/// What is told of an error of Redis.
fn reason(error: &Error) -> String {
    match (is_denied(error), denied_command(error)) {
        (true, Some(command)) => format!("its user may not run {command}"),
        (true, None) => format!("its user lacks a right; {}", first_word(error)),
        (false, _) if is_killed(error) => "its script was killed".to_owned(),
        (false, _) => first_word(error).to_owned(),
    }
}

/// Whether Redis itself said so, as an answer to this call.
///
/// The client makes up errors of its own where a connection is lost or half there, some of them without a kind. Only
/// what Redis says starts with a word in capitals; taken for a refusal, the client's would bury what is well.
fn is_said_by_redis(error: &Error) -> bool {
    let may_be = matches!(
        error.kind(),
        ErrorKind::Unknown
            | ErrorKind::Auth
            | ErrorKind::Cluster
            | ErrorKind::Config
            | ErrorKind::InvalidArgument
            | ErrorKind::InvalidCommand
    );
    let word = first_word(error);
    may_be && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The word that starts an error of Redis: its kind. The rest of the text may quote what was sent.
pub(crate) fn first_word(error: &Error) -> &str {
    error.details().split([' ', ':']).next().unwrap_or_default()
}

/// Shows an error with its causes on one line, for one field of a log event.
pub struct Chain<'a>(pub &'a dyn StdError);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> StoreError {
        StoreError::new("settle", Error::new(ErrorKind::Unknown, text.to_owned()))
    }

    #[test]
    fn what_redis_says_before_it_runs_a_script_changed_nothing() {
        for text in
            ["OOM command not allowed", "NOSCRIPT No matching script", "READONLY You can't write"]
        {
            assert!(!refused(text).may_have_run(), "{text}");
        }
        assert!(refused("ERR user_script:7: attempt to index nil").may_have_run());
        assert!(StoreError::new("settle", Error::new(ErrorKind::Timeout, "late")).may_have_run());
    }

    #[test]
    fn what_the_client_makes_up_is_no_answer_of_redis() {
        for (kind, text) in [
            (ErrorKind::IO, "Unresponsive connection."),
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::Canceled, ""),
            (ErrorKind::Protocol, "Decode Error: frame_type: Invalid frame type."),
            (ErrorKind::Routing, "Failed to route command."),
            (ErrorKind::Unknown, "Failed to route command."),
            (ErrorKind::Unknown, ""),
        ] {
            let error = StoreError::new("settle", Error::new(kind, text));
            assert!(matches!(error, StoreError::Unanswered { .. }), "{text}: {error:?}");
            assert!(error.may_have_run() && error.refusal().is_none(), "{text}");
        }
        assert_eq!(refused("ERR no such thing").refusal(), Some(Refusal::Other));
        let denied = Error::new(ErrorKind::Auth, "NOAUTH Authentication required.");
        let denied = StoreError::new("settle", denied);
        assert_eq!(denied.refusal(), Some(Refusal::Denied));
        assert!(!denied.lacks_right() && refused("NOPERM of a key").lacks_right());
    }

    #[test]
    fn a_right_that_a_script_lacks_is_told_by_the_name_of_its_command() {
        let valkey = "ERR ACL failure in script: User producer has no permissions to run the \
            'hincrby' command script: 5f0c, on @user_script:51.";
        let redis = "ERR The user executing the script can't run this command or subcommand \
            script: 5f0c, on @user_script:51.";
        let plain = "NOPERM User producer has no permissions to run the 'script|load' command";
        for (text, command) in
            [(valkey, Some("hincrby")), (redis, None), (plain, Some("script|load"))]
        {
            let error = refused(text);
            assert_eq!(error.refusal(), Some(Refusal::Denied), "{text}");
            assert_eq!(error.denied_command(), command, "{text}");
        }
        // A script stops in its midst, and keeps what it wrote; a call that is denied did not begin.
        assert!(refused(valkey).may_have_run() && refused(redis).may_have_run());
        assert!(!refused(plain).may_have_run());
        assert_eq!(
            refused(valkey).to_string(),
            "settle: refused by redis (its user may not run hincrby)"
        );
        // Whatever else stands there is not repeated.
        let odd = refused("NOPERM no permissions to run the 'a key: secret' command");
        assert_eq!((odd.refusal(), odd.denied_command()), (Some(Refusal::Denied), None));
        assert!(!odd.to_string().contains("secret"), "{odd}");
        let own = refused("ERR user_script:7: ACL failure in script: no");
        assert_eq!(own.refusal(), Some(Refusal::Other));
    }

    #[test]
    fn a_script_that_somebody_killed_wrote_nothing_and_may_be_run_again() {
        for text in [
            "ERR Script killed by user with SCRIPT KILL... script: 694a, on @user_script:1.",
            "ERR Script killed by user with SCRIPT KILL. script: on @user_script:1.",
        ] {
            let error = refused(text);
            assert_eq!(error.refusal(), Some(Refusal::NotReady), "{text}");
            assert!(!error.may_have_run(), "{text}");
            assert_eq!(error.to_string(), "settle: refused by redis (its script was killed)");
        }
        let own = refused("ERR user_script:7: Script killed by user with SCRIPT KILL");
        assert_eq!(own.refusal(), Some(Refusal::Other));
    }

    #[test]
    fn an_error_text_of_redis_is_told_by_its_kind_only() {
        assert_eq!(
            refused("WRONGTYPE Operation against secret").to_string(),
            "settle: refused by redis (WRONGTYPE)"
        );
    }
}
