//! The settings: one file for all roles, the environment over it, every check.
//!
//! `source` lays the environment over the file, `section` reads a section field by field, and a
//! module a section gives it its checked form. Each role checks the whole.

mod allowed;
mod environment;
mod given;
mod log;
mod name;
mod problems;
mod producer;
mod queues;
mod reclaimer;
mod redis;
mod redis_url;
mod secret;
mod section;
mod source;
mod target;
mod tenants;
mod value;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use holdfast_core::model::{QueueName, TenantName};

use crate::reread::Unusable;
use section::Shown;
use source::Source;

pub use allowed::Allowed;
pub use environment::Environment;
pub use log::{Collector, LogFormat, LogSettings, TracesSettings};
pub use problems::{Problem, Problems};
pub use producer::{HttpLimits, ProducerSettings};
pub use queues::{Credentials, Durability, HttpVersion, QueueSettings, QueueTimes};
pub use reclaimer::ReclaimerSettings;
pub use redis::RedisSettings;
pub use redis_url::{RedisUrl, Topology};
pub use secret::{Secret, SecretError, SecretFile};
pub use target::{RequestPath, Target};
pub use tenants::TenantSettings;
pub use worker::{GRACE, GRACE_RESERVE, WorkerSettings};

/// Every section, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where Redis is.
    pub redis: RedisSettings,
    /// The HTTP API.
    pub producer: ProducerSettings,
    /// Leases, slots, and the drain.
    pub worker: WorkerSettings,
    /// Recovery and upkeep.
    pub reclaimer: ReclaimerSettings,
    /// What a process logs.
    pub log: LogSettings,
    /// Where traces go.
    pub traces: TracesSettings,
    /// The tenants that have limits.
    pub tenants: BTreeMap<TenantName, TenantSettings>,
    /// The queues, by name.
    pub queues: BTreeMap<QueueName, QueueSettings>,
    shown: Vec<Shown>,
}

impl Settings {
    /// Reads and checks the settings; every fault comes back at once.
    pub fn load(text: &str, environment: &Environment) -> Result<Self, Problems> {
        let mut source = Source::new(text, environment)?;
        let redis = source.one("redis", redis::read);
        let producer = source.one("producer", producer::read);
        let worker = source.one("worker", worker::read);
        let reclaimer = source.one("reclaimer", reclaimer::read);
        let log = source.one("log", log::read_log);
        let traces = source.one("traces", log::read_traces);
        let tenants = source.many("tenants", tenants::read);
        let queues = source.many("queues", queues::read);
        if let (Some(worker), Some(reclaimer)) = (&worker, &reclaimer) {
            check_pass(&mut source, worker, reclaimer);
        }
        if let (Some(worker), Some(queues)) = (&worker, &queues) {
            check_served(&mut source, worker, queues);
        }
        if let (Some(tenants), Some(queues)) = (&tenants, &queues) {
            tenants::check(&mut source, tenants, queues);
        }
        let (problems, shown) = source.finish();
        let checked = || {
            Some(Self {
                redis: redis?,
                producer: producer?,
                worker: worker?,
                reclaimer: reclaimer?,
                log: log?,
                traces: traces?,
                tenants: tenants?,
                queues: queues?,
                shown,
            })
        };
        match checked() {
            Some(settings) => problems.or(settings),
            None => Err(problems),
        }
    }

    /// Whether the file or the environment says anything about a field, be it the default.
    pub fn is_given(&self, section: &str, field: &str) -> bool {
        let section = self.shown.iter().find(|shown| shown.path == section);
        let field = section.and_then(|shown| shown.fields.iter().find(|it| it.name == field));
        field.is_some_and(|field| field.given)
    }

    /// What is wrong with files of a section, told as faults of the fields that name them.
    pub fn problems(&self, section: &str, found: impl IntoIterator<Item = Unusable>) -> Problems {
        let mut problems = Problems::default();
        let shown = self.shown.iter().find(|shown| shown.path == section);
        for Unusable { setting, rule } in found {
            problems.push(match shown {
                Some(shown) => shown.fault(setting, &rule),
                None => {
                    let field = format!("{section}.{setting}");
                    Problem { field, value: None, variable: None, rule }
                }
            });
        }
        problems
    }

    /// The settings as they are in force, as a file would hold them, secrets hidden.
    pub fn show(&self) -> String {
        let mut text = String::new();
        for section in &self.shown {
            let (kind, name) = section.path.split_once('.').unwrap_or((&section.path, ""));
            let heading = match name {
                "" => kind.to_owned(),
                name if name.contains('.') => format!("{kind}.{}", value::quoted(name)),
                name => format!("{kind}.{name}"),
            };
            let between = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{between}[{heading}]\n"));
            for field in &section.fields {
                text.push_str(&match &field.value {
                    Some(value) => format!("{} = {value}\n", field.name),
                    None => format!("# {} is not set\n", field.name),
                });
            }
        }
        text
    }
}

/// A crashed worker's requests are back within a lease and a pass.
fn check_pass(source: &mut Source, worker: &WorkerSettings, reclaimer: &ReclaimerSettings) {
    let soon = reclaimer.every <= worker.lease / 3;
    source.check(soon, "reclaimer", "every", "must be at most a third of worker.lease");
}

/// A worker's queues are declared.
fn check_served(
    source: &mut Source,
    worker: &WorkerSettings,
    queues: &BTreeMap<QueueName, QueueSettings>,
) {
    let declared = worker.queues.iter().flatten().all(|name| queues.contains_key(name));
    source.check(declared, "worker", "queues", "must name queues that are declared");
}
