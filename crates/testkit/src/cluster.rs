//! A Cluster of three primaries and three replicas, formed here: real processes of the test's own.

use std::time::Duration;

use crate::{RedisOptions, RedisServer, Value, eventually, free_port};

/// All hash slots.
const SLOTS: u16 = 16384;
/// How many of the nodes are primaries at first.
const PRIMARIES: usize = 3;
/// How long a node is silent before others take it for dead.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long the set-up may take.
const SET_UP: Duration = Duration::from_secs(60);

/// Six nodes. Of the first three each has a third of the slots, the others are their replicas in the same order.
pub struct Cluster {
    nodes: Vec<Node>,
}

struct Node {
    server: RedisServer,
    bus: u16,
    id: String,
}

/// A node as a line of `CLUSTER NODES` tells it.
struct Told {
    id: String,
    is_primary: bool,
    failed: bool,
    slots: Vec<(u16, u16)>,
}

impl Cluster {
    /// Starts six nodes, forms the Cluster and waits until it serves.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// The same with servers that differ.
    pub async fn with(change: impl Fn(&mut RedisOptions)) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..2 * PRIMARIES {
            let bus = free_port();
            let server = RedisServer::with(|options| {
                change(options);
                options.args.extend(clustered(bus));
            });
            let server = server.await;
            let id = server.command(&["CLUSTER", "MYID"]).await.text().expect("an id").to_owned();
            nodes.push(Node { server, bus, id });
        }
        let cluster = Self { nodes };
        cluster.form().await;
        cluster
    }

    /// How clients are told to find it.
    pub fn url(&self) -> String {
        let mut ports = self.nodes.iter().map(|node| node.server.port());
        let first = ports.next().expect("a node");
        let others: Vec<String> = ports.map(|port| format!("node=127.0.0.1:{port}")).collect();
        format!("redis-cluster://127.0.0.1:{first}?{}", others.join("&"))
    }

    /// One of the nodes.
    pub fn node(&self, which: usize) -> &RedisServer {
        &self.nodes[which].server
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none, which never happens.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> u16 {
        for node in &self.nodes {
            let told = node.server.try_command(&["CLUSTER", "KEYSLOT", key]).await;
            if let Some(slot) = told.ok().and_then(|told| told.int()) {
                return u16::try_from(slot).expect("a slot");
            }
        }
        panic!("no node answers");
    }

    /// Which node serves a slot, as the first that answers says it.
    pub async fn owner_of(&self, slot: u16) -> usize {
        self.try_owner_of(slot).await.expect("an owner")
    }

    /// The same; none while the one that did has failed, and no other has taken its place.
    async fn try_owner_of(&self, slot: u16) -> Option<usize> {
        let told = self.told().await;
        let owns = |told: &&Told| told.slots.iter().any(|(from, to)| (*from..=*to).contains(&slot));
        let owner = told.iter().filter(|told| !told.failed).find(owns)?;
        self.nodes.iter().position(|node| node.id == owner.id)
    }

    /// The replica of a primary.
    pub async fn replica_of(&self, which: usize) -> usize {
        let primary = &self.nodes[which];
        let told = primary.server.command(&["CLUSTER", "REPLICAS", &primary.id]).await;
        let lines = told.array().expect("lines");
        let line = lines.first().and_then(Value::text).expect("a replica");
        let id = line.split(' ').next().unwrap_or_default();
        self.nodes.iter().position(|node| node.id == id).expect("one of ours")
    }

    /// Moves a slot with all its keys to another primary, key by key, while it is in use.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        self.begin_move(slot, to).await;
        self.move_keys(slot, to, usize::MAX).await;
        self.end_move(slot, to).await;
    }

    /// Begins to move a slot: from now on it is half here and half there.
    pub async fn begin_move(&self, slot: u16, to: usize) {
        let from = self.owner_of(slot).await;
        let (source, target, slot) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        target.ordered(&["SETSLOT", &slot, "IMPORTING", &source.id]).await;
        source.ordered(&["SETSLOT", &slot, "MIGRATING", &target.id]).await;
    }

    /// Moves up to so many keys of a slot whose move has begun; none is left if there were fewer.
    pub async fn move_keys(&self, slot: u16, to: usize, most: usize) {
        let from = self.owner_of(slot).await;
        let (source, target, slot) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        for _ in 0..most {
            let keys = source.server.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "1"]).await;
            let Some(key) = keys.array().and_then(|keys| keys.first()?.bytes()) else { return };
            let port = target.server.port().to_string();
            let head = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            let words: Vec<&[u8]> = head.iter().map(|word| word.as_bytes()).chain([key]).collect();
            let moved = source.server.command(&words).await;
            // A key may have gone by itself meanwhile.
            assert!(matches!(moved.text(), Some("OK" | "NOKEY")), "{moved:?}");
        }
    }

    /// Ends the move: the slot is there now.
    pub async fn end_move(&self, slot: u16, to: usize) {
        let from = self.owner_of(slot).await;
        let (source, target, slot) = (&self.nodes[from], &self.nodes[to], slot.to_string());
        // Whoever serves the slot must know first, or it would be nobody's for a moment.
        target.ordered(&["SETSLOT", &slot, "NODE", &target.id]).await;
        source.ordered(&["SETSLOT", &slot, "NODE", &target.id]).await;
    }

    /// Waits until every node that answers says that all slots are served.
    pub async fn whole(&self, limit: Duration) {
        eventually("the cluster is whole", limit, async || {
            for (which, node) in self.nodes.iter().enumerate() {
                let Ok(info) = node.server.try_command(&["CLUSTER", "INFO"]).await else {
                    continue;
                };
                let text = info.text().unwrap_or_default();
                if !text.contains("cluster_state:ok") {
                    return Err(format!("node {which}: {text}"));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until a node serves a slot in place of another that it was.
    pub async fn promoted(&self, slot: u16, instead_of: usize, limit: Duration) -> usize {
        eventually("another node serves the slot", limit, async || {
            match self.try_owner_of(slot).await {
                Some(owner) if owner != instead_of => Ok(owner),
                other => Err(format!("it is {other:?}")),
            }
        })
        .await
    }

    /// Joins the nodes, gives out the slots, and gives each primary its replica.
    async fn form(&self) {
        let share = SLOTS / u16::try_from(PRIMARIES).unwrap_or(1) + 1;
        for (place, node) in (0_u16..).zip(&self.nodes) {
            // Different from the start: otherwise the nodes have to settle it first.
            node.ordered(&["SET-CONFIG-EPOCH", &(place + 1).to_string()]).await;
            if usize::from(place) < PRIMARIES {
                let (from, to) = (place * share, ((place + 1) * share).min(SLOTS) - 1);
                node.ordered(&["ADDSLOTSRANGE", &from.to_string(), &to.to_string()]).await;
            }
        }
        for met in &self.nodes[1..] {
            let (port, bus) = (met.server.port().to_string(), met.bus.to_string());
            self.nodes[0].ordered(&["MEET", "127.0.0.1", &port, &bus]).await;
        }
        for (place, node) in self.nodes.iter().enumerate() {
            if place < PRIMARIES {
                continue;
            }
            let primary = &self.nodes[place - PRIMARIES].id;
            eventually("a replica knows its primary", SET_UP, async || {
                let told = node.server.command(&["CLUSTER", "REPLICATE", primary]).await;
                if told.text() == Some("OK") { Ok(()) } else { Err(format!("{told:?}")) }
            })
            .await;
        }
        self.whole(SET_UP).await;
        for node in &self.nodes {
            eventually("the node knows all, and replicas are in step", SET_UP, async || {
                let told = Told::read(&node.server.command(&["CLUSTER", "NODES"]).await);
                let primaries = told.iter().filter(|it| it.is_primary).count();
                let known = told.len() == self.nodes.len() && primaries == PRIMARIES;
                let info = node.server.command(&["INFO", "replication"]).await;
                let text = info.text().unwrap_or_default();
                let in_step =
                    text.contains("state=online") || text.contains("master_link_status:up");
                if known && in_step { Ok(()) } else { Err(text.to_owned()) }
            })
            .await;
        }
    }

    /// The nodes as the first that answers tells them.
    async fn told(&self) -> Vec<Told> {
        for node in &self.nodes {
            if let Ok(told) = node.server.try_command(&["CLUSTER", "NODES"]).await {
                return Told::read(&told);
            }
        }
        panic!("no node answers");
    }
}

impl Node {
    async fn ordered(&self, words: &[&str]) {
        let told = self.server.command(&[&["CLUSTER"], words].concat()).await;
        assert_eq!(told.text(), Some("OK"), "CLUSTER {}: {told:?}", words.join(" "));
    }
}

impl Told {
    /// `id address flags primary ping pong epoch link slots…`, one line a node.
    fn read(told: &Value) -> Vec<Self> {
        let lines = told.text().unwrap_or_default().lines();
        lines.filter_map(Self::read_line).collect()
    }

    fn read_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, flags) = (words.first()?, words.get(2)?);
        let has = |flag: &str| flags.split(',').any(|it| it == flag);
        // What moves stands in brackets behind.
        let ranges = words.iter().skip(8).filter(|word| !word.starts_with('['));
        let slots = ranges.filter_map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some((from.parse().ok()?, to.parse().ok()?))
        });
        Some(Self {
            id: (*id).to_owned(),
            is_primary: has("master"),
            failed: has("fail"),
            slots: slots.collect(),
        })
    }
}

