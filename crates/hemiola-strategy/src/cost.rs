//! Cost model: the bytes that a strategy sends in a step, and the time that takes.
//!
//! Every message of a step is a *flow* from one peer to another. Flows between hosts load the
//! outgoing link of one host and the incoming link of the other; flows within a host load those of
//! the two peers. Each message also costs the latency of its link at the peer that handles it. The
//! communication of a step takes as long as the busiest link is busy, plus the latencies of the
//! messages of the busiest peer:
//!
//! > seconds = max over links of Σ bytes / bandwidth + max over peers of Σ latency
//!
//! For one variable alone this is equation 8.2 of the `AutoDist` thesis for a served one and 8.3
//! for a collective on a ring. It differs in how variables add up: the thesis uses the maximum and
//! the mean over variables as features of a learned model; here all of them share the links, since
//! all are in flight at once. The flows of a collective are those of the very steps that
//! `hemiola-collective-proto` executes. The model omits the work of summing, and waits of flows on
//! one link for flows on another. It only needs to rank strategies correctly.

use crate::model::{GradientKind, ModelSpec, VariableSpec};
use crate::node::{ShardPlacement, StrategyNode, Synchronizer};
use crate::partition::VariableShard;
use crate::resources::ResourceSpec;
use crate::strategy::Strategy;
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_collective_proto::protocol::CollectiveStep;
use hemiola_collective_proto::{Algorithm, Compression, Operation, ReduceOp, Route};
use hemiola_core::Rank;
use std::collections::BTreeMap;

/// Bytes of a row's key.
const KEY_BYTES: f64 = 8.0;

/// Load of a step on the links of hosts and peers.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkLoad {
    /// By host and by peer: seconds that its outgoing link is busy, and its incoming one.
    hosts: Vec<[f64; 2]>,
    peers: Vec<[f64; 2]>,
    /// By peer: total latency of the messages it sends or waits for, in seconds.
    waits: Vec<f64>,
    /// By peer: bytes sent and received.
    bytes: Vec<[f64; 2]>,
}

impl NetworkLoad {
    /// Seconds until all communication is done.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let most = |links: &[[f64; 2]]| links.iter().flatten().copied().fold(0.0, f64::max);
        most(&self.hosts).max(most(&self.peers)) + self.waits.iter().copied().fold(0.0, f64::max)
    }

    /// Bytes that a peer sends in a step.
    #[must_use]
    pub fn sent(&self, peer: Rank) -> f64 {
        self.bytes[peer.index()][0]
    }

    /// Bytes that a peer receives in a step.
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

/// Cost of one shard if it were alone.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCost {
    /// Bytes that all peers send for it in a step.
    pub bytes: f64,
    /// Seconds that this takes.
    pub seconds: f64,
}

/// Flows of an algorithm (sender, receiver, share of the vector), and the number of consecutive
/// messages that each peer handles.
#[derive(Debug)]
struct FlowPattern {
    flows: Vec<(usize, usize, f64)>,
    messages: Vec<f64>,
}

/// Cost model for one cluster and those of its peers that train.
#[derive(Debug)]
pub struct CostModel<'a> {
    cluster: &'a ResourceSpec,
    replicas: Vec<Rank>,
    /// By peer: the index of its host.
    host: Vec<usize>,
    hosts: usize,
    patterns: Vec<(Algorithm, FlowPattern)>,
}

