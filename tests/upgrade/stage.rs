//! Roles of either version over one Redis, and the tickets as they lie there.

use std::path::Path;

use holdfast_core::model::{Identity, NEXT_FIELD, RequestId, TenantName};
use holdfast_testkit::http::Answer;
use holdfast_testkit::{RedisServer, free_port};

use crate::fleet::{Fleet, Role, Setup};

/// A producer of one version, and where it listens.
pub(crate) struct Api {
    pub(crate) role: Role,
    port: u16,
    operators: u16,
}

impl Api {
    pub(crate) async fn start(fleet: &Fleet, program: &Path) -> Self {
        let (port, operators) = (free_port(), free_port());
        let listen = format!("127.0.0.1:{port}");
        let operator_listen = format!("127.0.0.1:{operators}");
        let environment = [
            ("HOLDFAST_PRODUCER_LISTEN", listen.as_str()),
            ("HOLDFAST_PRODUCER_OPERATOR_LISTEN", operator_listen.as_str()),
        ];
        let role = start(fleet, "producer", program, &environment).await;
        Self { role, port, operators }
    }

    /// The URL of a path of queue `q`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/v1/queues/q/{path}", self.port)
    }

    /// Calls the API of queue `q`; an error if there is no whole answer.
    pub(crate) async fn call(
        &self,
        fleet: &Fleet,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Answer, String> {
        let url = self.url(path);
        send(fleet, method, &url, body).await
    }

    /// Makes an operator's call on queue `q`, which must succeed.
    pub(crate) async fn operate(&self, fleet: &Fleet, path: &str, body: &str) -> serde_json::Value {
        let url = format!("http://127.0.0.1:{}/v1/ops/queues/q/{path}", self.operators);
        let answer = send(fleet, "POST", &url, body).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Submits an item that must be accepted.
    pub(crate) async fn submit(&self, fleet: &Fleet, id: &str, more: &str) {
        let answer =
            self.call(fleet, "POST", "requests", &item(id, more)).await.expect("an answer");
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
}

async fn send(fleet: &Fleet, method: &str, url: &str, body: &str) -> Result<Answer, String> {
    let headers: &[(&str, &str)] =
        if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
    fleet.http.try_request(method, url, headers, body.to_owned()).await
}

/// An item whose payload names it; `more` stands before that.
pub(crate) fn item(id: &str, more: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",{more}\"payload\":{{\"content\":\"<{id}>\"}}}}")
}

/// A fleet without any process.
pub(crate) async fn fleet(queue: &str) -> Fleet {
    let setup = Setup { queue: queue.to_owned(), ..Setup::default() };
    Fleet::without_producer(setup, RedisServer::start().await).await
}

/// Starts a role of one version, and waits until it is ready.
pub(crate) async fn start(
    fleet: &Fleet,
    name: &str,
    program: &Path,
    environment: &[(&str, &str)],
) -> Role {
    let program = program.to_str().expect("a path of text");
    let role = fleet.role(name, program, environment);
    fleet.ready(role.ops).await;
    role
}

/// Whether the ticket of a request holds the field of the newer version, behind all that this one knows.
pub(crate) async fn has_next_field(fleet: &Fleet, id: &str) -> bool {
    let tenant = TenantName::try_from("default").unwrap();
    let identity = Identity { tenant, id: RequestId::try_from(id).unwrap() };
    let key = identity.place(1.try_into().unwrap()).key;
    let words: [&[u8]; 3] = [b"HGET", b"hf1:{q/0}:ticket", key.as_bytes()];
    let ticket = fleet.redis.command(&words).await;
    ticket.bytes().unwrap_or_else(|| panic!("{id} has no ticket")).ends_with(NEXT_FIELD)
}