/// What makes a server a node.
fn clustered(bus: u16) -> Vec<String> {
    let (bus, timeout) = (bus.to_string(), NODE_TIMEOUT.as_millis().to_string());
    let words = [
        ["--cluster-enabled", "yes"],
        ["--cluster-port", &bus],
        ["--cluster-node-timeout", &timeout],
        ["--cluster-announce-ip", "127.0.0.1"],
        ["--repl-diskless-sync-delay", "0"],
    ];
    words.concat().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slots_move_with_their_keys_and_a_dead_primary_is_replaced() {
        let cluster = Cluster::start().await;
        let slot = cluster.slot_of("{moved}:key").await;
        let from = cluster.owner_of(slot).await;
        cluster.node(from).command(&["SET", "{moved}:key", "value"]).await;
        let to = (from + 1) % PRIMARIES;
        cluster.move_slot(slot, to).await;
        assert_eq!(cluster.owner_of(slot).await, to);
        assert_eq!(cluster.node(to).command(&["GET", "{moved}:key"]).await, Value::from("value"));

        let heir = cluster.replica_of(to).await;
        cluster.node(to).kill().await;
        assert_eq!(cluster.promoted(slot, to, SET_UP).await, heir);
        cluster.whole(SET_UP).await;
        assert_eq!(cluster.node(heir).command(&["GET", "{moved}:key"]).await, Value::from("value"));
    }
}
