//! A queue with leases as it is mostly written: one script a claim, one an ack, one request each. As lean as that can be:
//! no ids, no fences, no deadlines, no limits.

use holdfast_testkit::{Client, RedisServer, Value};

use super::cycle::{ANSWER, Side, body};
use super::raw::words;

/// Pops the first, leases it, gives its body.
const CLAIM: &str = "local id = redis.call('ZPOPMIN', KEYS[1])[1]
if not id then return false end
redis.call('ZADD', KEYS[2], ARGV[1], id)
return {id, redis.call('HGET', KEYS[3], id)}";

/// Ends a lease: keeps the answer, drops the body.
const ACK: &str = "if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
return 1";

/// The server, and the scripts by their SHA-1.
pub(super) struct Single {
    server: RedisServer,
    client: Client,
    claim: String,
    ack: String,
    size: usize,
    sent: usize,
    answer: Vec<u8>,
}

impl Single {
    pub(super) async fn new(server: RedisServer, size: usize) -> Self {
        let client = Client::new(server.port());
        let load = async |text: &str| {
            let answer = client.command(&["SCRIPT", "LOAD", text]).await;
            answer.text().expect("a SHA-1").to_owned()
        };
        let (claim, ack) = (load(CLAIM).await, load(ACK).await);
        Self { server, client, claim, ack, size, sent: 0, answer: body(ANSWER, 7) }
    }
}

impl Side for Single {
    fn server(&self) -> &RedisServer {
        &self.server
    }

    async fn prepare(&mut self, turns: usize) {
        for _ in 0..turns {
            self.sent += 1;
            let id = format!("request-{:016}", self.sent);
            let mut store = words(&["HSET", "bodies", &id]);
            store.push(body(self.size, self.sent));
            let add = words(&["ZADD", "jobs", &self.sent.to_string(), &id]);
            self.client.pipeline(&[store, add]).await;
        }
    }

    async fn turn(&mut self) {
        let lease = "1800000000000";
        let claim = ["EVALSHA", &self.claim, "3", "jobs", "leased", "bodies", lease];
        let claimed = self.client.command(&claim).await;
        let id = claimed.array().and_then(|parts| parts.first()?.bytes()).expect("a request");
        let head = ["EVALSHA", &self.ack, "3", "leased", "bodies", "answers"];
        let mut ack = words(&head);
        ack.extend([id.to_vec(), self.answer.clone()]);
        assert_eq!(self.client.command(&ack).await, Value::Int(1));
    }
}
