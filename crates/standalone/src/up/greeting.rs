//! What `up` says once it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use holdfast_core::model::QueueName;
use holdfast_runtime::VERSION;
use holdfast_runtime::settings::{ProducerSettings, QueueSettings, RedisUrl};

use crate::cli::AppendFsync;

/// Where everything is, how to try it, how to stop it. Secrets are hidden.
pub(crate) struct Greeting<'a> {
    pub(crate) api: SocketAddr,
    pub(crate) operators: SocketAddr,
    /// How it is called.
    pub(crate) producer: &'a ProducerSettings,
    pub(crate) ops: SocketAddr,
    /// What does not work yet, and why.
    pub(crate) missing: BTreeMap<&'static str, String>,
    pub(crate) redis: &'a RedisUrl,
    /// The folder of the private Redis, and when it writes through.
    pub(crate) private: Option<(PathBuf, AppendFsync)>,
    pub(crate) queues: &'a BTreeMap<QueueName, QueueSettings>,
    /// Whether the stand-in plays the inference server.
    pub(crate) is_stand_in: bool,
}

impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operators, ops, redis, .. } = self;
        let api = self.api();
        writeln!(f, "\nholdfast {VERSION} is up\n")?;
        writeln!(f, "  API     {api}")?;
        writeln!(f, "  ops     http://{ops}/metrics, /readyz, /livez")?;
        let flag = match operators.port() {
            8081 => String::new(),
            _ => format!(" --operator http://{operators}"),
        };
        writeln!(f, "  operate http://{operators}   (holdfastctl queue ls{flag})")?;
        writeln!(f, "  redis   {redis}   (holdfastctl doctor --redis {redis})")?;
        match &self.private {
            Some((dir, appendfsync)) => {
                writeln!(f, "  data    {}", dir.display())?;
                writeln!(f, "          {}", durability(*appendfsync))?;
                if self.producer.keys_file.is_some() {
                    writeln!(f, "          {OPEN}")?;
                }
            }
            None => writeln!(f, "  data    in that redis: no private one was started")?,
        }
        for (name, queue) in self.queues {
            let stand_in = if self.is_stand_in {
                "   THE STAND-IN: no model answers; give yours by --target URL"
            } else {
                ""
            };
            writeln!(f, "  queue   {name} -> {}{stand_in}", queue.target)?;
        }
        for (part, reason) in &self.missing {
            writeln!(f, "  NOT READY YET: {part}: {reason}")?;
        }
        if let Some(queue) = self.queues.keys().next() {
            write!(f, "\n{}", self.try_it(&api, queue.as_str()))?;
        }
        write!(
            f,
            "\nCtrl-C stops it: calls under way may end, the rest is handed back, then redis is closed. \
            The next `up` goes on from there.\n"
        )
    }
}

/// What whoever sets keys may take for granted, and the private Redis does not give.
const OPEN: &str = "NO PASSWORD: keys guard the API alone; every user of this machine can read and change the requests of all \
    tenants at the port of redis above. Where others have accounts, set redis.url to a redis with one";

/// What a crash costs.
fn durability(appendfsync: AppendFsync) -> &'static str {
    match appendfsync {
        AppendFsync::Always => {
            "written through before each answer: what is accepted survives a crash of this machine"
        }
        AppendFsync::Everysec => {
            "written through each second: stopping loses nothing while the disk has room, a crash \
            (kill -9 of redis, power) at most the last second or two; --appendfsync always loses \
            nothing there either"
        }
        AppendFsync::No => {
            "written through when the system pleases: stopping loses nothing while the disk has \
            room, a crash of this machine whatever was not written yet"
        }
    }
}

