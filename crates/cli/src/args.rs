//! The command line.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args as Flags, Parser, Subcommand, ValueEnum};
use holdfast_core::model::{Generation, QueueName, TenantName};
use holdfast_runtime::VERSION;
use holdfast_runtime::keys::{Scopes, UnknownScope};

use crate::time;

mod operate;

pub(crate) use operate::*;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 doctor found a fault; 64 unusable settings; 141 nobody reads the output.";

const LINES: &str = "\
Lines of --file: {\"custom_id\", \"method\": \"POST\", \"url\", \"body\"}. LF ends one, with or without CR; a byte order mark
and blank lines are passed over. A bad line is refused with its number, and the others go on.

Lines of --out: {\"id\", \"custom_id\", \"response\": {\"status_code\", \"request_id\", \"body\"}, \"error\": {\"code\", \"message\"}},
response or error null. request_id is the request's generation. A body that is JSON stands there byte for byte, but that
line ends between its tokens become spaces; any other is a text, and body_encoding beside it says text or base64.
A file that is there is emptied when the first line is written, so that a run that fails before leaves it as it is.

It fails if a line was refused, ended without an answer (error.code is the outcome), or was answered with no 2xx.";

/// The operator's tool of Holdfast.
#[derive(Debug, Parser)]
#[command(name = "holdfastctl", version = VERSION, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Submit one body, or a file of OpenAI batch lines.
    Submit(SubmitArgs),
    /// Show where a request is.
    Get(GetArgs),
    /// Print the result of a request: its body as it came; facts go to stderr. Fails unless the answer's status is a 2xx.
    Result(ResultArgs),
    /// Cancel a request.
    Cancel(GetArgs),
    /// Make keys for callers, and look at a file of them.
    #[command(subcommand)]
    Key(KeyCommand),
    /// List your own requests.
    Ls(LsArgs),
    /// The Lua scripts of this version.
    #[command(subcommand)]
    Script(ScriptCommand),
    /// Check a settings file for every role, and print it as it is in force, secrets hidden.
    Check(CheckArgs),
    /// Say where a request is and why, in a sentence, and what would help.
    Why(OneArgs),
    /// Look at queues; pause, resume or limit one.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Pull the back-off of a request forward, or start it before its not_before.
    RetryNow(RetryArgs),
    /// Look at leases; end one.
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// Look at dead letters; run them again.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Look at workers.
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// Look whether Redis, its users and the keys of the queues are as they must be.
    Doctor(DoctorArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key. It is printed this once, and with it the line for the file that producer.keys_file names.
    New(KeyNewArgs),
    /// Check a file of keys, and list whose they are and what they may do.
    Ls(KeyLsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScriptCommand {
    /// List them: name, SHA-1, and how many keys and arguments each takes.
    Ls(ScriptLsArgs),
    /// Print one as Redis gets it.
    Show(ScriptShowArgs),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For eyes.
    Table,
    /// For programs.
    Json,
}

/// Where the API is by default.
pub(crate) const SERVER: &str = "http://127.0.0.1:8080";

/// Where the API is.
#[derive(Debug, Flags)]
pub(crate) struct ApiArgs {
    /// The API's address. For https the system's certificates are trusted, or those that SSL_CERT_FILE names.
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: Hidden,
    /// A file that holds the caller's key and nothing else. Without it, HOLDFAST_KEY in the environment is the key.
    #[arg(long, value_name = "PATH")]
    pub(crate) key_file: Option<PathBuf>,
    /// The queue.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = queue)]
    pub(crate) queue: QueueName,
}

#[derive(Debug, Flags)]
#[command(after_long_help = LINES)]
pub(crate) struct SubmitArgs {
    /// The body for the gateway, any JSON but null, sent byte for byte; - reads standard input.
    #[arg(value_name = "BODYFILE", required_unless_present = "file", conflicts_with = "file")]
    pub(crate) body: Option<PathBuf>,
    /// A file of OpenAI batch lines. The same file again resumes: an id is the file's SHA-256, its first 16 digits, and
    /// the line's number.
    #[arg(long, value_name = "LINES.jsonl")]
    pub(crate) file: Option<PathBuf>,
    /// The request's id; made if there is none.
    #[arg(long, conflicts_with = "file")]
    pub(crate) id: Option<String>,
    /// When an answer is of no more use, in Unix seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "timeout")]
    pub(crate) deadline: Option<u64>,
    /// The same from now, for example 90s, 5m, 24h.
    #[arg(long)]
    pub(crate) timeout: Option<String>,
    /// Wait for the end: of one body print its result; of a file wait for every line.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Where the results of the file go as OpenAI batch output lines, in the order in which they end; - is standard output.
    #[arg(
        long,
        value_name = "OUT.jsonl",
        requires = "file",
        requires = "wait",
        conflicts_with = "body"
    )]
    pub(crate) out: Option<PathBuf>,
    /// The path that the queue calls; lines with another url are refused.
    #[arg(long, value_name = "PATH", default_value = "/v1/chat/completions")]
    pub(crate) url: String,
    /// How long to try again while the API is away. A full queue of a file is waited for without limit.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = time::parse)]
    pub(crate) patience: Duration,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// How the outcome is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct GetArgs {
    /// The request's id.
    pub(crate) id: String,
    /// Only this generation of the id.
    #[arg(long, value_name = "HEX", value_parser = generation)]
    pub(crate) generation: Option<Generation>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct ResultArgs {
    /// The request's id.
    pub(crate) id: String,
    /// Wait up to so many seconds for the end.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) wait: u64,
    /// Only this generation of the id.
    #[arg(long, value_name = "HEX", value_parser = generation)]
    pub(crate) generation: Option<Generation>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// How it is printed; json is one batch output line.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct KeyNewArgs {
    /// The tenant whose requests its caller sees.
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: TenantName,
    /// What its caller may do: some of submit, read, cancel, operate, between commas.
    #[arg(long, value_name = "SCOPES", value_parser = scopes)]
    pub(crate) scopes: Scopes,
    /// What people call it; the same rule as for a tenant.
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) name: Option<TenantName>,
    /// For how long it is good, for example 2160h; without end if this is not given.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) expires_in: Option<Duration>,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct KeyLsArgs {
    /// The file that producer.keys_file names.
    #[arg(value_name = "KEYSFILE")]
    pub(crate) file: PathBuf,
    /// How the list is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct LsArgs {
    /// Only those in one state: pending, suspects, delayed, leased, cancelling, finished or dead.
    #[arg(long, value_name = "STATE", value_parser = word)]
    pub(crate) state: Option<String>,
    /// The most rows that are listed.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = rows)]
    pub(crate) limit: usize,
    /// Go on where a list before ended, with the same --state.
    #[arg(long, value_name = "CURSOR", value_parser = word)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
    /// How the list is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct ScriptLsArgs {
    /// How the list is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct ScriptShowArgs {
    /// The script's name.
    pub(crate) name: String,
}

#[derive(Debug, Flags)]
pub(crate) struct CheckArgs {
    /// The settings file. Without one, the defaults under the environment are checked.
    #[arg(long, value_name = "PATH", env = "HOLDFAST_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Leave alone the files that settings name (keys, passwords, credentials, certificates): where they are not on this
    /// host.
    #[arg(long)]
    pub(crate) no_files: bool,
}

/// An address, which may hold a password: shown by nobody but whoever knows how.
#[derive(Clone)]
pub(crate) struct Hidden(pub(crate) String);

impl FromStr for Hidden {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

fn queue(text: &str) -> Result<QueueName, String> {
    QueueName::try_from(text).map_err(|rule| rule.to_string())
}

fn tenant(text: &str) -> Result<TenantName, String> {
    TenantName::try_from(text).map_err(|rule| rule.to_string())
}

fn scopes(text: &str) -> Result<Scopes, String> {
    text.parse().map_err(|rule: UnknownScope| rule.to_string())
}

/// What may stand in a query without an escape. Which words there are, the API knows.
fn word(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("must be letters, digits, - and _".to_owned()),
    }
}

fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| "must be a number above 0".to_owned())
}

