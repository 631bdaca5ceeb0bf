//! The operators' part of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args as Flags, Subcommand};
use holdfast_core::doctor::Role;
use holdfast_core::model::{Fence, QueueName, TenantName};

use super::{Form, Hidden, queue};
use crate::time;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the registered queues and what they hold.
    Ls(ListArgs),
    /// Stop the claims of a queue; what runs goes on.
    Pause(OverruleArgs),
    /// Let the claims of a queue go on.
    Resume(OverruleArgs),
    /// Limit how many requests of a queue are in flight over all workers.
    Limit(LimitArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// List running leases and who holds them, those that lapse next first.
    Ls(LeaseLsArgs),
    /// End the lease of a request: it can be claimed again at once. No lapse is charged; the attempt counts.
    Release(ReleaseArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List the workers and how many leases each holds.
    Ls(OpsArgs),
}

/// Where Redis is.
#[derive(Debug, Flags)]
#[group(id = "where", multiple = false)]
pub(crate) struct RedisArgs {
    /// Straight to Redis, in any form that redis.url of the settings takes.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<Hidden>,
    /// Straight to Redis, where [redis] of a settings file says that it is; a password need not stand on the command line then.
    #[arg(long, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
}

impl RedisArgs {
    /// Whether the command line says where Redis is.
    pub(crate) fn is_given(&self) -> bool {
        self.redis.is_some() || self.config.is_some()
    }
}

/// Where the operators' listener is by default.
pub(crate) const OPERATOR: &str = "http://127.0.0.1:8081";

/// Where an operator's call goes, who makes it, and how its answer is printed.
#[derive(Debug, Flags)]
pub(crate) struct OpsArgs {
    /// The operators' listener of a producer. For https the system's certificates are trusted, or those that SSL_CERT_FILE names.
    #[arg(
        long,
        value_name = "URL",
        default_value = OPERATOR,
        conflicts_with = "where"
    )]
    pub(crate) operator: Hidden,
    /// A file that holds a key with the scope operate, and nothing else. Without it, HOLDFAST_KEY in the environment is the key.
    #[arg(long, value_name = "PATH", conflicts_with = "where")]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    /// Who is named in the audit line of an action straight at Redis; a producer names its caller itself.
    #[arg(
        long = "as",
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "unknown"
    )]
    pub(crate) who: String,
    /// How the answer is printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

#[derive(Debug, Flags)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) ops: OpsArgs,
    /// Only this queue.
    #[arg(long, value_name = "NAME", value_parser = queue)]
    pub(crate) queue: Option<QueueName>,
}

#[derive(Debug, Flags)]
pub(crate) struct RowsArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// The most rows that are listed.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = rows().range(1..))]
    pub(crate) limit: usize,
}

/// The most leases of a list: one call has them all.
pub(crate) const LEASES: usize = 1000;

#[derive(Debug, Flags)]
pub(crate) struct LeaseLsArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// The most leases that are listed.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = rows().range(1..=LEASES as u64))]
    pub(crate) limit: usize,
}

/// A number of rows.
fn rows() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new()
}

#[derive(Debug, Flags)]
pub(crate) struct OverruleArgs {
    /// The queue.
    #[arg(value_name = "QUEUE", value_parser = queue)]
    pub(crate) queue: QueueName,
    /// Only if the override still has this version; without it, the one that is there now.
    #[arg(long)]
    pub(crate) version: Option<u64>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) ops: OpsArgs,
}

#[derive(Debug, Flags)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub(crate) overrule: OverruleArgs,
    /// How many, over all workers; at least the number of the queue's shards.
    #[arg(value_name = "IN_FLIGHT", required_unless_present = "clear", conflicts_with = "clear")]
    pub(crate) in_flight: Option<u64>,
    /// As the settings say again.
    #[arg(long)]
    pub(crate) clear: bool,
}