impl Greeting<'_> {
    /// The API's address as a URL.
    fn api(&self) -> String {
        let scheme = if self.producer.tls_cert_file.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.api)
    }

    /// A line to copy.
    fn try_it(&self, api: &str, queue: &str) -> String {
        let key = match &self.producer.keys_file {
            Some(_) => "-H \"authorization: Bearer $HOLDFAST_KEY\" ",
            None => "",
        };
        format!(
            "Try it:\n  curl -i {api}/v1/queues/{queue}/requests {key}-H 'content-type: application/json' \
            -H 'prefer: wait=30' \\\n    -d '{{\"payload\": {{\"model\": \"stand-in\", \"messages\": \
            [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}}}'\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use holdfast_runtime::{Environment, Settings};

    use super::*;

    fn settings(redis: &str) -> Settings {
        let text = format!(
            "[redis]\nurl = \"{redis}\"\n[queues.default]\ntarget = \"http://127.0.0.1:7002\"\n"
        );
        Settings::load(&text, &Environment::default()).unwrap()
    }

    fn told(
        settings: &Settings,
        private: Option<(PathBuf, AppendFsync)>,
        stand_in: bool,
    ) -> String {
        greeting(settings, private, stand_in).to_string()
    }

    fn greeting(
        settings: &Settings,
        private: Option<(PathBuf, AppendFsync)>,
        is_stand_in: bool,
    ) -> Greeting<'_> {
        Greeting {
            api: ([127, 0, 0, 1], 8080).into(),
            operators: ([127, 0, 0, 1], 8081).into(),
            producer: &settings.producer,
            ops: ([127, 0, 0, 1], 9090).into(),
            missing: BTreeMap::from([("redis", "unreachable".to_owned())]),
            redis: &settings.redis.url,
            private,
            queues: &settings.queues,
            is_stand_in,
        }
    }

    #[test]
    fn it_says_where_everything_is() {
        let settings = settings("redis://127.0.0.1:7001");
        let private = Some((PathBuf::from("/srv/holdfast-data"), AppendFsync::Everysec));
        let told = told(&settings, private, true);
        for part in [
            "http://127.0.0.1:8080",
            "http://127.0.0.1:9090/metrics",
            "http://127.0.0.1:8081   (holdfastctl queue ls)",
            "--redis redis://127.0.0.1:7001",
            "/srv/holdfast-data",
            "default -> http://127.0.0.1:7002",
            "THE STAND-IN",
            "curl -i http://127.0.0.1:8080/v1/queues/default/requests",
            "each second",
            "NOT READY YET: redis: unreachable",
        ] {
            assert!(told.contains(part), "{part} is missing in {told}");
        }
    }

    #[test]
    fn whoever_sets_keys_is_told_that_the_private_redis_has_none() {
        let mut settings = settings("redis://127.0.0.1:7001");
        let private = || Some((PathBuf::from("/srv/holdfast-data"), AppendFsync::Everysec));
        assert!(!told(&settings, private(), true).contains("NO PASSWORD"));
        settings.producer.keys_file = Some("keys".into());
        assert!(told(&settings, private(), true).contains("NO PASSWORD"));
        assert!(!told(&settings, None, true).contains("NO PASSWORD"), "it is somebody else's");
    }

    #[test]
    fn a_password_is_hidden_and_a_real_target_is_no_stand_in() {
        let told = told(&settings("redis://user:S3CRET@elsewhere:6379"), None, false);
        assert!(!told.contains("S3CRET") && told.contains("elsewhere:6379"), "{told}");
        assert!(!told.contains("STAND-IN"), "{told}");
    }

    #[test]
    fn the_line_to_copy_holds_json() {
        let mut settings = settings("redis://127.0.0.1:7001");
        let line = greeting(&settings, None, true).try_it("http://h", "default");
        let json = line.split("-d '").nth(1).unwrap().trim_end().trim_end_matches('\'');
        let body: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(body["payload"]["messages"][0]["content"], "Hello");
        assert!(!line.contains("authorization"), "{line}");
        settings.producer.keys_file = Some("keys".into());
        let line = greeting(&settings, None, true).try_it("http://h", "default");
        assert!(line.contains("$HOLDFAST_KEY"), "{line}");
    }
}
