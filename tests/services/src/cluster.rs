//! A Redis cluster of three primaries.

use redis::{Cmd, FromRedisValue, RedisResult, cmd};

use crate::{port::Port, redis::Redis};

const SLOTS: u16 = 16_384;
const NODES: u16 = 3;

/// Three primaries, each with a third of the slots and without a replica.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
    /// Where the nodes talk to each other; by default ten thousand above the port for clients,
    /// which need not be free.
    buses: Vec<Port>,
}

impl Cluster {
    /// Starts all nodes with this configuration. Each serves its slots when it returns.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn start(config: &[(&str, &str)]) -> Self {
        let buses: Vec<Port> = (0..NODES).map(|_| Port::free()).collect();
        let launch = |bus: &Port| {
            let bus = bus.number().to_string();
            let ours = [
                ("cluster-enabled", "yes"),
                ("cluster-port", &bus),
                ("cluster-node-timeout", "2000"),
            ];
            Redis::launch(&[], &[&ours, config].concat())
        };
        let cluster = Self {
            nodes: buses.iter().map(launch).collect(),
            buses,
        };
        for (number, node) in (0..NODES).zip(&cluster.nodes) {
            node.until_ready().await;
            let first = share(number);
            let last = share(number + 1) - 1;
            let slots = order("ADDSLOTSRANGE").arg(first).arg(last).to_owned();
            let _: () = tell(node, &slots).await;
            // Two nodes that both begin at zero would have to settle that first.
            let epoch = order("SET-CONFIG-EPOCH").arg(number + 1).to_owned();
            let _: () = tell(node, &epoch).await;
        }
        for (node, bus) in cluster.nodes.iter().zip(&cluster.buses).skip(1) {
            let mut meeting = order("MEET");
            meeting.arg("127.0.0.1").arg(node.port()).arg(bus.number());
            let _: () = tell(&cluster.nodes[0], &meeting).await;
        }
        cluster.until_ok().await;
        cluster
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The URLs of its nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// Waits until each node finds that all slots are served. After a node was restarted, that takes
    /// it some two seconds.
    ///
    /// # Panics
    /// If that does not come to be.
    pub async fn until_ok(&self) {
        let known = format!("cluster_known_nodes:{NODES}");
        for node in &self.nodes {
            let wanted = ["cluster_state:ok", "cluster_slots_ok:16384", &known];
            node.until_told(&order("INFO"), &wanted).await;
        }
    }

    /// The slot of a key.
    ///
    /// # Panics
    /// If the first node does not answer.
    pub async fn slot_of(&self, key: &str) -> u16 {
        tell(&self.nodes[0], &order("KEYSLOT").arg(key).to_owned()).await
    }

    /// The number of the node that serves a slot.
    ///
    /// # Panics
    /// If none does, or one does not answer.
    pub async fn owner(&self, slot: u16) -> usize {
        for (number, node) in self.nodes.iter().enumerate() {
            let told: String = tell(node, &order("NODES")).await;
            if told.lines().any(|line| serves(line, slot)) {
                return number;
            }
        }
        panic!("nobody serves slot {slot}");
    }

    /// Moves a slot with its keys to another node, from beginning to end.
    ///
    /// # Panics
    /// If a node does not obey.
    pub async fn migrate_slot(&self, slot: u16, to: usize) {
        let migration = self.begin_migration(slot, to).await;
        migration.move_keys().await;
        migration.finish().await;
    }

    /// Begins to move a slot: its node answers for keys that it has, and sends clients to the other
    /// node with ASK for those that it has not.
    ///
    /// # Panics
    /// If a node does not obey.
    pub async fn begin_migration(&self, slot: u16, to: usize) -> Migration<'_> {
        let from = self.owner(slot).await;
        let migration = Migration {
            nodes: &self.nodes,
            slot,
            from,
            to,
        };
        let [from, to] = [from, to].map(|number| &self.nodes[number]);
        migration.set(to, "IMPORTING", from).await;
        migration.set(from, "MIGRATING", to).await;
        migration
    }
}

/// A slot that is on its way from one node to another.
#[derive(Debug)]
#[must_use = "a migration that is not finished goes on"]
pub struct Migration<'a> {
    nodes: &'a [Redis],
    slot: u16,
    from: usize,
    to: usize,
}

impl Migration<'_> {
    /// Moves the keys that there are; there may be more until the end.
    ///
    /// # Panics
    /// If a node does not obey.
    pub async fn move_keys(&self) {
        let [from, to] = [self.from, self.to].map(|number| &self.nodes[number]);
        loop {
            let mut listing = order("GETKEYSINSLOT");
            listing.arg(self.slot).arg(100);
            let keys: Vec<Vec<u8>> = tell(from, &listing).await;
            if keys.is_empty() {
                return;
            }
            let mut moving = cmd("MIGRATE");
            moving.arg("127.0.0.1").arg(to.port()).arg("").arg(0);
            moving.arg(5000).arg("KEYS").arg(keys);
            let _: () = tell(from, &moving).await;
        }
    }

    /// Gives the slot to its new node, which has to have all keys, and tells all nodes of it.
    ///
    /// # Panics
    /// If a node does not obey.
    pub async fn finish(self) {
        let to = &self.nodes[self.to];
        // The new node first, so that there always is one which serves the slot.
        self.set(to, "NODE", to).await;
        for node in self.nodes {
            self.set(node, "NODE", to).await;
        }
    }

    async fn set(&self, node: &Redis, state: &str, other: &Redis) {
        let id: String = tell(other, &order("MYID")).await;
        let mut setting = order("SETSLOT");
        setting.arg(self.slot).arg(state).arg(id);
        let _: () = tell(node, &setting).await;
    }
}

/// The first slot of a node.
fn share(number: u16) -> u16 {
    SLOTS * number / NODES
}

/// Whether this line of a report is about the node that made it, which serves this slot.
fn serves(line: &str, slot: u16) -> bool {
    let mut fields = line.split(' ');
    let own = fields
        .nth(2)
        .is_some_and(|flags| flags.starts_with("myself"));
    // The slots come after five other fields; those in brackets are on their way.
    own && fields.skip(5).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = first.parse().ok().zip(last.parse().ok());
        range.is_some_and(|(first, last)| (first..=last).contains(&slot))
    })
}

fn order(name: &str) -> Cmd {
    cmd("CLUSTER").arg(name).to_owned()
}

async fn tell<T: FromRedisValue>(node: &Redis, command: &Cmd) -> T {
    let told: RedisResult<T> = async {
        let mut connection = node.connect().await?;
        command.query_async(&mut connection).await
    }
    .await;
    told.unwrap_or_else(|error| panic!("node {} does not obey: {error}", node.addr()))
}
