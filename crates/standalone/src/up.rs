//! `holdfast up`: every role in one process, over a private Redis in a folder of its own.

mod draft;
mod greeting;
mod stand_in;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_producer::Addresses;
use holdfast_runtime::serve::BindError;
use holdfast_runtime::{
    BoxError, Chain, Environment, Health, Problems, Process, Services, Settings, flush_logs,
};
use tokio::time::{Instant, sleep};

use crate::cli;
use crate::console::{say, unusable};
use crate::private_redis::{self, Kept, NoRedis, note_stop};
use draft::{Draft, Places};
use greeting::Greeting;
use stand_in::Aside;

/// How long a start may take without a word.
const READY_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What does not work, and why.
type Missing = BTreeMap<&'static str, String>;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
enum NotUp {
    #[error("unusable settings")]
    Settings(Problems),
    #[error(transparent)]
    Redis(#[from] NoRedis),
    #[error("the stand-in does not start")]
    StandIn(#[source] io::Error),
}

/// A port that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("no port for {what}: choose another address by {setting}")]
struct NoPort {
    what: &'static str,
    setting: &'static str,
    source: BoxError,
}

impl NoPort {
    /// Says how to choose another, if that is what the error is about.
    fn named(what: &'static str, setting: &'static str) -> impl FnOnce(BoxError) -> BoxError {
        move |source| {
            if source.is::<BindError>() { Self { what, setting, source }.into() } else { source }
        }
    }
}

/// What each role takes of the settings.
struct Configs {
    producer: holdfast_producer::Config,
    worker: holdfast_worker::Config,
    reclaimer: holdfast_reclaimer::Config,
}

impl Configs {
    fn read(settings: &Settings) -> Result<Self, Problems> {
        Ok(Self {
            producer: holdfast_producer::Config::read(settings)?,
            worker: holdfast_worker::Config::read(settings)?,
            reclaimer: holdfast_reclaimer::Config::read(settings)?,
        })
    }
}

/// Everything that is there before the first role starts, and after the last has ended.
struct Up {
    args: cli::Up,
    settings: Settings,
    configs: Configs,
    redis: Option<Kept>,
    stand_in: Option<Aside>,
}

/// Runs until a signal; then drains the roles, and stops Redis last.
pub(crate) fn run(mut process: Process, args: cli::Up) -> ExitCode {
    // It may fetch a server: who does not want to wait for that is heard.
    let up = match process.prepare(move || Up::prepare(args, &Environment::of_process())) {
        Ok(Ok(up)) => up,
        Ok(Err(NotUp::Settings(problems))) => return unusable(&problems),
        Ok(Err(err)) => {
            say(Chain(&err));
            return ExitCode::FAILURE;
        }
        Err(code) => return code,
    };
    let ended = process.run(&up.settings.log, async || up.start().await);
    let ended = match &up.redis {
        // The roles have settled or handed back what they had: now it can be closed.
        Some(redis) => note_stop(redis.stop(), ended),
        None => ended,
    };
    flush_logs();
    ended
}

/// What is said of a setting that `up` does not follow.
fn no_effect(field: &str, ops: SocketAddr) -> String {
    format!(
        "{field} has no effect here: up tells health and metrics of all roles on {ops} (--ops-listen)"
    )
}

/// Whether a person reads the log.
fn for_eyes() -> bool {
    io::stdout().is_terminal()
}

impl Up {
    /// Checks the settings, then starts what the roles need.
    fn prepare(args: cli::Up, environment: &Environment) -> Result<Self, NotUp> {
        let draft = Draft::read(args.config.as_deref(), args.target.as_deref(), for_eyes());
        let draft = draft.map_err(NotUp::Settings)?;
        let own = draft.check(environment).map_err(NotUp::Settings)?;
        own.without_effect.iter().for_each(|field| say(no_effect(field, args.ops_listen)));

        let started = || private_redis::start(&args.server, &args.data, args.appendfsync.into());
        let redis = own.redis.then(started).transpose()?.map(Kept::new);
        let stand_in = own.stand_in.then(Aside::start).transpose().map_err(NotUp::StandIn)?;
        let places = Places {
            redis: redis.as_ref().map(Kept::url),
            stand_in: stand_in.as_ref().map(Aside::url),
        };
        let settings = draft.settings(&places, environment).map_err(NotUp::Settings)?;
        let configs = Configs::read(&settings).map_err(NotUp::Settings)?;
        Ok(Self { args, settings, configs, redis, stand_in })
    }

    /// Starts all roles under one roof.
    async fn start(&self) -> Result<Services, BoxError> {
        let mut services = Services::new();
        let redis = services.open_redis(&self.settings.redis)?;
        let no_ops = NoPort::named("health and metrics", "--ops-listen");
        let ops = services.open_ops("--ops-listen", self.args.ops_listen).await.map_err(no_ops)?;
        let listening = self.start_roles(&mut services, &redis).await?;
        if let Some(private) = &self.redis {
            let private = private.clone();
            services.spawn("private redis", |stop| private.keep(stop));
        }
        say(self.greeting(listening, ops, until_ready(services.health()).await));
        Ok(services)
    }

    /// Says where the producer listens.
    async fn start_roles(
        &self,
        services: &mut Services,
        redis: &Redis,
    ) -> Result<Addresses, BoxError> {
        let Configs { producer, worker, reclaimer } = &self.configs;
        let no_api = NoPort::named(
            "the API or operators' calls",
            "HOLDFAST_PRODUCER_LISTEN, HOLDFAST_PRODUCER_OPERATOR_LISTEN or [producer]",
        );
        let listening = holdfast_producer::spawn(services, redis.clone(), producer.clone()).await;
        let listening = listening.map_err(no_api)?;
        holdfast_worker::spawn(services, redis.clone(), worker.clone())?;
        holdfast_reclaimer::spawn(services, redis.clone(), reclaimer.clone());
        Ok(listening)
    }

    fn greeting(&self, listening: Addresses, ops: SocketAddr, missing: Missing) -> Greeting<'_> {
        Greeting {
            api: listening.api,
            operators: listening.operators,
            producer: &self.settings.producer,
            ops,
            missing,
            redis: &self.settings.redis.url,
            private: self.redis.as_ref().map(|redis| (redis.dir(), self.args.appendfsync)),
            queues: &self.settings.queues,
            is_stand_in: self.stand_in.is_some(),
        }
    }
}

/// Waits until everything works, or for a while; gives what does not work yet.
async fn until_ready(health: &Health) -> Missing {
    let until = Instant::now() + READY_LIMIT;
    loop {
        let missing = health.reasons();
        if missing.is_empty() || Instant::now() >= until {
            return missing;
        }
        sleep(LOOK_AGAIN).await;
    }
}
