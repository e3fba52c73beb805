//! What a training would take on a cluster one does not have: the same matrix factorization by several strategies.
//!
//! - *Tables*: rows of items are served, with bounded staleness or in lock step; the mathematics runs, so there is an error, too.
//! - *Rotation*: time blocks of items travel around a ring of workers, each of which works on its users' ratings of the items it holds, as a planned loop does.
//! - *All-reduce*: every worker computes with its own ratings, and changes of all items are added up by a ring after each clock.
//!
//! Of rotation and all-reduce only times and bytes are simulated: their blocks and vectors are as long as real ones, and hold nothing.

use super::mf::{self, Job};
use crate::actors::blocks::{self, Blocks};
use crate::actors::collectives::{self, Collectives};
use crate::describe::Description;
use crate::trace::Trace;
use crate::units::Span;
use crate::world::{Account, Ended, World};
use hemiola_collective_proto::{Algorithm, Operation, Operator};
use hemiola_core::Rank;
use hemiola_loops::plan::{Block, Cuts, Schedule};
use hemiola_tables_proto::Consistency;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Blocks of time for each part of a rotation.
const RATIO: usize = 2;

/// How peers share the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// A table in lock step.
    Bsp,
    /// A table whose reads miss so many clocks at most.
    Ssp(u64),
    /// Blocks around a ring.
    Rotation,
    /// Changes added up after each clock.
    AllReduce,
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bsp => formatter.write_str("bsp"),
            Self::Ssp(staleness) => write!(formatter, "ssp:{staleness}"),
            Self::Rotation => formatter.write_str("rotation"),
            Self::AllReduce => formatter.write_str("all-reduce"),
        }
    }
}

impl FromStr for Strategy {
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
                .ok_or_else(|| "it is one of bsp, ssp:STALENESS, rotation and all-reduce".to_owned()),
        }
    }
}

/// What a strategy would take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Which.
    pub strategy: String,
    /// Seconds of a pass over all ratings.
    pub pass_seconds: f64,
    /// Bytes that a peer sends in a pass, on average.
    pub pass_bytes: f64,
    /// Messages that it sends.
    pub pass_messages: f64,
    /// Share of its workers' time that they compute.
    pub computing: f64,
    /// And wait.
    pub waiting: f64,
    /// The error at the end, where the mathematics runs.
    pub rmse: Option<f64>,
}

/// Predicts one strategy, with what happened when if asked for.
pub fn predict(
    job: &Job,
    strategy: Strategy,
    cluster: &Description,
    seed: u64,
    traced: bool,
) -> Result<(Prediction, Option<Trace>), String> {
    let passes = (job.clocks.div_ceil(job.clocks_per_pass.max(1))).max(1);
    let whole = Job { clocks: passes * job.clocks_per_pass, ..job.clone() };
    let run = match strategy {
        Strategy::Bsp | Strategy::Ssp(_) => {
            let consistency =
                if let Strategy::Ssp(staleness) = strategy { Consistency::Ssp(staleness) } else { Consistency::Bsp };
            let mf::Outcome { ended, rmse, accounts, trace, .. } =
                Job { consistency, ..whole }.run(cluster, seed, traced)?;
            Run { ended, accounts, trace, rmse: Some(rmse.1) }
        }
        Strategy::Rotation => rotate(&whole, passes as usize, cluster, seed, traced)?,
        Strategy::AllReduce => add_up(&whole, cluster, seed, traced)?,
    };
    let (count, peers) = (passes as f64, cluster.peers as f64);
    let total = run.ended.at.secs() * 1e9 * peers * job.workers as f64;
    let sum = |of: fn(&Account) -> u64| run.accounts.iter().map(of).sum::<u64>() as f64;
    let prediction = Prediction {
        strategy: strategy.to_string(),
        pass_seconds: run.ended.at.secs() / count,
        pass_bytes: sum(|account| account.sent_bytes) / peers / count,
        pass_messages: sum(|account| account.sent_messages) / peers / count,
        computing: sum(|account| account.computing) / total,
        waiting: sum(|account| account.waiting) / total,
        rmse: run.rmse,
    };
    Ok((prediction, run.trace))
}

struct Run {
    ended: Ended,
    accounts: Vec<Account>,
    trace: Option<Trace>,
    rmse: Option<f64>,
}

fn finish<A: crate::Actor>(world: World<A>, traced: bool) -> Result<Run, String> {
    let mut world = if traced { world.traced() } else { world };
    let ended = world.run().map_err(|trouble| trouble.to_string())?;
    Ok(Run { ended, accounts: world.accounts().to_vec(), trace: world.trace().cloned(), rmse: None })
}

