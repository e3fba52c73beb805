//! Settings of gossip averaging, and the check that all peers use the same.

use super::Gossip;
use crate::error::{Error, protocol_error};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective_proto::gossip::GossipElement;
use hemiola_collective_proto::{GossipNode, GossipSync, GossipWeights, Graph, Topology};
use hemiola_core::Rank;
use std::marker::PhantomData;

/// Bytes of values per message.
const PIECE_BYTES: usize = 1 << 18;

/// Reaction to the loss of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerLossPolicy {
    /// Every peer's next call fails with the loss, as everywhere else.
    #[default]
    Fail,
    /// The remaining peers continue. Doubly stochastic weights stay so.
    Exclude,
}

/// Extension of [`Cluster`] with gossip averaging.
pub trait GossipExt {
    /// Returns the graph of a topology for the number of peers of the cluster.
    fn graph(&self, topology: &Topology) -> Result<Graph>;

    /// Starts to build gossip averaging of vectors of `length` elements, `f32`, `f64`, `bf16` or
    /// `f16`, over a graph of all peers.
    fn gossip<T: GossipElement>(&self, graph: &Graph, length: usize) -> GossipBuilder<T>;
}

impl GossipExt for Cluster {
    fn graph(&self, topology: &Topology) -> Result<Graph> {
        topology.graph(self.size()).map_err(protocol_error)
    }

    fn gossip<T: GossipElement>(&self, graph: &Graph, length: usize) -> GossipBuilder<T> {
        GossipBuilder {
            cluster: self.clone(),
            graph: graph.clone(),
            length,
            weights: None,
            synchronization: GossipSync::NotifyAck,
            on_peer_loss: PeerLossPolicy::Fail,
            element: PhantomData,
        }
    }
}

/// Builder of gossip averaging. Every peer must use the same settings.
#[must_use = "nothing happens until `build`"]
#[derive(Debug)]
pub struct GossipBuilder<T> {
    cluster: Cluster,
    graph: Graph,
    length: usize,
    weights: Option<GossipWeights>,
    synchronization: GossipSync,
    on_peer_loss: PeerLossPolicy,
    element: PhantomData<T>,
}

impl<T: GossipElement> GossipBuilder<T> {
    /// Sets the synchronization. Default: NOTIFY-ACK.
    pub fn synchronization(mut self, synchronization: GossipSync) -> Self {
        self.synchronization = synchronization;
        self
    }

    /// Sets the reaction to the loss of a peer. Default: fail.
    pub fn on_peer_loss(mut self, on_peer_loss: PeerLossPolicy) -> Self {
        self.on_peer_loss = on_peer_loss;
        self
    }

    /// Sets the weights. Default: [`GossipWeights::balanced`], which treats all peers alike.
    pub fn weights(mut self, weights: GossipWeights) -> Self {
        self.weights = Some(weights);
        self
    }

    /// *Collective.* Checks that the graph is connected and that all peers use the same settings.
    pub fn build(self) -> Result<Gossip<T>> {
        let Self { cluster, graph, length, weights, synchronization, on_peer_loss, .. } = self;
        let weights = match weights {
            Some(weights) => Ok(weights),
            None => graph.check_connected().and_then(|()| GossipWeights::balanced(&graph)),
        };
        let settings = match &weights {
            Ok(weights) => {
                let kind = T::KIND;
                let edges = graph.edges().count();
                let digest = digest(&graph, weights);
                format!(
                    "{length} {kind} over {edges} edges ({digest:016x}), {synchronization:?}, {on_peer_loss:?} when a peer is lost"
                )
            }
            Err(error) => error.to_string(),
        };
        let all = cluster.all_gather(settings)?;
        let weights = weights.map_err(protocol_error)?;
        if let Some(other) = (0..all.len()).find(|&other| all[other] != all[0]) {
            let (here, there) = (all[0].clone(), all[other].clone());
            return Err(Error::SettingsDiffer { rank: Rank::new(other as u32), here, there }.into());
        }
        if weights.peers() != cluster.size() {
            let problem = format!("it has {}", weights.peers());
            return Err(protocol_error(hemiola_collective_proto::Error::InvalidGraph {
                peers: cluster.size(),
                problem,
            }));
        }
        let piece = (PIECE_BYTES / size_of::<T>()).max(1);
        let node = GossipNode::new(cluster.rank(), weights, length, piece, synchronization).map_err(protocol_error)?;
        Gossip::start(cluster, node, synchronization, on_peer_loss)
    }
}

/// FNV-1a hash of edges and weights.
fn digest(graph: &Graph, weights: &GossipWeights) -> u64 {
    let edges = graph.edges().flat_map(|(from, to)| [from.number(), to.number()]);
    let rows = Rank::all(weights.peers()).flat_map(|peer| {
        let row = weights.row(peer);
        row.units().iter().flat_map(|&(from, units)| [from.number(), units]).chain([row.denominator()])
    });
    let bytes = edges.chain(rows).flat_map(u32::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
