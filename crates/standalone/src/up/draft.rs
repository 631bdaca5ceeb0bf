//! The settings of `up`: the user's file, and under it what `up` says where the file is silent.
//!
//! The environment is laid over both, as for every role.

use std::path::Path;

use holdfast_runtime::{Environment, Problems, Settings, frame};
use toml::{Table, Value};

/// Stands for the private Redis until it runs. No name ends in `.invalid`, so nobody means it.
const PRIVATE: &str = "redis://private.invalid";
/// Stands for the stand-in until it runs.
const STAND_IN: &str = "http://stand-in.invalid";

/// The field of each role in place of which `up` has one port for all.
const OPS_LISTEN: &str = "ops_listen";

/// Settings that are not complete yet.
pub(crate) struct Draft {
    text: String,
    /// None: the text is no TOML, which the settings tell by line and column.
    table: Option<Table>,
    target: Option<String>,
    for_eyes: bool,
}

/// What `up` runs itself; none: the settings name another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// A Redis.
    pub(crate) redis: bool,
    /// An inference server.
    pub(crate) stand_in: bool,
    /// Fields that are set although it has one port of its own in their place.
    pub(crate) without_effect: Vec<String>,
}

/// Where what `up` runs itself is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) redis: Option<String>,
    pub(crate) stand_in: Option<String>,
}

impl Draft {
    /// Reads the file, if there is one. `target` is for the queue that `up` declares where the file declares none;
    /// `for_eyes`: a person reads the log.
    pub(crate) fn read(
        path: Option<&Path>,
        target: Option<&str>,
        for_eyes: bool,
    ) -> Result<Self, Problems> {
        let text = frame::text(path)?;
        let draft =
            Self { table: text.parse().ok(), text, target: target.map(str::to_owned), for_eyes };
        if draft.declares_queues() && draft.target.is_some() {
            let mut problems = Problems::default();
            let rule = "is for the queue that up declares itself: \
                the settings file declares queues, and each has its own target there";
            problems.refuse("--target", rule);
            return Err(problems);
        }
        Ok(draft)
    }

    /// Checks the settings before anything runs, and says what has to.
    pub(crate) fn check(&self, environment: &Environment) -> Result<Own, Problems> {
        let settings = self.settings(&Places::default(), environment)?;
        settings.files().or(())?;
        let roles = ["producer", "worker", "reclaimer"].into_iter();
        let set = roles.filter(|role| settings.is_given(role, OPS_LISTEN));
        Ok(Own {
            redis: settings.redis.url.expose() == PRIVATE,
            stand_in: self.target.is_none() && !self.declares_queues(),
            without_effect: set.map(|role| format!("{role}.{OPS_LISTEN}")).collect(),
        })
    }

    /// The complete settings.
    pub(crate) fn settings(
        &self,
        places: &Places,
        environment: &Environment,
    ) -> Result<Settings, Problems> {
        let Some(mut table) = self.table.clone() else {
            return Settings::load(&self.text, environment);
        };
        under(&mut table, "redis", "url", places.redis.as_deref().unwrap_or(PRIVATE));
        if self.for_eyes {
            under(&mut table, "log", "format", "pretty");
        }
        if !self.declares_queues() {
            let stand_in = places.stand_in.as_deref().unwrap_or(STAND_IN);
            let target = self.target.as_deref().unwrap_or(stand_in);
            let queue = Table::from_iter([("target".to_owned(), Value::from(target))]);
            let queues = Table::from_iter([("default".to_owned(), Value::from(queue))]);
            table.insert("queues".to_owned(), Value::from(queues));
        }
        Settings::load(&table.to_string(), environment).map_err(|mut problems| {
            if self.target.is_some() {
                problems.rename("queues.default.target", "--target");
            }
            problems
        })
    }

    /// Whether the file says anything about queues.
    fn declares_queues(&self) -> bool {
        let queues = self.table.as_ref().and_then(|table| table.get("queues"));
        queues.is_some_and(|queues| queues.as_table().is_none_or(|queues| !queues.is_empty()))
    }
}

