//! What a strategy sends in a step, and how long that takes.
//!
//! Every message of a step is a *flow* from one peer to another. Flows between hosts load the outgoing link of the one host and the incoming link of the other, flows within a host those of the
//! two peers; and each message costs the latency of its link at the peer that handles it. A step's communication takes as long as the busiest link is busy, plus what the messages of
//! the busiest peer cost:
//!
//! > seconds = max over links of Σ bytes / bandwidth + max over peers of Σ latency
//!
//! Applied to one variable alone this is equation 8.2 of the `AutoDist` thesis for a served one and 8.3 for a collective on a ring. It differs in how variables add up: the thesis takes the maximum and
//! the mean over variables as features of a learned model; here all of them share the links, since all are under way at once. A collective's flows are those of the very steps that `hemiola-collective-proto` takes.
//! What it leaves out: the work of summing, and that flows of one link may have to wait for flows of another. It need not be right, only right about which is less.

use crate::cluster::Cluster;
use crate::model::{Gradient, Model, Variable};
use crate::node::{Node, Placement, Synchronizer};
use crate::partition::Shard;
use crate::strategy::Strategy;
use hemiola_collective_proto::encode::Goal;
use hemiola_collective_proto::protocol::Step;
use hemiola_collective_proto::{Algorithm, Encoding, Operation, Operator};
use hemiola_core::Rank;
use std::collections::BTreeMap;

/// Bytes that name a row.
const KEY_BYTES: f64 = 8.0;

/// Links of hosts and peers, and how busy a step keeps them.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// By host and by peer: seconds that its outgoing link is busy, and its incoming one.
    hosts: Vec<[f64; 2]>,
    peers: Vec<[f64; 2]>,
    /// By peer: seconds of latency of the messages it sends or waits for.
    waits: Vec<f64>,
    /// By peer: bytes sent and received.
    bytes: Vec<[f64; 2]>,
}

impl Load {
    /// Seconds until all of it is done.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let most = |links: &[[f64; 2]]| links.iter().flatten().copied().fold(0.0, f64::max);
        most(&self.hosts).max(most(&self.peers)) + self.waits.iter().copied().fold(0.0, f64::max)
    }

    /// Bytes that a peer sends.
    #[must_use]
    pub fn sent(&self, peer: Rank) -> f64 {
        self.bytes[peer.index()][0]
    }

    /// Bytes that a peer receives.
    #[must_use]
    pub fn received(&self, peer: Rank) -> f64 {
        self.bytes[peer.index()][1]
    }

    /// Bytes that all peers send together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.bytes.iter().map(|[sent, _]| sent).sum()
    }

    fn add(&mut self, other: &Self) {
        let pairs = |mine: &mut Vec<[f64; 2]>, theirs: &[[f64; 2]]| {
            mine.iter_mut().flatten().zip(theirs.iter().flatten()).for_each(|(mine, theirs)| *mine += theirs);
        };
        pairs(&mut self.hosts, &other.hosts);
        pairs(&mut self.peers, &other.peers);
        pairs(&mut self.bytes, &other.bytes);
        self.waits.iter_mut().zip(&other.waits).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What one shard costs if it were alone.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCost {
    /// Bytes that all peers send for it in a step.
    pub bytes: f64,
    /// Seconds that takes.
    pub seconds: f64,
}

/// How an algorithm's bytes flow: from whom, to whom, what share of the vector; and how many messages a peer handles one after the other.
#[derive(Debug)]
struct Pattern {
    flows: Vec<(usize, usize, f64)>,
    messages: Vec<f64>,
}

/// Works out costs for one cluster and those of its peers that train.
#[derive(Debug)]
pub struct Costs<'a> {
    cluster: &'a Cluster,
    replicas: Vec<Rank>,
    /// By peer: the place of its host.
    host: Vec<usize>,
    hosts: usize,
    patterns: Vec<(Algorithm, Pattern)>,
}

