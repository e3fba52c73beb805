//! Prediction of a training on a hypothetical cluster: the same matrix factorization with several
//! strategies.
//!
//! - *Tables*: item factors are on a parameter server, with bounded staleness or bulk synchronous.
//!   The arithmetic is real, so there is an error, too.
//! - *Rotation*: time blocks of items travel around a ring of workers. Each worker processes its
//!   users' ratings of the items it holds, as a planned loop does.
//! - *All-reduce*: every worker processes its own ratings, and the changes of all items are summed
//!   by a ring all-reduce after each clock.
//!
//! For rotation and all-reduce, only times and bytes are simulated: their blocks and vectors have
//! their real sizes and no contents.

use super::mf::{self, MfWorkload};
use crate::actors::collectives::{self, CollectiveActor};
use crate::actors::loop_blocks::{self, LoopActor};
use crate::cluster_spec::ClusterSpec;
use crate::simulation::{PeerUsage, RunSummary, Simulation};
use crate::trace::SimTrace;
use crate::units::SimDuration;
use hemiola_collective_proto::protocol::CallSetup;
use hemiola_collective_proto::{Algorithm, Operation, ReduceOp};
use hemiola_core::Rank;
use hemiola_loops::plan::{Cuts, LoopBlock, LoopSchedule};
use hemiola_tables_proto::Consistency;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Time blocks per part of a rotation.
const RATIO: usize = 2;

/// Strategy of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainingStrategy {
    /// Parameter server, bulk synchronous.
    Bsp,
    /// Parameter server with this staleness bound.
    Ssp(u64),
    /// Rotation of blocks around a ring.
    Rotation,
    /// All-reduce of the changes after each clock.
    AllReduce,
}

impl fmt::Display for TrainingStrategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bsp => formatter.write_str("bsp"),
            Self::Ssp(staleness) => write!(formatter, "ssp:{staleness}"),
            Self::Rotation => formatter.write_str("rotation"),
            Self::AllReduce => formatter.write_str("all-reduce"),
        }
    }
}

impl FromStr for TrainingStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "bsp" => Ok(Self::Bsp),
            "rotation" => Ok(Self::Rotation),
            "all-reduce" => Ok(Self::AllReduce),
            _ => text
                .strip_prefix("ssp:")
                .and_then(|staleness| staleness.parse().ok())
                .map(Self::Ssp)
                .ok_or_else(|| "use one of `bsp`, `ssp:STALENESS`, `rotation` and `all-reduce`".to_owned()),
        }
    }
}

/// Predicted time and traffic of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingPrediction {
    /// Name of the strategy.
    pub strategy: String,
    /// Seconds per epoch over all ratings.
    pub epoch_seconds: f64,
    /// Mean bytes that a peer sends per epoch.
    pub epoch_bytes: f64,
    /// Mean messages that a peer sends per epoch.
    pub epoch_messages: f64,
    /// Share of the workers' time spent computing.
    pub computing: f64,
    /// Share of the workers' time spent waiting.
    pub waiting: f64,
    /// Final error, where the arithmetic is real.
    pub rmse: Option<f64>,
}

/// Predicts one strategy; returns a trace if requested.
pub fn predict(
    job: &MfWorkload,
    strategy: TrainingStrategy,
    cluster: &ClusterSpec,
    seed: u64,
    traced: bool,
) -> Result<(TrainingPrediction, Option<SimTrace>), String> {
    let passes = (job.clocks.div_ceil(job.clocks_per_epoch.max(1))).max(1);
    let whole = MfWorkload { clocks: passes * job.clocks_per_epoch, ..job.clone() };
    let run = match strategy {
        TrainingStrategy::Bsp | TrainingStrategy::Ssp(_) => {
            let consistency = if let TrainingStrategy::Ssp(staleness) = strategy {
                Consistency::Ssp(staleness)
            } else {
                Consistency::Bsp
            };
            let mf::MfOutcome { ended, rmse, usage, trace, .. } =
                MfWorkload { consistency, ..whole }.run(cluster, seed, traced)?;
            SimulatedRun { ended, usage, trace, rmse: Some(rmse.1) }
        }
        TrainingStrategy::Rotation => rotate(&whole, passes as usize, cluster, seed, traced)?,
        TrainingStrategy::AllReduce => all_reduce(&whole, cluster, seed, traced)?,
    };
    let (count, peers) = (passes as f64, cluster.peers as f64);
    let total = run.ended.end_time.secs() * 1e9 * peers * job.workers as f64;
    let sum = |of: fn(&PeerUsage) -> u64| run.usage.iter().map(of).sum::<u64>() as f64;
    let prediction = TrainingPrediction {
        strategy: strategy.to_string(),
        epoch_seconds: run.ended.end_time.secs() / count,
        epoch_bytes: sum(|account| account.sent_bytes) / peers / count,
        epoch_messages: sum(|account| account.sent_messages) / peers / count,
        computing: sum(|account| account.computing) / total,
        waiting: sum(|account| account.waiting) / total,
        rmse: run.rmse,
    };
    Ok((prediction, run.trace))
}

struct SimulatedRun {
    ended: RunSummary,
    usage: Vec<PeerUsage>,
    trace: Option<SimTrace>,
    rmse: Option<f64>,
}

