//! The real roles, started as their Deployments say, over a Redis with the settings and users of the manifests.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use holdfast_testkit::http::Answer;
use holdfast_testkit::stand_in::Options;
use holdfast_testkit::{Client, Http, Process, RedisServer, StandIn, eventually, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

use crate::rendered::{Rendered, list, pods};
use crate::settings::{container, redis_conf};

/// How long a test waits for what must come.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Where the settings of the manifests say the gateway is.
const GATEWAY: &str = "http://gateway.inference.svc.cluster.local:8000";

/// A user for the test's own looks.
const TESTER: &str = "user tester on nopass ~* &* +@all\n";

/// The ports of the manifests can be had once.
static PORTS: Mutex<()> = Mutex::const_new(());

/// Redis, a gateway, and what the pods mount.
pub(crate) struct Stage {
    /// Redis; the test is logged in.
    pub(crate) redis: RedisServer,
    /// The gateway.
    pub(crate) gateway: StandIn,
    /// A client for the roles.
    pub(crate) http: Http,
    /// The manifests.
    pub(crate) base: Rendered,
    secrets: Rendered,
    /// A caller's key.
    key: String,
    folder: TempDir,
    /// Where the gateway is told to be, and what stands in the settings besides.
    target: String,
    more: String,
    _ports: MutexGuard<'static, ()>,
}

/// A role that runs.
pub(crate) struct Running {
    /// The process.
    pub(crate) process: Process,
    /// Its ports by their names.
    pub(crate) ports: BTreeMap<String, u16>,
}

/// How a container is started: its words, its variables, its ports.
pub(crate) struct Start {
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// The ports that it opens.
    pub(crate) ports: BTreeMap<String, u16>,
}

impl Stage {
    /// Sets the stage; none where the manifests can't be rendered. `target` makes the gateway's URL of its port, `more` is
    /// added to the settings.
    pub(crate) async fn set(target: impl Fn(u16) -> String, more: &str) -> Option<Self> {
        let ports = PORTS.lock().await;
        let (base, mut secrets) = (Rendered::kustomized("base")?, Rendered::secrets()?);
        let (key, line) = new_key().await;
        let keys = json!({
            "kind": "Secret", "metadata": {"name": "holdfast-keys"}, "stringData": {"keys": line}
        });
        secrets.objects.push(keys);
        let folder = tempfile::tempdir().expect("a folder");
        let redis = redis(&base, &secrets, folder.path()).await;
        let greeting = redis.command(&["AUTH", "tester", "-"]).await;
        assert_eq!(greeting.text(), Some("OK"), "{greeting:?}");
        let gateway = StandIn::start(Options::default()).await.expect("a stand-in");
        let target = target(gateway.address().port());
        let more = more.replace(GATEWAY, &target);
        let http = Http::new();
        Some(Self { redis, gateway, http, base, secrets, key, folder, target, more, _ports: ports })
    }

    /// How the role's Deployment starts its container, with its ports as they are unless somebody has them.
    pub(crate) fn start_of(&self, role: &str) -> Start {
        let pods = pods(&self.base.objects);
        let (_, container) = container(&pods, role);
        let words = list(&container["args"]).iter().map(text).collect();
        let variable = |it: &Value| (text(&it["name"]), text(&it["value"]));
        let mut environment: Vec<_> = list(&container["env"]).iter().map(variable).collect();
        let mut ports = BTreeMap::new();
        for port in list(&container["ports"]) {
            let (name, wanted) = (text(&port["name"]), port["containerPort"].as_u64());
            let wanted = u16::try_from(wanted.expect("a number")).expect("a port");
            let mine = if is_free(wanted) { wanted } else { free_port() };
            if mine != wanted {
                let field = if name == "ops" { "OPS_LISTEN" } else { "LISTEN" };
                let variable = format!("HOLDFAST_{}_{field}", role.to_uppercase());
                environment.push((variable, format!("0.0.0.0:{mine}")));
            }
            ports.insert(name, mine);
        }
        // Operators reach it through the pod's own loopback, which is this machine's here.
        if role == "producer" {
            let own = format!("127.0.0.1:{}", free_port());
            environment.push(("HOLDFAST_PRODUCER_OPERATOR_LISTEN".to_owned(), own));
        }
        Start { words, environment, ports }
    }

    /// Lays what the role's pod mounts below a folder.
    pub(crate) fn mount(&self, role: &str, root: &Path) {
        let pods = pods(&self.base.objects);
        let (spec, container) = container(&pods, role);
        for mount in list(&container["volumeMounts"]) {
            let volume = list(&spec["volumes"]).iter().find(|it| it["name"] == mount["name"]);
            let files = self.files(volume.expect("a volume"));
            let at = root.join(text(&mount["mountPath"]).trim_start_matches('/'));
            fs::create_dir_all(&at).expect("a folder");
            for (name, text) in files {
                fs::write(at.join(name), text).expect("a file");
            }
        }
    }

    /// The files of a volume.
    fn files(&self, volume: &Value) -> Vec<(String, String)> {
        let objects = self.base.objects.iter().chain(&self.secrets.objects);
        let wanted = [&volume["configMap"]["name"], &volume["secret"]["secretName"]];
        let mut found = objects.filter(|it| wanted.contains(&&it["metadata"]["name"]));
        let data = found.find_map(|it| it["data"].as_object().or(it["stringData"].as_object()));
        let files = data.into_iter().flatten().map(|(name, value)| (name.clone(), text(value)));
        files
            .map(
                |(name, text)| {
                    if name == "holdfast.toml" {
                        (name, self.settings(&text))
                    } else {
                        (name, text)
                    }
                },
            )
            .collect()
    }

    /// The settings of the manifests with this stage's gateway.
    fn settings(&self, text: &str) -> String {
        assert!(text.contains(GATEWAY), "the gateway of the manifests is another");
        format!("{}\n{}", text.replace(GATEWAY, &self.target), self.more)
    }

    /// Starts a role as its Deployment says, with these variables on top.
    pub(crate) fn start(&self, role: &str, more: &[(&str, &str)]) -> Running {
        let root = self.folder.path().join(role);
        self.mount(role, &root);
        let Start { words, environment, ports } = self.start_of(role);
        // What is mounted lies below a folder of this test.
        let placed = |text: &str| {
            let mounted = text.starts_with("/etc/holdfast/") || text.starts_with("/var/run/");
            if mounted { format!("{}{text}", root.display()) } else { text.to_owned() }
        };
        let url = self.redis.url().to_owned();
        let settings: toml::Table = self.base.settings().parse().expect("TOML");
        let keys = settings["producer"]["keys_file"].as_str().expect("a path");
        let own = [
            ("HOLDFAST_REDIS_URL".to_owned(), url),
            ("HOLDFAST_PRODUCER_KEYS_FILE".to_owned(), placed(keys)),
        ];
        let environment: Vec<(String, String)> = environment
            .into_iter()
            .map(|(name, value)| (name, placed(&value)))
            .chain(own)
            .collect();
        let mut pairs: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.extend(more);
        let arguments: Vec<String> = words.iter().skip(1).map(|word| placed(word)).collect();
        let process = Process::start(program(&words[0]), &arguments, &pairs);
        Running { process, ports }
    }

    /// A password of a user, as the pods get it.
    pub(crate) fn password(&self, user: &str) -> String {
        let secret = self.secrets.object("Secret", &format!("holdfast-redis-{user}"));
        text(&secret["stringData"]["password"]).trim_end().to_owned()
    }

    /// A connection as a user; what the server says to the password comes with it.
    pub(crate) async fn log_in(
        &self,
        user: &str,
        password: &str,
    ) -> (Client, holdfast_testkit::Value) {
        let client = Client::new(self.redis.port());
        let told = client.command(&["AUTH", user, password]).await;
        (client, told)
    }

    /// Asks every probe of the role's Deployment until it says yes.
    pub(crate) async fn probed(&self, role: &str, running: &Running) {
        let pods = pods(&self.base.objects);
        let (_, container) = container(&pods, role);
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let get = &container[probe]["httpGet"];
            let port = running.ports[&text(&get["port"])];
            let url = format!("http://127.0.0.1:{port}{}", text(&get["path"]));
            let what = format!("{role}: {probe}");
            eventually(&what, SOON, async || {
                match self.http.try_request("GET", &url, &[], "").await {
                    Ok(answer) if answer.status == 200 => Ok(()),
                    Ok(answer) => Err(format!("{}: {}", answer.status, answer.text())),
                    Err(err) => Err(err),
                }
            })
            .await;
        }
    }

    /// Calls the API of a producer.
    pub(crate) async fn call(&self, api: &Running, method: &str, path: &str, body: &str) -> Answer {
        let url = format!("http://127.0.0.1:{}/v1/queues/{path}", api.ports["api"]);
        let key = format!("Bearer {}", self.key);
        let mut headers = vec![("authorization", key.as_str())];
        if !body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        self.http.request(method, &url, &headers, body.to_owned()).await
    }

    /// Submits a request whose body names it; it must be accepted.
    pub(crate) async fn submit(&self, api: &Running, queue: &str, id: &str, timeout: &str) {
        let item =
            format!(r#"{{"id":"{id}","timeout":"{timeout}","payload":{{"content":"<{id}>"}}}}"#);
        let answer = self.call(api, "POST", &format!("{queue}/requests"), &item).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// Waits for the end of a request and gives its outcome.
    pub(crate) async fn outcome(&self, api: &Running, queue: &str, id: &str) -> String {
        let path = format!("{queue}/requests/{id}/result?wait=5");
        eventually(&format!("{id} ends"), SOON, async || {
            let answer = self.call(api, "GET", &path, "").await;
            match answer.header("holdfast-outcome") {
                Some(outcome) if answer.status == 200 => Ok(outcome.to_owned()),
                _ => Err(format!("{}: {}", answer.status, answer.text())),
            }
        })
        .await
    }
}

/// A key of a caller, and the line that lets it in.
async fn new_key() -> (String, String) {
    let words = "key new --tenant acme --scopes submit,read,cancel --output json";
    let words: Vec<&str> = words.split(' ').collect();
    let told = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &words, &[]).await;
    let made: Value = serde_json::from_str(&told.stdout).expect("JSON of key new");
    (text(&made["key"]), text(&made["line"]))
}

/// Starts Redis with `redis.conf` and the users of the manifests; only where it listens and keeps its files differs.
async fn redis(base: &Rendered, secrets: &Rendered, folder: &Path) -> RedisServer {
    let (conf, acl) = (folder.join("redis.conf"), folder.join("users.acl"));
    let users = text(&secrets.object("Secret", "holdfast-redis-users")["stringData"]["users.acl"]);
    fs::write(&acl, users + TESTER).expect("users.acl");
    let port = free_port();
    RedisServer::with(|options| {
        options.port = Some(port);
        // It is looked for while the file is read.
        let dir = format!("dir {}", options.dir.display());
        fs::write(&conf, redis_conf(base).replace("dir /data", &dir)).expect("redis.conf");
        let own = [
            ("--include", conf.display().to_string()),
            ("--aclfile", acl.display().to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
        ];
        options.args = own.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    })
    .await
}

/// The program of the tests that an image has under this name.
fn program(name: &str) -> &'static str {
    match name {
        "holdfast-producer" => env!("CARGO_BIN_EXE_it-producer"),
        "holdfast-worker" => env!("CARGO_BIN_EXE_it-worker"),
        "holdfast-reclaimer" => env!("CARGO_BIN_EXE_it-reclaimer"),
        other => panic!("the image has no {other}"),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
