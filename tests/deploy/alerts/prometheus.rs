//! A Prometheus of the test's own: scrapes what it is told to, evaluates the rules it is given, answers queries.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use holdfast_testkit::{Http, Process, eventually, free_port};
use serde_json::Value;
use tempfile::TempDir;

use crate::fleet::SOON;

/// The labels of a series, its name among them as `__name__`.
pub(crate) type Labels = BTreeMap<String, String>;

/// How often it scrapes and evaluates.
const EVERY: &str = "500ms";

/// A server with a folder of its own. It ends with its owner.
pub(crate) struct Prometheus {
    url: String,
    http: Http,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these ports with these rules, and waits until each was scraped. None where there is no
    /// Prometheus; in CI that is a failure.
    pub(crate) async fn start(ports: &[u16], rules: &str) -> Option<Self> {
        let program = tool("prometheus")?;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let targets: Vec<String> =
            ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let settings = format!(
            "global: {{scrape_interval: {EVERY}, scrape_timeout: {EVERY}, evaluation_interval: {EVERY}}}\n\
             rule_files: [rules.yml]\nscrape_configs:\n  - job_name: holdfast\n    static_configs:\n      \
             - targets: [{}]\n",
            targets.join(", ")
        );
        fs::write(path("prometheus.yml"), settings).expect("a settings file");
        fs::write(path("rules.yml"), rules).expect("a file of rules");
        let port = free_port();
        let arguments = [
            format!("--config.file={}", path("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", path("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        let prometheus = Self {
            url: format!("http://127.0.0.1:{port}"),
            http: Http::new(),
            _process: Process::start(program, &arguments, &[]),
            _folder: folder,
        };
        eventually("each port is scraped", SOON, async || {
            let up = prometheus.try_query("sum(up)").await?;
            match up.first() {
                Some((_, up)) if *up == ports.len() as f64 => Ok(()),
                up => Err(format!("{up:?} of {}", ports.len())),
            }
        })
        .await;
        Some(prometheus)
    }

    /// What an expression gives now: series and values.
    ///
    /// # Panics
    ///
    /// If it cannot be evaluated.
    pub(crate) async fn query(&self, expression: &str) -> Vec<(Labels, f64)> {
        self.try_query(expression).await.unwrap_or_else(|err| panic!("{expression}: {err}"))
    }

    async fn try_query(&self, expression: &str) -> Result<Vec<(Labels, f64)>, String> {
        let told = self.ask(&format!("query?query={}", escaped(expression))).await?;
        let rows = told["result"].as_array().ok_or("no vector")?;
        let row = |row: &Value| {
            let value = row["value"][1].as_str()?.parse().ok()?;
            Some((labels(&row["metric"])?, value))
        };
        rows.iter().map(|found| row(found).ok_or_else(|| found.to_string())).collect()
    }

    /// The labels of every series that fits.
    pub(crate) async fn series(&self, selector: &str) -> Vec<Labels> {
        let told =
            self.ask(&format!("series?match[]={}", escaped(selector))).await.expect("series");
        told.as_array().expect("a list").iter().map(|it| labels(it).expect("labels")).collect()
    }

    /// What each metric is said to be: counter, gauge, histogram.
    pub(crate) async fn kinds(&self) -> BTreeMap<String, String> {
        let told = self.ask("metadata").await.expect("metadata");
        let metrics = told.as_object().expect("metrics");
        let kind = |told: &Value| told[0]["type"].as_str().expect("a type").to_owned();
        metrics.iter().map(|(name, told)| (name.clone(), kind(told))).collect()
    }

    /// The names of its alerts. Each could be evaluated.
    pub(crate) async fn alerts(&self) -> BTreeSet<String> {
        let told = self.ask("rules").await.expect("rules");
        let rules = told["groups"].as_array().expect("groups").iter();
        let rules = rules.flat_map(|group| group["rules"].as_array().expect("rules"));
        rules
            .map(|rule| {
                assert_eq!(rule["health"], "ok", "{rule}");
                rule["name"].as_str().expect("a name").to_owned()
            })
            .collect()
    }

    /// The names of the alerts that fire.
    pub(crate) async fn firing(&self) -> BTreeSet<String> {
        let told = self.ask("alerts").await.expect("alerts");
        let alerts = told["alerts"].as_array().expect("a list").iter();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        firing
            .map(|alert| alert["labels"]["alertname"].as_str().expect("a name").to_owned())
            .collect()
    }

    async fn ask(&self, path: &str) -> Result<Value, String> {
        let url = format!("{}/api/v1/{path}", self.url);
        let answer = self.http.try_request("GET", &url, &[], "").await?;
        let mut told: Value =
            serde_json::from_slice(&answer.body).map_err(|err| err.to_string())?;
        if told["status"] == "success" { Ok(told["data"].take()) } else { Err(told.to_string()) }
    }
}

fn labels(told: &Value) -> Option<Labels> {
    let pairs = told.as_object()?.iter();
    pairs.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// An expression as a query of a URL wants it.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(byte).collect()
}

/// Where a program of Prometheus is. None: nowhere, which is said past the capture of the test; in CI it is a failure.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).map(|folder| folder.join(name)).find(|it| it.is_file());
    if found.is_none() {
        let why = format!("{name} is not installed (Debian: prometheus)");
        assert!(
            env::var_os("CI").is_none_or(|ci| ci.is_empty()),
            "in CI there is no way around it: {why}"
        );
        let told = format!("\nSKIPPED, NOT TESTED: {why}\n");
        std::io::stderr().write_all(told.as_bytes()).expect("standard error");
    }
    found
}