fn generation(text: &str) -> Result<Generation, String> {
    text.parse().map_err(|_| "must be 16 hex digits, as a submit answered them".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_commands_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_submit_takes_a_body_or_a_file_and_not_both() {
        for line in [
            "submit b.json",
            "submit -",
            "submit --file l.jsonl",
            "submit --file l.jsonl --wait --out -",
        ] {
            assert!(parse(&format!("holdfastctl {line}")).is_ok(), "{line}");
        }
        for line in [
            "submit",
            "submit b.json --file l.jsonl",
            "submit --file l.jsonl --id x",
            "submit --file l.jsonl --out o.jsonl",
            "submit b.json --wait --out o.jsonl",
            "submit b.json --deadline 1 --timeout 1s",
            "submit b.json --queue Q",
        ] {
            assert!(parse(&format!("holdfastctl {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn looking_into_redis_takes_one_way_to_find_it() {
        for line in [
            "queue ls --redis redis://h",
            "lease ls --config f.toml --limit 5",
            "dead ls --redis redis://h --queue q",
            "queue pause q --redis redis://h --dry-run",
            "queue limit q 8 --redis redis://h",
            "queue limit q --clear --redis redis://h",
            "why a --redis redis://h --tenant t",
            "retry-now a --redis redis://h --due 1790000000.5",
            "dead redrive a b --redis redis://h --yes",
            "dead redrive --outcome gave-up --older 1h --redis redis://h",
            "dead redrive --all --redis redis://h --dry-run",
            "doctor",
            "doctor --redis redis://h --user worker=w --user reclaimer=r",
        ] {
            assert!(parse(&format!("holdfastctl {line}")).is_ok(), "{line}");
        }
        for line in ["queue ls", "why a", "worker ls --operator http://h:1 --key-file f"] {
            assert!(parse(&format!("holdfastctl {line}")).is_ok(), "{line}");
        }
        for line in [
            "doctor --redis redis://h --config f.toml",
            "queue ls --operator http://h --redis redis://h",
            "queue ls --key-file f --redis redis://h",
            "dead ls --redis redis://h --config f.toml",
            "queue limit q --redis redis://h",
            "queue limit q 8 --clear --redis redis://h",
            "why a --redis redis://h --tenant T",
            "lease release a --redis redis://h --fence x",
            "dead redrive --redis redis://h --yes",
            "dead redrive a --all --redis redis://h",
            "dead redrive --all --redis redis://h --rate 0",
            "doctor --redis redis://h --user robot=w",
        ] {
            assert!(parse(&format!("holdfastctl {line}")).is_err(), "{line}");
        }
    }

    #[test]
    fn an_address_is_not_shown_with_its_arguments() {
        let args = parse("holdfastctl queue ls --redis redis://ad:S3CRET@h").unwrap();
        assert!(!format!("{args:?}").contains("S3CRET"));
    }
}
