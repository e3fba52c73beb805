//! ASAP, figure 10: averages over a root expander, with NOTIFY-ACK, with a barrier, and with neither.
//!
//! As in the paper 25 processes on eight machines, about three on each, share 56 Gbit/s InfiniBand that carries 40, and a model of 11 million numbers of 4 bytes goes to two others in every round. A small classifier learns in its place; each of its numbers takes the bytes of many. How long a process computes between two averages the paper does not say, so that is
//! varied; what a machine has to send in a round takes 53 ms.

use super::svm::Svm;
use super::{Figure, Panel, or_dash, reached};
use crate::actors::mixing::{Mixing, Setup};
use crate::describe::{Compute, Description, Racks};
use crate::units::{Rate, Span};
use crate::world::World;
use hemiola_collective_proto::{Synchronization, Topology, Weights};
use std::sync::Arc;

const MODEL_BYTES: usize = 44_000_000;
const PROCESSES: usize = 3;
const ROUNDS: u64 = 150;
const POINTS: usize = 200;

struct Run {
    /// Seconds, and the mean loss of all peers' models then.
    course: Vec<(f64, f64)>,
    /// Seconds of a round.
    round: f64,
    /// Share of senders' values that were whole and in time, and whole but of an earlier round.
    whole: f64,
    stale: f64,
}

fn run(peers: usize, work: f64, synchronization: Synchronization, svm: &Arc<Svm>) -> Result<Run, String> {
    let mut cluster = Description::new(peers);
    (cluster.link.bandwidth, cluster.link.latency) = (Rate::from_bits(40_000_000_000), Span::from_micros(2));
    cluster.racks =
        Some(Racks { peers: PROCESSES, uplink: Rate::from_bits(40_000_000_000), latency: Span::from_micros(1) });
    cluster.compute = vec![Compute::Jitter { deviation: 0.1 }, Compute::Stragglers { chance: 0.01, factor: 3.0 }];
    let graph = Topology::RootExpander.graph(peers).map_err(|error| error.to_string())?;
    let learned = svm.clone();
    let setup = Setup {
        weights: Weights::average(&graph).into(),
        length: Svm::FEATURES,
        piece: Svm::FEATURES / 5,
        value_bytes: MODEL_BYTES / Svm::FEATURES,
        synchronization,
        rounds: ROUNDS,
        step: Arc::new(move |peer, round, values| learned.step(peer.index(), round, values)),
        work: Span::from_secs_f64(work),
        outlives: false,
        alone: false,
    };
    let mixers = hemiola_core::Rank::all(peers).map(|me| Mixing::new(me, peers, setup.clone()));
    let mut mixers = mixers.collect::<Result<Vec<_>, _>>()?.into_iter();
    let world = World::new(&cluster, 1, |_| mixers.next());
    let mut world = world.map_err(|error| error.to_string())?;
    world.run().map_err(|trouble| trouble.to_string())?;
    let actors: Vec<&Mixing> = world.actors().iter().flatten().collect();
    let ended = |actor: &Mixing| actor.ends().last().map_or(0.0, |end| end.as_nanos() as f64 * 1e-9);
    let last = actors.iter().map(|actor| ended(actor)).fold(0.0, f64::max);
    let losses: Vec<Vec<f64>> =
        actors.iter().map(|actor| actor.history().iter().map(|(values, _)| svm.loss(values)).collect()).collect();
    let beginning = svm.loss(&[0.0; Svm::FEATURES]);
    let at = |point: usize| {
        let time = last * point as f64 / POINTS as f64;
        let of = |(actor, losses): (&&Mixing, &Vec<f64>)| {
            let rounds = actor.ends().partition_point(|end| end.as_nanos() as f64 * 1e-9 <= time);
            if rounds == 0 { beginning } else { losses[rounds - 1] }
        };
        (time, actors.iter().zip(&losses).map(of).sum::<f64>() / actors.len() as f64)
    };
    let reduced = || actors.iter().flat_map(|actor| actor.history()).map(|(_, reduced)| reduced);
    let sum = |of: fn(&hemiola_collective_proto::mix::Reduced) -> usize| reduced().map(of).sum::<usize>() as f64;
    let senders = sum(|one| one.senders);
    Ok(Run {
        course: (0..=POINTS).map(at).collect(),
        round: last / ROUNDS as f64,
        whole: sum(|one| one.used - one.stale) / senders,
        stale: sum(|one| one.stale) / senders,
    })
}

/// Runs it.
pub(super) fn draw(peers: &[usize]) -> Result<Figure, String> {
    let kinds = [
        ("NOTIFY-ACK", Synchronization::NotifyAck),
        ("barrier", Synchronization::Barrier),
        ("neither", Synchronization::Asynchronous),
    ];
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for &count in peers {
        let svm = Arc::new(Svm::new(count, 20, 20));
        for work in [0.03, 0.06, 0.12, 0.5] {
            let runs: Vec<Run> =
                kinds.iter().map(|(_, kind)| run(count, work, *kind, &svm)).collect::<Result<_, _>>()?;
            let last = runs[0].course[POINTS].1;
            for ((name, _), run) in kinds.iter().zip(&runs) {
                // How much longer it takes until so near to where NOTIFY-ACK ends.
                let times = |within: f64| {
                    let at = |run: &Run| reached(&run.course, within * last).map(|(_, seconds)| seconds);
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
                let line = |((name, _), run): (&(&str, Synchronization), &Run)| {
                    ((*name).to_owned(), run.course.iter().map(|(time, loss)| [*time, *loss]).collect())
                };
                panels.push(Panel {
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
    Ok(Figure { title, panels, columns, rows })
}