impl<'a> Costs<'a> {
    /// For a cluster in which `replicas` train.
    #[must_use]
    pub fn new(cluster: &'a Cluster, replicas: &[Rank]) -> Self {
        let groups = cluster.hosts();
        let mut host = vec![0; cluster.size()];
        for (place, ranks) in groups.iter().enumerate() {
            for rank in ranks {
                host[rank.index()] = place;
            }
        }
        let width = groups[0].len();
        let in_order = groups.iter().flatten().enumerate().all(|(at, rank)| rank.index() == at);
        let equal = groups.len() > 1 && width > 1 && groups.iter().all(|ranks| ranks.len() == width);
        let mut ways = vec![Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
        if in_order && equal && replicas.len() == cluster.size() {
            ways.push(Algorithm::TwoLevel { group: width });
        }
        let patterns = ways.into_iter().map(|way| (way, pattern(way, replicas.len().max(1)))).collect();
        Self { cluster, replicas: replicas.to_vec(), host, hosts: groups.len(), patterns }
    }

    /// Nothing yet.
    #[must_use]
    pub fn nothing(&self) -> Load {
        let peers = self.cluster.size();
        Load {
            hosts: vec![[0.0; 2]; self.hosts],
            peers: vec![[0.0; 2]; peers],
            waits: vec![0.0; peers],
            bytes: vec![[0.0; 2]; peers],
        }
    }

    fn flow(&self, load: &mut Load, from: Rank, to: Rank, bytes: f64) {
        if from == to || bytes <= 0.0 {
            return;
        }
        let seconds = bytes / self.cluster.link(from, to).bytes_per_second;
        if self.cluster.same_host(from, to) {
            load.peers[from.index()][0] += seconds;
            load.peers[to.index()][1] += seconds;
        } else {
            load.hosts[self.host[from.index()]][0] += seconds;
            load.hosts[self.host[to.index()]][1] += seconds;
        }
        load.bytes[from.index()][0] += bytes;
        load.bytes[to.index()][1] += bytes;
    }

    /// A message, and what its latency costs at both ends.
    fn message(&self, load: &mut Load, from: Rank, to: Rank, bytes: f64) {
        self.flow(load, from, to, bytes);
        if from != to {
            let latency = self.cluster.link(from, to).latency;
            load.waits[from.index()] += latency;
            load.waits[to.index()] += latency;
        }
    }

    /// What one shard of a variable sends in a step, if it is not summed with others in a group.
    #[must_use]
    pub fn node(&self, variable: &Variable, shard: &Shard, node: &Node) -> Load {
        let (rows, columns) = shard.matrix();
        let encoded = node.encoding.bytes(rows, columns) as f64;
        let whole = 4.0 * shard.elements() as f64;
        match (&node.synchronizer, &node.placement) {
            (Synchronizer::AllReduce { algorithm, .. }, _) => {
                self.all_reduce(*algorithm, node.encoding, (rows, columns)).0
            }
            (Synchronizer::Served, placement) => self.serve(placement, encoded, whole),
            (Synchronizer::ServedRows, placement) => {
                let touched = match variable.gradient {
                    // Of the rows that a batch touches, a shard has its share.
                    Gradient::Rows { touched } => touched as f64 * rows as f64 / variable.shape[0] as f64,
                    _ => rows as f64,
                };
                let bytes = touched.min(rows as f64) * (4.0 * columns as f64 + KEY_BYTES);
                self.serve(placement, bytes, bytes)
            }
            (Synchronizer::Factors, _) => {
                let mut load = self.nothing();
                for from in &self.replicas {
                    self.replicas.iter().for_each(|to| self.message(&mut load, *from, *to, encoded));
                }
                load
            }
            (Synchronizer::Mix(topology), _) => {
                let mut load = self.nothing();
                if let Ok(graph) = topology.graph(self.replicas.len().max(1)) {
                    for (from, to) in graph.edges() {
                        self.message(&mut load, self.replicas[from.index()], self.replicas[to.index()], encoded);
                    }
                }
                load
            }
        }
    }

    fn serve(&self, placement: &Placement, there: f64, back: f64) -> Load {
        let mut load = self.nothing();
        let servers: &[Rank] = match placement {
            Placement::On(peer) => std::slice::from_ref(peer),
            Placement::Sharded(peers) => peers,
            Placement::Replicated => &[],
        };
        let share = 1.0 / servers.len().max(1) as f64;
        for server in servers {
            for replica in &self.replicas {
                self.message(&mut load, *replica, *server, there * share);
                self.message(&mut load, *server, *replica, back * share);
            }
        }
        load
    }

    /// An all-reduce of a matrix, and the way it goes: the one that is asked for, or the fastest by these costs.
    ///
    /// # Panics
    /// Never: there are always ways to choose from.
    #[must_use]
    pub fn all_reduce(
        &self,
        way: Option<Algorithm>,
        encoding: Encoding,
        (rows, columns): (usize, usize),
    ) -> (Load, Algorithm) {
        let known = |way: Algorithm| self.patterns.iter().find(move |(known, _)| *known == way);
        if encoding != Encoding::Plain {
            // These go round as whole strings or in chunks: everybody sends as much, and to its neighbours as good as to others.
            let way = way.unwrap_or(Algorithm::Ring);
            let sent = encoding.sent_bytes_for(Goal::AllReduce, way, (rows, columns), self.replicas.len());
            let mut load = self.nothing();
            for (at, from) in self.replicas.iter().enumerate() {
                let to = self.replicas[(at + 1) % self.replicas.len()];
                self.flow(&mut load, *from, to, sent);
                load.waits[from.index()] +=
                    (self.replicas.len() - 1) as f64 * self.cluster.slowest(&self.replicas).latency;
            }
            return (load, way);
        }
        let bytes = 4.0 * rows as f64 * columns as f64;
        if let Some(way) = way {
            return match known(way) {
                Some((_, pattern)) => (self.follow(pattern, bytes), way),
                None => (self.follow(&pattern(way, self.replicas.len().max(1)), bytes), way),
            };
        }
        let priced = self.patterns.iter().map(|(way, pattern)| (self.follow(pattern, bytes), *way));
        priced
            .min_by(|(one, _), (other, _)| one.seconds().total_cmp(&other.seconds()))
            .expect("there are four ways at least")
    }

    fn follow(&self, pattern: &Pattern, bytes: f64) -> Load {
        let mut load = self.nothing();
        let latency = self.cluster.slowest(&self.replicas).latency;
        for (from, to, share) in &pattern.flows {
            self.flow(&mut load, self.replicas[*from], self.replicas[*to], share * bytes);
        }
        for (rank, messages) in self.replicas.iter().zip(&pattern.messages) {
            load.waits[rank.index()] += messages * latency;
        }
        load
    }

    /// What one shard costs if it were alone.
    #[must_use]
    pub fn alone(&self, variable: &Variable, shard: &Shard, node: &Node) -> NodeCost {
        let load = self.node(variable, shard, node);
        NodeCost { bytes: load.total(), seconds: load.seconds() }
    }

    /// What a whole strategy sends in a step. It must have been [verified](Strategy::verify).
    #[must_use]
    pub fn strategy(&self, model: &Model, strategy: &Strategy) -> Load {
        let mut load = self.nothing();
        let mut groups: BTreeMap<u32, (Option<Algorithm>, u64)> = BTreeMap::new();
        for plan in &strategy.plans {
            let Some(variable) = model.find(&plan.variable) else { continue };
            for (shard, node) in plan.shards() {
                match &node.synchronizer {
                    // A group is one message, so its latency counts once.
                    Synchronizer::AllReduce { algorithm, group } if node.encoding == Encoding::Plain => {
                        groups.entry(*group).or_insert((*algorithm, 0)).1 += shard.elements();
                    }
                    _ => load.add(&self.node(variable, &shard, node)),
                }
            }
        }
        for (algorithm, elements) in groups.into_values() {
            load.add(&self.all_reduce(algorithm, Encoding::Plain, (elements as usize, 1)).0);
        }
        load
    }

    /// The load with another added.
    #[must_use]
    pub fn together(&self, one: &Load, other: &Load) -> Load {
        let mut both = one.clone();
        both.add(other);
        both
    }
}

/// The flows of an algorithm, from the steps that peers take.
fn pattern(way: Algorithm, peers: usize) -> Pattern {
    let length = peers.next_power_of_two() * 4;
    let operation = Operation::AllReduce { algorithm: way, operator: Operator::Sum, length };
    let mut flows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut messages = vec![0.0; peers];
    for me in Rank::all(peers) {
        let (mut sent, mut received) = (0, 0);
        for step in operation.steps(me, peers, length) {
            match step {
                Step::Send { to, range } => {
                    *flows.entry((me.index(), to.index())).or_default() += range.len();
                    sent += 1;
                }
                Step::Receive { .. } => received += 1,
            }
        }
        // Sending and receiving overlap; what counts is how many come one after the other.
        messages[me.index()] = f64::from(sent.max(received));
    }
    let flows = flows.into_iter().map(|((from, to), elements)| (from, to, elements as f64 / length as f64)).collect();
    Pattern { flows, messages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Link, Peer};
    use crate::partition::Partitioning;

    const LINK: Link = Link { bytes_per_second: 1e8, latency: 1e-4 };

    fn alone(cluster: &Cluster, variable: &Variable, node: &Node) -> NodeCost {
        let replicas: Vec<Rank> = cluster.ranks().collect();
        let shard = Partitioning::whole(variable).cut(&variable.shape).remove(0);
        Costs::new(cluster, &replicas).alone(variable, &shard, node)
    }

    #[test]
    fn a_served_variable_costs_what_equation_8_2_says() {
        let (cluster, variable) = (Cluster::uniform(5, LINK), Variable::dense("w", [1000, 100]));
        let cost = alone(&cluster, &variable, &Node::served(Rank::new(2)));
        // Four others send 400 kB each to the server's link, and it sends as much back at the same time; eight messages pass through it.
        assert!((cost.seconds - (4.0 * 4e5 / 1e8 + 8.0 * 1e-4)).abs() < 1e-12, "{cost:?}");
        assert!((cost.bytes - 8.0 * 4e5).abs() < 1e-6);
    }

    #[test]
    fn a_ring_costs_what_equation_8_3_says() {
        let (cluster, variable) = (Cluster::uniform(4, LINK), Variable::dense("w", [1000, 100]));
        let mut node = Node::all_reduce(0);
        node.synchronizer = Synchronizer::AllReduce { algorithm: Some(Algorithm::Ring), group: 0 };
        let cost = alone(&cluster, &variable, &node);
        assert!((cost.seconds - (2.0 * 0.75 * 4e5 / 1e8 + 6.0 * 1e-4)).abs() < 1e-12, "{cost:?}");
        // The fastest way sends as much, in fewer messages.
        let fastest = alone(&cluster, &variable, &Node::all_reduce(0));
        assert!((fastest.seconds - (2.0 * 0.75 * 4e5 / 1e8 + 4.0 * 1e-4)).abs() < 1e-12, "{fastest:?}");
    }

    #[test]
    fn factors_cost_what_table_3_4_says() {
        use hemiola_collective_proto::cost::MatrixUpdate;
        let cluster = Cluster::uniform(8, Link { latency: 0.0, ..LINK });
        let variable = Variable::linear("w", 4096, 4096, 32);
        let table = MatrixUpdate { rows: 4096, columns: 4096, factors: Some(32), workers: 8, servers: 8 }.costs();
        let cost = alone(&cluster, &variable, &Node::factors(32));
        // The table counts numbers sent and received by one node; here links go both ways at once.
        let expected = table.sufficient_factors.unwrap() / 2.0 * 4.0 / 1e8;
        assert!((cost.seconds - expected).abs() < 1e-9 * expected, "{} and {expected}", cost.seconds);
        let partitioning = Partitioning::along(&variable, 0, 8);
        let replicas: Vec<Rank> = cluster.ranks().collect();
        let costs = Costs::new(&cluster, &replicas);
        let served =
            partitioning.cut(&variable.shape).iter().zip(&replicas).fold(costs.nothing(), |load, (shard, peer)| {
                costs.together(&load, &costs.node(&variable, shard, &Node::served(*peer)))
            });
        let expected = table.parameter_server.both / 2.0 * 4.0 / 1e8;
        assert!((served.seconds() - expected).abs() < 1e-9 * expected, "{} and {expected}", served.seconds());
    }

    #[test]
    fn peers_of_a_host_share_its_link() {
        let peer = |host: usize| Peer { host: host.to_string(), device: "cpu".into() };
        let mut cluster = Cluster::uniform(8, Link { latency: 0.0, ..LINK });
        cluster.peers = [0, 0, 0, 0, 1, 1, 1, 1].map(peer).to_vec();
        cluster.within_host = Link { bytes_per_second: 1e10, latency: 0.0 };
        let variable = Variable::dense("w", [1 << 20]);
        let costs = Costs::new(&cluster, &Rank::all(8).collect::<Vec<_>>());
        let seconds = |way| costs.all_reduce(Some(way), Encoding::Plain, variable.matrix()).0.seconds();
        // A ring crosses each host's link once; halving and doubling crosses it with everybody's halves.
        assert!(seconds(Algorithm::HalvingDoubling) > 2.0 * seconds(Algorithm::Ring));
        assert!(seconds(Algorithm::TwoLevel { group: 4 }) < seconds(Algorithm::Ring));
    }

    #[test]
    fn rows_cost_what_is_touched() {
        let cluster = Cluster::uniform(2, Link { latency: 0.0, ..LINK });
        let variable = Variable::embedding("e", 1_000_000, 64, 1000);
        let cost = alone(&cluster, &variable, &Node::served_rows(Rank::all(2).collect()));
        // Half of the rows belong to the other peer, there and back, for each of two.
        assert!((cost.bytes - 2.0 * 2.0 * 500.0 * 264.0).abs() < 1e-6, "{cost:?}");
    }

    #[test]
    fn who_trains_alone_sends_nothing() {
        let cluster = Cluster::uniform(1, LINK);
        for node in [Node::served(Rank::ROOT), Node::all_reduce(0), Node::factors(3)] {
            let cost = alone(&cluster, &Variable::linear("w", 10, 10, 3), &node);
            assert_eq!(cost, NodeCost { bytes: 0.0, seconds: 0.0 });
        }
    }
}
