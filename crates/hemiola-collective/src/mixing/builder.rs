//! What averages over a graph are to be, and whether all peers say the same.

use super::Mixing;
use crate::error::{Error, refused};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective_proto::mix::Mixed;
use hemiola_collective_proto::{Graph, Mixer, Synchronization, Topology, Weights};
use hemiola_core::Rank;
use std::marker::PhantomData;

/// Bytes of values in a message.
const PIECE_BYTES: usize = 1 << 18;

/// What to do when a peer is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Every peer's next call fails with the loss, as everywhere else.
    #[default]
    Fail,
    /// The others go on. Weights that were doubly stochastic stay so.
    Drop,
}

/// Makes averages over a graph.
pub trait MakeMixing {
    /// The graph of a kind for as many peers as there are.
    fn graph(&self, topology: &Topology) -> Result<Graph>;

    /// Averages of vectors of so many numbers, `f32`, `f64`, `bf16` or `f16`, over a graph of all peers.
    fn mixing<T: Mixed>(&self, graph: &Graph, length: usize) -> MixingBuilder<T>;
}

impl MakeMixing for Cluster {
    fn graph(&self, topology: &Topology) -> Result<Graph> {
        topology.graph(self.size()).map_err(refused)
    }

    fn mixing<T: Mixed>(&self, graph: &Graph, length: usize) -> MixingBuilder<T> {
        MixingBuilder {
            cluster: self.clone(),
            graph: graph.clone(),
            length,
            weights: None,
            synchronization: Synchronization::NotifyAck,
            on_loss: OnLoss::Fail,
            element: PhantomData,
        }
    }
}

/// Settings of averages over a graph. Every peer must make the same.
#[must_use = "nothing happens until `build`"]
#[derive(Debug)]
pub struct MixingBuilder<T> {
    cluster: Cluster,
    graph: Graph,
    length: usize,
    weights: Option<Weights>,
    synchronization: Synchronization,
    on_loss: OnLoss,
    element: PhantomData<T>,
}

impl<T: Mixed> MixingBuilder<T> {
    /// What peers wait for. Default: NOTIFY-ACK.
    pub fn synchronization(mut self, synchronization: Synchronization) -> Self {
        self.synchronization = synchronization;
        self
    }

    /// What to do when a peer is lost. Default: fail.
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Other weights than [`Weights::balanced`] ones, which treat all peers alike.
    pub fn weights(mut self, weights: Weights) -> Self {
        self.weights = Some(weights);
        self
    }

    /// *Collective.* Checks that the graph reaches everybody and that all peers said the same.
    pub fn build(self) -> Result<Mixing<T>> {
        let Self { cluster, graph, length, weights, synchronization, on_loss, .. } = self;
        let weights = match weights {
            Some(weights) => Ok(weights),
            None => graph.check_connected().and_then(|()| Weights::balanced(&graph)),
        };
        let settings = match &weights {
            Ok(weights) => {
                let kind = T::KIND;
                let edges = graph.edges().count();
                let digest = digest(&graph, weights);
                format!(
                    "{length} {kind} over {edges} edges ({digest:016x}), {synchronization:?}, {on_loss:?} when a peer is lost"
                )
            }
            Err(error) => error.to_string(),
        };
        let all = cluster.all_gather(settings)?;
        let weights = weights.map_err(refused)?;
        if let Some(other) = (0..all.len()).find(|&other| all[other] != all[0]) {
            let (here, there) = (all[0].clone(), all[other].clone());
            return Err(Error::Differs { rank: Rank::new(other as u32), here, there }.into());
        }
        if weights.peers() != cluster.size() {
            let problem = format!("it has {}", weights.peers());
            return Err(refused(hemiola_collective_proto::Error::BadGraph { peers: cluster.size(), problem }));
        }
        let piece = (PIECE_BYTES / size_of::<T>()).max(1);
        let mixer = Mixer::new(cluster.rank(), weights, length, piece, synchronization).map_err(refused)?;
        Mixing::start(cluster, mixer, synchronization, on_loss)
    }
}

/// FNV-1a over edges and weights.
fn digest(graph: &Graph, weights: &Weights) -> u64 {
    let edges = graph.edges().flat_map(|(from, to)| [from.number(), to.number()]);
    let rows = Rank::all(weights.peers()).flat_map(|peer| {
        let row = weights.row(peer);
        row.units().iter().flat_map(|&(from, units)| [from.number(), units]).chain([row.denominator()])
    });
    let bytes = edges.chain(rows).flat_map(u32::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