fn rotate(job: &Job, passes: usize, cluster: &Description, seed: u64, traced: bool) -> Result<Run, String> {
    let parts = cluster.peers * job.workers;
    let times = RATIO * parts;
    let bounds = |end: usize, count: usize| (0..=count as u64).map(|at| end as u64 * at / count as u64).collect();
    let counts = Arc::new(job.counts(parts, times)?);
    let rating = job.rating.nanos();
    let setup = blocks::Setup {
        cuts: Cuts {
            space: bounds(job.users, parts),
            time: bounds(job.items, times),
            skew: None,
            peers_used: cluster.peers,
            schedule: Schedule::Rotation { ratio: RATIO },
        },
        passes,
        part_values: 0,
        // Values of a simulated block have eight bytes, those of a factor four.
        time_values: (job.items * job.rank).div_ceil(2 * times),
        message_bytes: None,
        meetings: 0,
        work: Arc::new(move |block: Block| Span::from_nanos(rating * counts[block.part * times + block.time])),
        body: Arc::new(|_, _, _, _| {}),
        early: false,
    };
    let world = World::new(cluster, seed, |me| Blocks::new(me, cluster.peers, setup.clone()));
    finish(world.map_err(|error| error.to_string())?, traced)
}

fn add_up(job: &Job, cluster: &Description, seed: u64, traced: bool) -> Result<Run, String> {
    let (algorithm, operator) = (Algorithm::Ring, Operator::Sum);
    let length = job.items * job.rank;
    let counts = job.counts(cluster.peers, 1)?;
    let world = World::new(cluster, seed, |me: Rank| {
        // The workers of a peer compute side by side, and add up among themselves.
        let share = counts[me.index()] / (job.workers as u64 * job.clocks_per_pass);
        let one = collectives::Job {
            operation: Operation::AllReduce { algorithm, operator, length },
            elements: vec![0.0_f32; length],
            before: Span::from_nanos(job.rating.nanos() * share),
        };
        Collectives::new(me, cluster.peers, vec![one; job.clocks as usize], 1, 1 << 18)
    });
    finish(world.map_err(|error| error.to_string())?, traced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    const ALL: [Strategy; 4] = [Strategy::Bsp, Strategy::Ssp(2), Strategy::Rotation, Strategy::AllReduce];

    fn small() -> Job {
        let rating = Span::from_micros(1);
        Job { users: 128, items: 120, per_user: 40, clocks: 4, clocks_per_pass: 4, shards: 4, rating, ..Job::default() }
    }

    #[test]
    fn all_strategies_take_longer_on_a_narrower_network() {
        let mut narrow = Description::new(4);
        narrow.link.bandwidth = Rate::from_bits(20_000_000);
        for strategy in ALL {
            let (wide, trace) = predict(&small(), strategy, &Description::new(4), 1, true).unwrap();
            let (slow, none) = predict(&small(), strategy, &narrow, 1, false).unwrap();
            assert!(slow.pass_seconds > 1.5 * wide.pass_seconds, "{strategy}: {wide:?} {slow:?}");
            assert!(!trace.unwrap().spans.is_empty() && none.is_none());
            assert!(wide.computing > 0.0 && wide.computing + wide.waiting < 1.0 + 1e-9, "{wide:?}");
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
    }

    #[test]
    fn without_a_network_to_speak_of_all_take_the_time_of_their_ratings() {
        let mut near = Description::new(2);
        (near.link.latency, near.link.overhead) = (Span::from_nanos(1), Span::ZERO);
        near.link.bandwidth = Rate::from_bits(10_000_000_000_000);
        let job = small();
        let alone = job.rating.secs() * job.ratings() as f64;
        for strategy in ALL {
            let (found, _) = predict(&job, strategy, &near, 1, false).unwrap();
            let share = found.pass_seconds / (alone / 2.0);
            assert!((0.95..1.35).contains(&share), "{strategy}: {share}");
        }
    }

    #[test]
    fn a_rotation_sends_each_block_once_round() {
        let job = Job { items: 128, ..small() };
        let (found, _) = predict(&job, Strategy::Rotation, &Description::new(4), 1, false).unwrap();
        let rows = (job.items * job.rank * 4) as f64;
        // Every peer sends every block once; heads and frames come on top.
        assert!((1.0..1.1).contains(&(found.pass_bytes / rows)), "{found:?}");
        assert!((found.pass_messages - 8.0).abs() < 1e-9, "{found:?}");
    }
}
