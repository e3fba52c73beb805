//! ASAP, figure 10: gossip averaging over a root expander, with NOTIFY-ACK, with a barrier, and
//! asynchronous.
//!
//! As in the paper, 25 processes on eight machines, about three on each, share 56 Gbit/s InfiniBand
//! that carries 40, and a model of 11 million 4-byte numbers goes to two other processes in every
//! round. A small classifier stands for the model; each of its values has the bytes of many. The
//! paper does not state the compute time between two averages, so it is varied; a machine needs 53
//! ms to send its data of a round.

use super::svm::DistributedSvm;
use super::{FigurePanel, PaperFigure, or_dash, reached};
use crate::actors::gossip::{GossipActor, GossipSetup};
use crate::cluster_spec::{ClusterSpec, ComputeModel, RackSpec};
use crate::simulation::Simulation;
use crate::units::{DataRate, SimDuration};
use hemiola_collective_proto::{GossipSync, GossipWeights, Topology};
use std::sync::Arc;

const MODEL_BYTES: usize = 44_000_000;
const PROCESSES: usize = 3;
const ROUNDS: u64 = 150;
const POINTS: usize = 200;

struct GossipRun {
    /// Seconds, and the mean loss of all peers' models.
    course: Vec<(f64, f64)>,
    /// Mean seconds of a round.
    round: f64,
    /// Share of senders' values that were complete and current, and complete but of an earlier
    /// round.
    whole: f64,
    stale: f64,
}

fn run(peers: usize, work: f64, synchronization: GossipSync, svm: &Arc<DistributedSvm>) -> Result<GossipRun, String> {
    let mut cluster = ClusterSpec::new(peers);
    (cluster.link.bandwidth, cluster.link.latency) = (DataRate::from_bits(40_000_000_000), SimDuration::from_micros(2));
    cluster.racks = Some(RackSpec {
        peers: PROCESSES,
        uplink: DataRate::from_bits(40_000_000_000),
        latency: SimDuration::from_micros(1),
    });
    cluster.compute =
        vec![ComputeModel::Jitter { deviation: 0.1 }, ComputeModel::Stragglers { probability: 0.01, factor: 3.0 }];
    let graph = Topology::RootExpander.graph(peers).map_err(|error| error.to_string())?;
    let learned = svm.clone();
    let setup = GossipSetup {
        weights: GossipWeights::average(&graph).into(),
        length: DistributedSvm::FEATURES,
        piece: DistributedSvm::FEATURES / 5,
        value_bytes: MODEL_BYTES / DistributedSvm::FEATURES,
        synchronization,
        rounds: ROUNDS,
        step: Arc::new(move |peer, round, values| learned.step(peer.index(), round, values)),
        work: SimDuration::from_secs_f64(work),
        survives_losses: false,
        ignore_others: false,
    };
    let mixers = hemiola_core::Rank::all(peers).map(|me| GossipActor::new(me, peers, setup.clone()));
    let mut mixers = mixers.collect::<Result<Vec<_>, _>>()?.into_iter();
    let simulation = Simulation::new(&cluster, 1, |_| mixers.next());
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    simulation.run().map_err(|trouble| trouble.to_string())?;
    let actors: Vec<&GossipActor> = simulation.actors().iter().flatten().collect();
    let ended = |actor: &GossipActor| actor.round_ends().last().map_or(0.0, |end| end.as_nanos() as f64 * 1e-9);
    let last = actors.iter().map(|actor| ended(actor)).fold(0.0, f64::max);
    let losses: Vec<Vec<f64>> =
        actors.iter().map(|actor| actor.history().iter().map(|(values, _)| svm.loss(values)).collect()).collect();
    let beginning = svm.loss(&[0.0; DistributedSvm::FEATURES]);
    let at = |point: usize| {
        let time = last * point as f64 / POINTS as f64;
        let of = |(actor, losses): (&&GossipActor, &Vec<f64>)| {
            let rounds = actor.round_ends().partition_point(|end| end.as_nanos() as f64 * 1e-9 <= time);
            if rounds == 0 { beginning } else { losses[rounds - 1] }
        };
        (time, actors.iter().zip(&losses).map(of).sum::<f64>() / actors.len() as f64)
    };
    let reduced = || actors.iter().flat_map(|actor| actor.history()).map(|(_, reduced)| reduced);
    let sum = |of: fn(&hemiola_collective_proto::gossip::GossipRound) -> usize| reduced().map(of).sum::<usize>() as f64;
    let senders = sum(|one| one.senders);
    Ok(GossipRun {
        course: (0..=POINTS).map(at).collect(),
        round: last / ROUNDS as f64,
        whole: sum(|one| one.used - one.stale) / senders,
        stale: sum(|one| one.stale) / senders,
    })
}

/// Runs the simulations and builds the figure.
pub(super) fn draw(peers: &[usize]) -> Result<PaperFigure, String> {
    let kinds = [
        ("NOTIFY-ACK", GossipSync::NotifyAck),
        ("barrier", GossipSync::Barrier),
        ("neither", GossipSync::Asynchronous),
    ];
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for &count in peers {
        let svm = Arc::new(DistributedSvm::new(count, 20, 20));
        for work in [0.03, 0.06, 0.12, 0.5] {
            let runs: Vec<GossipRun> =
                kinds.iter().map(|(_, kind)| run(count, work, *kind, &svm)).collect::<Result<_, _>>()?;
            let last = runs[0].course[POINTS].1;
            for ((name, _), run) in kinds.iter().zip(&runs) {
                // Ratio of the time to within this factor of the final loss of NOTIFY-ACK.
                let times = |within: f64| {
                    let at = |run: &GossipRun| reached(&run.course, within * last).map(|(_, seconds)| seconds);
                    or_dash(at(run).zip(at(&runs[0])).map(|(at, first)| format!("{:.2}", at / first)))
                };
                rows.push(vec![
                    (*name).to_owned(),
                    count.to_string(),
                    format!("{:.0}", 1e3 * work),
                    format!("{:.0}", 1e3 * run.round),
                    format!("{:.0} %", 100.0 * run.whole),
                    format!("{:.0} %", 100.0 * run.stale),
                    times(1.2),
                    times(1.1),
                    times(1.05),
                    format!("{:.3}", run.course[POINTS].1),
                ]);
            }
            if count == peers[0] {
                let line = |((name, _), run): (&(&str, GossipSync), &GossipRun)| {
                    ((*name).to_owned(), run.course.iter().map(|(time, loss)| [*time, *loss]).collect())
                };
                panels.push(FigurePanel {
                    axes: [format!("seconds, {:.0} ms of computing a round", 1e3 * work), "loss".to_owned()],
                    lines: kinds.iter().zip(&runs).map(line).collect(),
                });
            }
        }
    }
    let columns = vec![
        "run",
        "peers",
        "ms computing",
        "ms a round",
        "whole",
        "a round late",
        "times to 20 %",
        "times to 10 %",
        "times to 5 %",
        "loss at the end",
    ];
    let title = "NOTIFY-ACK, a barrier, and neither".to_owned();
    Ok(PaperFigure { title, panels, columns, rows })
}