fn finish<A: crate::Actor>(simulation: Simulation<A>, traced: bool) -> Result<SimulatedRun, String> {
    let mut simulation = if traced { simulation.with_trace() } else { simulation };
    let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
    Ok(SimulatedRun { ended, usage: simulation.usage().to_vec(), trace: simulation.trace().cloned(), rmse: None })
}

fn rotate(
    job: &MfWorkload,
    passes: usize,
    cluster: &ClusterSpec,
    seed: u64,
    traced: bool,
) -> Result<SimulatedRun, String> {
    let parts = cluster.peers * job.workers;
    let times = RATIO * parts;
    let bounds = |end: usize, count: usize| (0..=count).map(|at| end * at / count).collect();
    let counts = Arc::new(job.counts(parts, times)?);
    let rating = job.rating_time.nanos();
    let setup = loop_blocks::LoopSetup {
        cuts: Cuts {
            space: bounds(job.users, parts),
            time: bounds(job.items, times),
            skew: None,
            peers_used: cluster.peers,
            schedule: LoopSchedule::Rotation { ratio: RATIO },
        },
        passes,
        part_values: 0,
        // Values of a simulated block have eight bytes, those of a factor four.
        time_values: (job.items * job.rank).div_ceil(2 * times),
        message_bytes: None,
        barriers: 0,
        work: Arc::new(move |block: LoopBlock| {
            SimDuration::from_nanos(rating * counts[block.part * times + block.time])
        }),
        body: Arc::new(|_, _, _, _| {}),
        send_before_run: false,
    };
    let simulation = Simulation::new(cluster, seed, |me| LoopActor::new(me, cluster.peers, setup.clone()));
    finish(simulation.map_err(|error| error.to_string())?, traced)
}

fn all_reduce(job: &MfWorkload, cluster: &ClusterSpec, seed: u64, traced: bool) -> Result<SimulatedRun, String> {
    let (algorithm, operator) = (Algorithm::Ring, ReduceOp::Sum);
    let length = job.items * job.rank;
    let counts = job.counts(cluster.peers, 1)?;
    let simulation = Simulation::new(cluster, seed, |me: Rank| {
        // The workers of a peer compute in parallel and sum locally.
        let share = counts[me.index()] / (job.workers as u64 * job.clocks_per_epoch);
        let one = collectives::CollectiveJob {
            operation: Operation::AllReduce { algorithm, operator, length },
            elements: vec![0.0_f32; length],
            before: SimDuration::from_nanos(job.rating_time.nanos() * share),
        };
        CollectiveActor::new(CallSetup::new(me, cluster.peers), vec![one; job.clocks as usize], 1)
    });
    finish(simulation.map_err(|error| error.to_string())?, traced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DataRate;

    const ALL: [TrainingStrategy; 4] =
        [TrainingStrategy::Bsp, TrainingStrategy::Ssp(2), TrainingStrategy::Rotation, TrainingStrategy::AllReduce];

    fn small() -> MfWorkload {
        let rating = SimDuration::from_micros(1);
        MfWorkload {
            users: 128,
            items: 120,
            per_user: 40,
            clocks: 4,
            clocks_per_epoch: 4,
            shards: 4,
            rating_time: rating,
            ..MfWorkload::default()
        }
    }

    #[test]
    fn all_strategies_take_longer_on_a_narrower_network() {
        let mut narrow = ClusterSpec::new(4);
        narrow.link.bandwidth = DataRate::from_bits(20_000_000);
        for strategy in ALL {
            let (wide, trace) = predict(&small(), strategy, &ClusterSpec::new(4), 1, true).unwrap();
            let (slow, none) = predict(&small(), strategy, &narrow, 1, false).unwrap();
            assert!(slow.epoch_seconds > 1.5 * wide.epoch_seconds, "{strategy}: {wide:?} {slow:?}");
            assert!(!trace.unwrap().spans.is_empty() && none.is_none());
            assert!(wide.computing > 0.0 && wide.computing + wide.waiting < 1.0 + 1e-9, "{wide:?}");
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
    }

    #[test]
    fn with_a_fast_network_all_strategies_take_the_time_of_their_ratings() {
        let mut near = ClusterSpec::new(2);
        (near.link.latency, near.link.overhead) = (SimDuration::from_nanos(1), SimDuration::ZERO);
        near.link.bandwidth = DataRate::from_bits(10_000_000_000_000);
        let job = small();
        let alone = job.rating_time.secs() * job.ratings() as f64;
        for strategy in ALL {
            let (found, _) = predict(&job, strategy, &near, 1, false).unwrap();
            let share = found.epoch_seconds / (alone / 2.0);
            assert!((0.95..1.35).contains(&share), "{strategy}: {share}");
        }
    }

    #[test]
    fn a_rotation_sends_each_block_once_round() {
        let job = MfWorkload { items: 128, ..small() };
        let (found, _) = predict(&job, TrainingStrategy::Rotation, &ClusterSpec::new(4), 1, false).unwrap();
        let rows = (job.items * job.rank * 4) as f64;
        // Every peer sends every block once, plus headers and frames.
        assert!((1.0..1.1).contains(&(found.epoch_bytes / rows)), "{found:?}");
        assert!((found.epoch_messages - 8.0).abs() < 1e-9, "{found:?}");
    }
}
