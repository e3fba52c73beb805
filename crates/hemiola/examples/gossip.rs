//! Gossip averaging: decentralized averaging over a communication graph.
//!
//! In each round a peer sends its model to a few neighbours and takes the mean of its own model and
//! those it received. All models approach the common mean, faster with a larger spectral gap of the
//! graph. A ring sends one model per peer and round, an expander two, a complete graph all.
//!
//! `cargo run --release --example gossip`:
//! ```text
//! Ring: spectral gap 0.02, after 10 rounds models differ from the mean by at most 4.6250
//! RootExpander: spectral gap 0.21, after 10 rounds models differ from the mean by at most 0.5468
//! Complete: spectral gap 1.00, after 10 rounds models differ from the mean by at most 0.0000
//! ```

use hemiola::Result;
use hemiola::collective::Topology;
use hemiola::prelude::*;

fn main() -> Result<()> {
    // Sixteen peers as threads of this process.
    hemiola::standalone(16).workers(1).run(|cluster| {
        for topology in [Topology::Ring, Topology::RootExpander, Topology::Complete] {
            let gap = cluster.graph(&topology)?.spectral_gap();
            let models = average(cluster, &topology, 10)?;
            let difference = models.iter().fold(0.0, |most: f64, model| most.max((model - 7.5).abs()));
            let result = format_args!("models differ from the mean by at most {difference:.4}");
            cluster.println(format_args!("{topology:?}: spectral gap {gap:.2}, after 10 rounds {result}"));
        }
        Ok(())
    })?;
    Ok(())
}

/// Averages models that start as the ranks of their peers. Returns the models of all peers.
pub(crate) fn average(cluster: &Cluster, topology: &Topology, rounds: usize) -> Result<Vec<f64>> {
    let mut gossip = cluster.gossip::<f64>(&cluster.graph(topology)?, 1).build()?;
    let mut model = [cluster.rank().index() as f64];
    for _ in 0..rounds {
        // A program would take a local step of gradient descent here.
        gossip.average(&mut model)?;
    }
    Ok(cluster.all_gather(model[0])?)
}
