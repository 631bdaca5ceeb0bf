//! Redis, where there is no producer to ask.

use std::path::Path;

use holdfast_core::model::QueueName;
use holdfast_core::operate::{self, ActError, Queue};
use holdfast_core::redis::Options;
use holdfast_core::{Redis, StoreError};
use holdfast_runtime::settings::RedisSettings;
use holdfast_runtime::{Environment, Settings, frame};

use crate::args::{Hidden, RedisArgs};
use crate::failure::Failure;

/// Redis, and how it may be called in front of people.
pub(crate) struct Store {
    pub(crate) redis: Redis,
    place: String,
}

impl Store {
    /// Starts to connect.
    pub(crate) fn open(args: &RedisArgs) -> Result<Self, Failure> {
        let settings = settings(args, &Environment::of_process())?;
        let place = settings.url.to_string();
        let redis = Redis::open(Options::from(&settings))
            .map_err(|err| Failure::Store { place: place.clone(), fault: err.to_string() })?;
        Ok(Self { redis, place })
    }

    /// The same place by a connection that a server with a full disk lets in.
    pub(crate) fn for_a_look(&self) -> Result<Self, Failure> {
        let place = self.place.clone();
        let redis = self.redis.for_a_look();
        let redis =
            redis.map_err(|err| Failure::Store { place: place.clone(), fault: err.to_string() })?;
        Ok(Self { redis, place })
    }

    /// The queues that are registered, or the one that is asked for.
    pub(crate) async fn queues(&self, only: Option<&QueueName>) -> Result<Vec<Queue>, Failure> {
        let queues = self.told(operate::queues(&self.redis).await)?;
        self.among(queues, only)
    }

    /// All of these, or the one that is asked for.
    pub(crate) fn among(
        &self,
        queues: Vec<Queue>,
        only: Option<&QueueName>,
    ) -> Result<Vec<Queue>, Failure> {
        let Some(only) = only else { return Ok(queues) };
        match queues.iter().find(|queue| queue.name == *only) {
            None => Err(unregistered(only, &queues)),
            Some(found) => Ok(vec![found.clone()]),
        }
    }

    /// One queue by its name.
    pub(crate) async fn queue(&self, name: &QueueName) -> Result<Queue, Failure> {
        let found = self.queues(Some(name)).await?.into_iter().next();
        found.ok_or_else(|| unregistered(name, &[]))
    }

    /// What an action did, or why it did nothing.
    pub(crate) fn acted<T>(&self, done: Result<T, ActError>) -> Result<T, Failure> {
        match done {
            Ok(done) => Ok(done),
            Err(ActError::Store(err)) => self.told(Err(err)),
            Err(err) => Err(Failure::Unknown(err.to_string())),
        }
    }

    /// An answer, or why there is none: without Redis' own words, which may quote what was sent.
    pub(crate) fn told<T>(&self, answer: Result<T, StoreError>) -> Result<T, Failure> {
        answer.map_err(|err| {
            let hint = match (&err, self.redis.why_lost()) {
                (StoreError::Unanswered { .. }, Some(why)) => format!("; {why}"),
                (StoreError::Unanswered { .. }, None) => {
                    "; is it up, and are user and password right?".to_owned()
                }
                _ => err.refused_writes().map_or_else(String::new, |why| format!("; {why}")),
            };
            Failure::Store { place: self.place.clone(), fault: format!("{err}{hint}") }
        })
    }
}

/// How many queues are named where one is not known.
const NAMED: usize = 8;

fn unregistered(name: &QueueName, there: &[Queue]) -> Failure {
    let mut names: Vec<&str> = there.iter().take(NAMED).map(|queue| queue.name.as_str()).collect();
    if there.len() > NAMED {
        names.push("… (holdfastctl queue ls)");
    }
    let there = match names.is_empty() {
        true => "no role has registered any".to_owned(),
        false => format!("there is {}", names.join(", ")),
    };
    Failure::Unknown(format!("no queue {name} is registered; {there}"))
}

