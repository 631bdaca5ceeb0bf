//! `[log]` and `[traces]`: what a process tells about itself.

use hyper::Uri;
use tracing_subscriber::EnvFilter;

use super::given::Given;
use super::section::{Section, Shown};
use super::target::Target;
use super::value::{Setting, quoted};

/// `[log]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// For machines or for eyes.
    pub format: LogFormat,
    /// Which events, as `tracing` spells it.
    pub filter: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// One readable line.
    Pretty,
}

/// `[traces]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesSettings {
    /// Where traces go; none: nowhere.
    pub endpoint: Option<Collector>,
}

/// A collector of traces that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    base: Target,
    traces: Uri,
}

impl Collector {
    /// Where it takes spans.
    pub fn traces(&self) -> &Uri {
        &self.traces
    }
}

impl Setting for Collector {
    const RULE: &'static str = "must be the base URL of a collector that takes OTLP over HTTP, like \
        http://collector:4318, without TLS, user, password, query or fragment";
    // What could not be parsed may hold a password anywhere.
    const HIDDEN: bool = true;

    fn read(given: &Given) -> Option<Self> {
        let base = Target::read(given).filter(|base| !base.is_tls())?;
        let traces = format!("{base}/v1/traces").parse().ok()?;
        Some(Self { base, traces })
    }

    fn write(&self) -> String {
        self.base.write()
    }
}

impl Setting for LogFormat {
    const RULE: &'static str = "must be json or pretty";

    fn read(given: &Given) -> Option<Self> {
        match given.text()? {
            "json" => Some(Self::Json),
            "pretty" => Some(Self::Pretty),
            _ => None,
        }
    }

    fn write(&self) -> String {
        quoted(match self {
            Self::Json => "json",
            Self::Pretty => "pretty",
        })
    }
}

struct Filter(String);

impl Setting for Filter {
    const RULE: &'static str =
        "must be levels and targets, like info or info,holdfast_worker=debug";

    fn read(given: &Given) -> Option<Self> {
        let text = given.text()?;
        let fine = !text.is_empty() && EnvFilter::try_new(text).is_ok();
        fine.then(|| Self(text.to_owned()))
    }

    fn write(&self) -> String {
        quoted(&self.0)
    }
}

pub(super) fn read_log(mut section: Section<'_>) -> (Option<LogSettings>, Shown) {
    let format: Option<LogFormat> = section.field("format", "json");
    let filter: Option<Filter> = section.field("filter", "info");
    let shown = section.finish();
    let checked = || Some(LogSettings { format: format?, filter: filter?.0 });
    (checked(), shown)
}

pub(super) fn read_traces(mut section: Section<'_>) -> (Option<TracesSettings>, Shown) {
    let endpoint = section.optional("endpoint");
    let shown = section.finish();
    (endpoint.map(|endpoint| TracesSettings { endpoint }), shown)
}