/// One request.
#[derive(Debug, Flags)]
pub(crate) struct OneArgs {
    /// The request's id.
    pub(crate) id: String,
    /// The queue.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = queue)]
    pub(crate) queue: QueueName,
    /// The tenant whose id it is.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = tenant)]
    pub(crate) tenant: TenantName,
    #[command(flatten)]
    pub(crate) ops: OpsArgs,
}

#[derive(Debug, Flags)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,
    /// Only if it is still due then, in Unix seconds, as why tells it (next_try_at).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) due: Option<f64>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) one: OneArgs,
    /// Only if it is still leased under this fence, as why and lease ls tell it.
    #[arg(long, value_name = "FENCE", value_parser = fence)]
    pub(crate) fence: Option<Fence>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn tenant(text: &str) -> Result<TenantName, String> {
    TenantName::try_from(text).map_err(|rule| rule.to_string())
}

/// A fence as it is shown: 32 hex digits.
fn fence(text: &str) -> Result<Fence, String> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let fence = is_hex.then(|| Fence::try_from(text.as_bytes()).ok()).flatten();
    fence.ok_or_else(|| "must be 32 hex digits, as lease ls tells it".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters and what ended them, those that are kept shortest first.
    Ls(DeadLsArgs),
    /// Show one with everything that is kept of it but its body.
    Show(OneArgs),
    /// Run dead letters again, each under a new generation: counted first, and only with --yes.
    Redrive(RedriveArgs),
}

/// Which dead letters are meant.
#[derive(Debug, Flags)]
pub(crate) struct DeadFilterArgs {
    /// With this outcome: gave-up, killed-workers, unusable or answer-too-large.
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// Whose last failure was of this kind, like connect or status.
    #[arg(long, value_name = "CODE")]
    pub(crate) failure: Option<String>,
    /// That ended at least so long ago, like 90s, 5m, 24h.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) older: Option<Duration>,
    /// That ended at most so long ago.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(crate) younger: Option<Duration>,
}

#[derive(Debug, Flags)]
pub(crate) struct DeadLsArgs {
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
    /// Only of this tenant.
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: Option<TenantName>,
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
}

#[derive(Debug, Flags)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["ids", "tenant", "outcome", "failure", "older", "younger", "all"])))]
pub(crate) struct RedriveArgs {
    /// These ids, of --tenant or of the tenant default; without any, whatever the filter says.
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub(crate) ids: Vec<String>,
    /// The queue.
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = queue)]
    pub(crate) queue: QueueName,
    /// Only of this tenant.
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: Option<TenantName>,
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// All dead letters of the queue.
    #[arg(long)]
    pub(crate) all: bool,
    /// Count them, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do it, with as many as are counted; without it they are counted only.
    #[arg(long)]
    pub(crate) yes: bool,
    /// How many run again a second.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rate: u32,
    /// Go on where an earlier run stopped.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) ops: OpsArgs,
}

#[derive(Debug, Flags)]
#[command(after_help = DOCTOR_WHERE)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    /// Audit only the shards of this queue; without it, of every registered one.
    #[arg(long, value_name = "NAME", value_parser = queue)]
    pub(crate) queue: Option<QueueName>,
    /// The user of a role, where it is not the one that asks, like worker=hf-worker; may be said for each.
    #[arg(long, value_name = "ROLE=USER", value_parser = user)]
    pub(crate) user: Vec<(Role, String)>,
    /// How the findings are printed.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) output: Form,
}

const DOCTOR_WHERE: &str = "\
Without --redis and --config, Redis is where a role would find it: HOLDFAST_CONFIG names the settings file,
HOLDFAST_REDIS_URL and the like what is not in it.";

fn user(text: &str) -> Result<(Role, String), String> {
    let rule = || "must be producer, worker or reclaimer, =, and the user's name".to_owned();
    let (role, user) =
        text.split_once('=').filter(|(_, user)| !user.is_empty()).ok_or_else(rule)?;
    let role = Role::ALL.into_iter().find(|it| it.word() == role).ok_or_else(rule)?;
    Ok((role, user.to_owned()))
}