/// Sets a field where the file is silent. What is no section is left for the settings to refuse.
fn under(table: &mut Table, section: &str, field: &str, value: &str) {
    let section = table.entry(section).or_insert_with(|| Value::from(Table::new()));
    if let Value::Table(section) = section {
        section.entry(field).or_insert_with(|| Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const QUEUES: &str = "[queues.mine]\ntarget = \"http://127.0.0.1:8000\"\n";

    fn draft(text: &str, target: Option<&str>) -> Result<Draft, Problems> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Draft::read(Some(file.path()), target, false)
    }

    fn own(text: &str, target: Option<&str>, environment: &Environment) -> (bool, bool) {
        let Own { redis, stand_in, .. } = draft(text, target).unwrap().check(environment).unwrap();
        (redis, stand_in)
    }

    fn nothing() -> Environment {
        Environment::default()
    }

    fn places() -> Places {
        Places {
            redis: Some("redis://127.0.0.1:7001".to_owned()),
            stand_in: Some("http://127.0.0.1:7002".to_owned()),
        }
    }

    #[test]
    fn without_a_file_there_is_one_queue_over_a_redis_and_a_stand_in_of_its_own() {
        let draft = Draft::read(None, None, false).unwrap();
        let own = Own { redis: true, stand_in: true, without_effect: Vec::new() };
        assert_eq!(draft.check(&nothing()).unwrap(), own);
        let settings = draft.settings(&places(), &nothing()).unwrap();
        assert_eq!(settings.redis.url.expose(), "redis://127.0.0.1:7001");
        let queues: Vec<String> =
            settings.queues.iter().map(|(name, it)| format!("{name} {}", it.target)).collect();
        assert_eq!(queues, ["default http://127.0.0.1:7002"]);
        assert_eq!(settings.producer.listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn what_the_user_says_is_not_overruled() {
        let url = "[redis]\nurl = \"redis://elsewhere:6379\"\n";
        assert_eq!(own(url, None, &nothing()), (false, true));
        assert_eq!(own(QUEUES, None, &nothing()), (true, false));
        assert_eq!(own("", Some("http://gateway:8000"), &nothing()), (true, false));
        let variable = Environment::new([("HOLDFAST_REDIS_URL", "redis://elsewhere:6379")]);
        assert_eq!(own("", None, &variable), (false, true));

        let both = format!("{url}{QUEUES}[worker]\nlease = \"6s\"\n");
        let settings = draft(&both, None).unwrap().settings(&places(), &nothing()).unwrap();
        assert_eq!(settings.redis.url.expose(), "redis://elsewhere:6379");
        assert_eq!(settings.worker.lease.as_secs(), 6);
        assert_eq!(settings.queues.len(), 1);
    }

    #[test]
    fn a_roles_own_ops_port_has_no_effect_wherever_it_is_set() {
        let default = "[worker]\nops_listen = \"127.0.0.1:9092\"\n";
        let variable = Environment::new([("HOLDFAST_PRODUCER_OPS_LISTEN", "127.0.0.1:1")]);
        let told = draft(default, None).unwrap().check(&variable).unwrap().without_effect;
        assert_eq!(told, ["producer.ops_listen", "worker.ops_listen"]);
    }

    #[test]
    fn a_target_beside_declared_queues_is_refused() {
        let told = draft(QUEUES, Some("http://gateway:8000")).err().unwrap().to_string();
        assert!(told.contains("--target is for the queue that up declares itself"), "{told}");
    }

    #[test]
    fn every_fault_is_told_as_any_role_tells_it() {
        let faults = |text: &str| draft(text, None).unwrap().check(&nothing()).unwrap_err();
        assert!(faults("[worker\n").to_string().contains("line 1"));
        assert!(faults("redis = 3\n").to_string().contains("redis must be a section"));
        assert!(faults("queues = 3\n").to_string().contains("queues must be sections"));
        let bad = draft("", Some("gateway:8000")).unwrap().check(&nothing()).unwrap_err();
        assert!(bad.to_string().starts_with("--target must be a base URL"), "{bad}");
        let missing = PathBuf::from("no-such-folder/holdfast.toml");
        let told = Draft::read(Some(&missing), None, false).err().unwrap().to_string();
        assert!(told.contains("no-such-folder/holdfast.toml can't be read"), "{told}");
    }
}