impl<'a> CostModel<'a> {
    /// Creates the cost model of a cluster in which `replicas` train.
    #[must_use]
    pub fn new(cluster: &'a ResourceSpec, replicas: &[Rank]) -> Self {
        let groups = cluster.hosts();
        let mut host = vec![0; cluster.size()];
        for (index, ranks) in groups.iter().enumerate() {
            for rank in ranks {
                host[rank.index()] = index;
            }
        }
        let width = groups[0].len();
        let in_order = groups.iter().flatten().enumerate().all(|(index, rank)| rank.index() == index);
        let equal = groups.len() > 1 && width > 1 && groups.iter().all(|ranks| ranks.len() == width);
        let mut algorithms = vec![Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
        if in_order && equal && replicas.len() == cluster.size() {
            algorithms.push(Algorithm::TwoLevel { group: width });
        }
        let patterns = algorithms
            .into_iter()
            .map(|algorithm| (algorithm, flow_pattern(algorithm, replicas.len().max(1))))
            .collect();
        Self { cluster, replicas: replicas.to_vec(), host, hosts: groups.len(), patterns }
    }

    /// Load of a step without communication.
    #[must_use]
    pub fn empty(&self) -> NetworkLoad {
        let peers = self.cluster.size();
        NetworkLoad {
            hosts: vec![[0.0; 2]; self.hosts],
            peers: vec![[0.0; 2]; peers],
            waits: vec![0.0; peers],
            bytes: vec![[0.0; 2]; peers],
        }
    }

    fn flow(&self, load: &mut NetworkLoad, from: Rank, to: Rank, bytes: f64) {
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

    /// Adds a message, with its latency at both ends.
    fn message(&self, load: &mut NetworkLoad, from: Rank, to: Rank, bytes: f64) {
        self.flow(load, from, to, bytes);
        if from != to {
            let latency = self.cluster.link(from, to).latency;
            load.waits[from.index()] += latency;
            load.waits[to.index()] += latency;
        }
    }

    /// Load of one shard of a variable in a step, if it is not fused with others in a group.
    #[must_use]
    pub fn node(&self, variable: &VariableSpec, shard: &VariableShard, node: &StrategyNode) -> NetworkLoad {
        let (rows, columns) = shard.matrix();
        let compressed = node.compression.bytes(rows, columns) as f64;
        let whole = 4.0 * shard.elements() as f64;
        match (&node.synchronizer, &node.placement) {
            (Synchronizer::AllReduce { algorithm, .. }, _) => match &node.route {
                Some(route) => self.routed_all_reduce(*algorithm, route, whole),
                None => self.all_reduce(*algorithm, node.compression, (rows, columns)).0,
            },
            (Synchronizer::ParameterServer, ShardPlacement::On(owner)) if is_routed(node) => {
                self.routed_server(node, *owner, (compressed, whole))
            }
            (Synchronizer::ParameterServer | Synchronizer::Table { .. }, placement) => {
                self.serve(placement, compressed, whole)
            }
            (Synchronizer::ParameterServerRows, placement) => {
                let touched = match variable.gradient {
                    // A shard has its share of the rows that a batch touches.
                    GradientKind::Rows { touched } => touched as f64 * rows as f64 / variable.shape[0] as f64,
                    _ => rows as f64,
                };
                let bytes = touched.min(rows as f64) * (4.0 * columns as f64 + KEY_BYTES);
                self.serve(placement, bytes, bytes)
            }
            (Synchronizer::SufficientFactors, _) => {
                let mut load = self.empty();
                // Peers that do not train gather the factors, too, so their copies stay equal.
                for from in &self.replicas {
                    self.cluster.ranks().for_each(|to| self.message(&mut load, *from, to, compressed));
                }
                load
            }
            (Synchronizer::Gossip(plan), _) => {
                let mut load = self.empty();
                if let Ok(graph) = plan.topology.graph(self.replicas.len().max(1)) {
                    for (from, to) in graph.edges() {
                        self.message(&mut load, self.replicas[from.index()], self.replicas[to.index()], compressed);
                    }
                }
                load
            }
        }
    }

    /// Load of an all-reduce along a route, by the given algorithm or the fastest in this model.
    fn routed_all_reduce(&self, algorithm: Option<Algorithm>, route: &Route, bytes: f64) -> NetworkLoad {
        let flat = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
        let candidates = algorithm.map_or(flat.to_vec(), |algorithm| vec![algorithm]);
        let priced = candidates.into_iter().map(|algorithm| {
            let (operator, length) = (ReduceOp::Sum, self.pattern_length());
            self.steps_load(&Operation::RoutedAllReduce { route: route.clone(), algorithm, operator, length }, bytes)
        });
        priced.min_by(|one, other| one.seconds().total_cmp(&other.seconds())).unwrap_or_else(|| self.empty())
    }

    /// Load of a parameter server with a route of its updates, or proxies for its values. A part
    /// without a route is priced as direct.
    fn routed_server(&self, node: &StrategyNode, root: Rank, (there, back): (f64, f64)) -> NetworkLoad {
        let (operator, length) = (ReduceOp::Sum, self.pattern_length());
        let mut load = match &node.route {
            Some(route) => {
                self.steps_load(&Operation::RoutedReduce { route: route.clone(), root, operator, length }, there)
            }
            None => self.serve(&ShardPlacement::On(root), there, 0.0),
        };
        load.add(&match &node.proxies {
            Some(proxies) => {
                self.steps_load(&Operation::RoutedBroadcast { route: proxies.clone(), root, length }, back)
            }
            None => self.serve(&ShardPlacement::On(root), 0.0, back),
        });
        load
    }

    /// Number of elements for which steps are built to derive flows.
    fn pattern_length(&self) -> usize {
        self.cluster.size().next_power_of_two() * 4
    }

    /// Load of the very steps of an operation on all peers, for a vector of so many bytes.
    fn steps_load(&self, operation: &Operation, bytes: f64) -> NetworkLoad {
        let (mut load, peers, length) = (self.empty(), self.cluster.size(), self.pattern_length());
        for me in self.cluster.ranks() {
            let (mut sent, mut received) = (0.0, 0.0);
            for step in operation.steps(me, peers, length) {
                match step {
                    CollectiveStep::Send { to, range } => {
                        self.flow(&mut load, me, to, bytes * range.len() as f64 / length as f64);
                        sent += self.cluster.link(me, to).latency;
                    }
                    CollectiveStep::Receive { from, .. } => received += self.cluster.link(from, me).latency,
                }
            }
            // Sending and receiving overlap; only the longer chain counts.
            load.waits[me.index()] += f64::max(sent, received);
        }
        load
    }

    fn serve(&self, placement: &ShardPlacement, there: f64, back: f64) -> NetworkLoad {
        let mut load = self.empty();
        let servers: &[Rank] = match placement {
            ShardPlacement::On(peer) => std::slice::from_ref(peer),
            ShardPlacement::Sharded(peers) => peers,
            ShardPlacement::Replicated => &[],
        };
        let share = 1.0 / servers.len().max(1) as f64;
        for server in servers {
            for replica in &self.replicas {
                for (from, to, bytes) in [(*replica, *server, there * share), (*server, *replica, back * share)] {
                    if bytes > 0.0 {
                        self.message(&mut load, from, to, bytes);
                    }
                }
            }
        }
        load
    }

    /// Load of an all-reduce of a matrix, and its algorithm: the given one, or the fastest in this
    /// model.
    ///
    /// # Panics
    /// Never: there are always algorithms to choose from.
    #[must_use]
    pub fn all_reduce(
        &self,
        algorithm: Option<Algorithm>,
        compression: Compression,
        (rows, columns): (usize, usize),
    ) -> (NetworkLoad, Algorithm) {
        let known = |algorithm: Algorithm| self.patterns.iter().find(move |(known, _)| *known == algorithm);
        if compression != Compression::Plain {
            // Compressed vectors travel as whole payloads or in chunks: every peer sends as much,
            // and the destination does not matter.
            let algorithm = algorithm.unwrap_or(Algorithm::Ring);
            let sent =
                compression.sent_bytes_for(CollectiveGoal::AllReduce, algorithm, (rows, columns), self.replicas.len());
            let mut load = self.empty();
            for (index, from) in self.replicas.iter().enumerate() {
                let to = self.replicas[(index + 1) % self.replicas.len()];
                self.flow(&mut load, *from, to, sent);
                load.waits[from.index()] +=
                    (self.replicas.len() - 1) as f64 * self.cluster.slowest(&self.replicas).latency;
            }
            return (load, algorithm);
        }
        let bytes = 4.0 * rows as f64 * columns as f64;
        if let Some(algorithm) = algorithm {
            return match known(algorithm) {
                Some((_, pattern)) => (self.apply_pattern(pattern, bytes), algorithm),
                None => (self.apply_pattern(&flow_pattern(algorithm, self.replicas.len().max(1)), bytes), algorithm),
            };
        }
        let priced = self.patterns.iter().map(|(algorithm, pattern)| (self.apply_pattern(pattern, bytes), *algorithm));
        priced
            .min_by(|(one, _), (other, _)| one.seconds().total_cmp(&other.seconds()))
            .expect("there are always four algorithms")
    }

    fn apply_pattern(&self, pattern: &FlowPattern, bytes: f64) -> NetworkLoad {
        let mut load = self.empty();
        let latency = self.cluster.slowest(&self.replicas).latency;
        for (from, to, share) in &pattern.flows {
            self.flow(&mut load, self.replicas[*from], self.replicas[*to], share * bytes);
        }
        for (rank, messages) in self.replicas.iter().zip(&pattern.messages) {
            load.waits[rank.index()] += messages * latency;
        }
        load
    }

    /// Cost of one shard if it were alone.
    #[must_use]
    pub fn alone(&self, variable: &VariableSpec, shard: &VariableShard, node: &StrategyNode) -> NodeCost {
        let load = self.node(variable, shard, node);
        NodeCost { bytes: load.total(), seconds: load.seconds() }
    }

    /// Load of a whole strategy in a step. It must have been [verified](Strategy::verify).
    #[must_use]
    pub fn strategy(&self, model: &ModelSpec, strategy: &Strategy) -> NetworkLoad {
        let mut load = self.empty();
        let mut groups: BTreeMap<u32, (Option<Algorithm>, Option<&Route>, u64)> = BTreeMap::new();
        for plan in &strategy.plans {
            let Some(variable) = model.find(&plan.variable) else { continue };
            for (shard, node) in plan.shards() {
                match &node.synchronizer {
                    // A group is one message, so its latency counts once.
                    Synchronizer::AllReduce { algorithm, group } if node.compression == Compression::Plain => {
                        groups.entry(*group).or_insert((*algorithm, node.route.as_ref(), 0)).2 += shard.elements();
                    }
                    _ => load.add(&self.node(variable, &shard, node)),
                }
            }
        }
        for (algorithm, route, elements) in groups.into_values() {
            load.add(&match route {
                Some(route) => self.routed_all_reduce(algorithm, route, 4.0 * elements as f64),
                None => self.all_reduce(algorithm, Compression::Plain, (elements as usize, 1)).0,
            });
        }
        load
    }

    /// Sum of two loads.
    #[must_use]
    pub fn combined(&self, one: &NetworkLoad, other: &NetworkLoad) -> NetworkLoad {
        let mut both = one.clone();
        both.add(other);
        both
    }
}

/// Tells whether updates or values travel along a route.
fn is_routed(node: &StrategyNode) -> bool {
    node.route.is_some() || node.proxies.is_some()
}

/// Flows of an algorithm, from the steps of all peers.
fn flow_pattern(algorithm: Algorithm, peers: usize) -> FlowPattern {
    let length = peers.next_power_of_two() * 4;
    let operation = Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length };
    let mut flows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut messages = vec![0.0; peers];
    for me in Rank::all(peers) {
        let (mut sent, mut received) = (0, 0);
        for step in operation.steps(me, peers, length) {
            match step {
                CollectiveStep::Send { to, range } => {
                    *flows.entry((me.index(), to.index())).or_default() += range.len();
                    sent += 1;
                }
                CollectiveStep::Receive { .. } => received += 1,
            }
        }
        // Sending and receiving overlap; only the longer chain counts.
        messages[me.index()] = f64::from(sent.max(received));
    }
    let flows = flows.into_iter().map(|((from, to), elements)| (from, to, elements as f64 / length as f64)).collect();
    FlowPattern { flows, messages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partitioning;
    use crate::resources::{LinkSpec, PeerSpec};

    const LINK: LinkSpec = LinkSpec { bytes_per_second: 1e8, latency: 1e-4 };

    fn alone(cluster: &ResourceSpec, variable: &VariableSpec, node: &StrategyNode) -> NodeCost {
        let replicas: Vec<Rank> = cluster.ranks().collect();
        let shard = Partitioning::whole(variable).cut(&variable.shape).remove(0);
        CostModel::new(cluster, &replicas).alone(variable, &shard, node)
    }

    #[test]
    fn a_served_variable_costs_what_equation_8_2_says() {
        let (cluster, variable) = (ResourceSpec::uniform(5, LINK), VariableSpec::dense("w", [1000, 100]));
        let cost = alone(&cluster, &variable, &StrategyNode::parameter_server(Rank::new(2)));
        // Four others send 400 kB each to the server's link, and it sends as much back at the same
        // time; it handles eight messages.
        assert!((cost.seconds - (4.0 * 4e5 / 1e8 + 8.0 * 1e-4)).abs() < 1e-12, "{cost:?}");
        assert!((cost.bytes - 8.0 * 4e5).abs() < 1e-6);
    }

    #[test]
    fn a_ring_costs_what_equation_8_3_says() {
        let (cluster, variable) = (ResourceSpec::uniform(4, LINK), VariableSpec::dense("w", [1000, 100]));
        let mut node = StrategyNode::all_reduce(0);
        node.synchronizer = Synchronizer::AllReduce { algorithm: Some(Algorithm::Ring), group: 0 };
        let cost = alone(&cluster, &variable, &node);
        assert!((cost.seconds - (2.0 * 0.75 * 4e5 / 1e8 + 6.0 * 1e-4)).abs() < 1e-12, "{cost:?}");
        // The fastest algorithm sends as much, in fewer messages.
        let fastest = alone(&cluster, &variable, &StrategyNode::all_reduce(0));
        assert!((fastest.seconds - (2.0 * 0.75 * 4e5 / 1e8 + 4.0 * 1e-4)).abs() < 1e-12, "{fastest:?}");
    }

    #[test]
    fn factors_cost_what_table_3_4_says() {
        use hemiola_collective_proto::cost::MatrixUpdate;
        let cluster = ResourceSpec::uniform(8, LinkSpec { latency: 0.0, ..LINK });
        let variable = VariableSpec::linear("w", [4096, 4096], 32);
        let table = MatrixUpdate { rows: 4096, columns: 4096, factors: Some(32), workers: 8, servers: 8 }.costs();
        let cost = alone(&cluster, &variable, &StrategyNode::sufficient_factors(32));
        // The table counts numbers sent and received by one node; here links are full duplex.
        let expected = table.sufficient_factors.unwrap() / 2.0 * 4.0 / 1e8;
        assert!((cost.seconds - expected).abs() < 1e-9 * expected, "{} and {expected}", cost.seconds);
        let partitioning = Partitioning::along(&variable, 0, 8);
        let replicas: Vec<Rank> = cluster.ranks().collect();
        let costs = CostModel::new(&cluster, &replicas);
        let served =
            partitioning.cut(&variable.shape).iter().zip(&replicas).fold(costs.empty(), |load, (shard, peer)| {
                costs.combined(&load, &costs.node(&variable, shard, &StrategyNode::parameter_server(*peer)))
            });
        let expected = table.parameter_server.both / 2.0 * 4.0 / 1e8;
        assert!((served.seconds() - expected).abs() < 1e-9 * expected, "{} and {expected}", served.seconds());
    }

    #[test]
    fn peers_of_a_host_share_its_link() {
        let peer = |host: usize| PeerSpec::on(host.to_string());
        let mut cluster = ResourceSpec::uniform(8, LinkSpec { latency: 0.0, ..LINK });
        cluster.peers = [0, 0, 0, 0, 1, 1, 1, 1].map(peer).to_vec();
        cluster.within_host = LinkSpec { bytes_per_second: 1e10, latency: 0.0 };
        let variable = VariableSpec::dense("w", [1 << 20]);
        let costs = CostModel::new(&cluster, &Rank::all(8).collect::<Vec<_>>());
        let seconds = |algorithm| costs.all_reduce(Some(algorithm), Compression::Plain, variable.matrix()).0.seconds();
        // A ring crosses each host's link once; halving and doubling crosses it with the halves of
        // all peers.
        assert!(seconds(Algorithm::HalvingDoubling) > 2.0 * seconds(Algorithm::Ring));
        assert!(seconds(Algorithm::TwoLevel { group: 4 }) < seconds(Algorithm::Ring));
    }

    #[test]
    fn two_levels_send_one_vector_per_host_between_hosts() {
        let mut cluster = ResourceSpec::uniform(8, LinkSpec { latency: 0.0, ..LINK });
        cluster.peers = [0, 0, 0, 0, 1, 1, 1, 1].map(|host: usize| PeerSpec::on(host.to_string())).to_vec();
        cluster.within_host = LinkSpec { bytes_per_second: 1e10, latency: 0.0 };
        let (variable, ranks) = (VariableSpec::dense("w", [1 << 20]), Rank::all(8).collect::<Vec<_>>());
        let hosts = cluster.host_route(&ranks).unwrap();
        let direct = StrategyNode::parameter_server(Rank::ROOT);
        let seconds = |node: &StrategyNode| alone(&cluster, &variable, node).seconds;
        let two_level = direct.clone().over(hosts.clone()).with_proxies(hosts.clone());
        // Four vectors enter and leave the host of the owner, and one with stations and proxies.
        let vector = 4.0 * f64::from(1 << 20) / LINK.bytes_per_second;
        assert!((seconds(&direct) - 4.0 * vector).abs() < 1e-9);
        assert!((seconds(&two_level) - vector).abs() < 1e-9, "{} {vector}", seconds(&two_level));
        assert!(seconds(&direct.clone().over(hosts.clone())) > 3.9 * vector, "values still go to each peer");
        // A ring in the order of the hosts crosses between them once, an alternating one always.
        let ring = |order: &[u32]| {
            let order = order.iter().copied().map(Rank::new).collect();
            let mut node = StrategyNode::all_reduce(0).over(Route::direct(order));
            node.synchronizer = Synchronizer::AllReduce { algorithm: Some(Algorithm::Ring), group: 0 };
            seconds(&node)
        };
        assert!(ring(&[0, 4, 1, 5, 2, 6, 3, 7]) > 3.9 * ring(&[3, 1, 0, 2, 7, 6, 5, 4]));
        assert!(seconds(&StrategyNode::all_reduce(0).over(hosts)) < 1.01 * ring(&[0, 1, 2, 3, 4, 5, 6, 7]));
    }

    #[test]
    fn rows_cost_what_is_touched() {
        let cluster = ResourceSpec::uniform(2, LinkSpec { latency: 0.0, ..LINK });
        let variable = VariableSpec::embedding("e", [1_000_000, 64], 1000);
        let cost = alone(&cluster, &variable, &StrategyNode::parameter_server_rows(Rank::all(2).collect()));
        // Half of the rows belong to the other peer, in both directions, for each of two peers.
        assert!((cost.bytes - 2.0 * 2.0 * 500.0 * 264.0).abs() < 1e-6, "{cost:?}");
    }

    #[test]
    fn a_single_peer_sends_nothing() {
        let cluster = ResourceSpec::uniform(1, LINK);
        for node in [
            StrategyNode::parameter_server(Rank::ROOT),
            StrategyNode::all_reduce(0),
            StrategyNode::sufficient_factors(3),
        ] {
            let cost = alone(&cluster, &VariableSpec::linear("w", [10, 10], 3), &node);
            assert_eq!(cost, NodeCost { bytes: 0.0, seconds: 0.0 });
        }
    }
}