/// An address as it may be shown: without its passwords.
pub(crate) fn shown(url: &Hidden) -> Option<String> {
    let args = RedisArgs { redis: Some(url.clone()), config: None };
    settings(&args, &Environment::default()).ok().map(|settings| settings.url.to_string())
}

/// The address goes through the settings' own check, which never repeats it. Where the command line says nothing, the
/// environment says it, as to every role.
fn settings(args: &RedisArgs, environment: &Environment) -> Result<RedisSettings, Failure> {
    if let Some(url) = &args.redis {
        let text = format!("[redis]\nurl = {}\n", toml_text(&url.0));
        let settings = Settings::load(&text, &Environment::default());
        return settings.map(|settings| settings.redis).map_err(|mut problems| {
            problems.rename("redis.url", "--redis");
            Failure::Settings(problems)
        });
    }
    let path = args.config.as_deref().or_else(|| environment.config().map(Path::new));
    let settings = frame::load(path, environment).map_err(Failure::Settings)?;
    if path.is_none() && !settings.is_given("redis", "url") {
        return Err(Failure::Usage(NOWHERE.to_owned()));
    }
    settings.redis_files().or(settings.redis).map_err(Failure::Settings)
}

const NOWHERE: &str = "holdfastctl: nothing says where Redis is: --redis URL, --config PATH, or HOLDFAST_CONFIG or \
    HOLDFAST_REDIS_URL in the environment";

/// A text as TOML wants it: like JSON, but for the one letter that only JSON takes as it is.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_url(url: &str) -> Result<RedisSettings, Failure> {
        let args = RedisArgs { redis: Some(Hidden(url.to_owned())), config: None };
        settings(&args, &Environment::default())
    }

    #[test]
    fn where_the_command_line_says_nothing_the_environment_says_where_redis_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("holdfast.toml");
        std::fs::write(&path, "[redis]\nurl = \"redis://of-the-file\"\n").unwrap();
        let path = path.to_str().unwrap();
        let by = |variables: &[(&str, &str)], args: RedisArgs| {
            settings(&args, &Environment::new(variables.iter().copied()))
                .map(|settings| settings.url.expose().to_owned())
        };
        let nothing = || RedisArgs { redis: None, config: None };
        let config = ("HOLDFAST_CONFIG", path);
        let url = ("HOLDFAST_REDIS_URL", "redis://of-the-environment");
        assert_eq!(by(&[config], nothing()).unwrap(), "redis://of-the-file");
        assert_eq!(by(&[url], nothing()).unwrap(), "redis://of-the-environment");
        assert_eq!(by(&[config, url], nothing()).unwrap(), "redis://of-the-environment");
        let named = RedisArgs { redis: Some(Hidden("redis://named".to_owned())), config: None };
        assert_eq!(by(&[config, url], named).unwrap(), "redis://named");
        let told = by(&[], nothing()).unwrap_err();
        assert_eq!(told.code(), 2);
        assert!(told.to_string().contains("HOLDFAST_CONFIG"), "{told}");
    }

    #[test]
    fn an_address_is_taken_whole_and_shown_without_its_password() {
        let url = "redis://ad:S3\"CRET%5c@h:1/2";
        let settings = by_url(url).unwrap();
        assert_eq!(settings.url.expose(), url);
        assert!(!settings.url.to_string().contains("CRET"));
    }

    #[test]
    fn what_is_no_address_is_not_repeated() {
        for url in ["S3CRET", "redis://ad:S3CRET@h:port", "http://S3CRET", "\"\n\u{7f}S3CRET\\"] {
            let told = by_url(url).unwrap_err().to_string();
            assert!(told.contains("--redis must") && !told.contains("S3CRET"), "{told}");
        }
    }

    #[test]
    fn a_text_is_toml_whatever_stands_in_it() {
        for text in ["", "a\"b\\c", "\u{7f}\u{0}\u{1f}\t\r\n", "é\u{2028}😀"] {
            let written = format!("url = {}", toml_text(text));
            let message =
                Settings::load(&written, &Environment::default()).unwrap_err().to_string();
            assert!(!message.contains("TOML"), "{text:?}: {message}");
        }
    }
}
