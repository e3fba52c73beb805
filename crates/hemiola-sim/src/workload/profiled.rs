//! Prediction of a program on a cluster, from a profile on one machine.
//!
//! - *Rotation* is the plan that the planner of `hemiola-loops` makes for that cluster. Its blocks
//!   have the counted entries and the rows that travel with them.
//! - *Tables*: the rows that would travel are served instead. Each worker has the entries of its
//!   part; the rows of a clock are drawn by their frequency. Rows and updates have their real sizes
//!   and no meaning.
//! - *All-reduce*: the changes of the rows that would travel are summed after each clock.
//!
//! An entry takes the measured time with the measured variation. **Invariant:** the first pass, in
//! which tables fetch all rows, is not counted.

use super::what_if::{TrainingPrediction, TrainingStrategy};
use crate::actor::Actor;
use crate::actors::collectives::{self, CollectiveActor};
use crate::actors::loop_blocks::{self, LoopActor};
use crate::actors::tables::{TableActor, TableActorSetup, TableProgram, TableRows, TableWork};
use crate::cluster_spec::{ClusterSpec, ComputeModel};
use crate::sampling;
use crate::simulation::{PeerUsage, RunSummary, Simulation};
use crate::trace::SimTrace;
use crate::units::SimDuration;
use hemiola_collective_proto::protocol::CallSetup;
use hemiola_collective_proto::{Algorithm, Operation, ReduceOp};
use hemiola_loops::LoopProfile;
use hemiola_loops::plan::{LoopBlock, LoopPlan};
use hemiola_loops::profile::{Histogram, RotatingArray};
use hemiola_tables_proto::update_rule::Addition;
use hemiola_tables_proto::{Consistency, KeySpace, TableSpec};
use std::sync::Arc;

/// Barriers of a loop per pass: peers agree on its plan, on its outcome and on accumulators.
const BARRIERS_PER_PASS: usize = 3;
/// Header bytes of a message of a block; also the size of its last message.
const HEADER_BYTES: usize = 12;
/// Bytes of a number in tables and all-reduce.
const CELL_BYTES: usize = 4;
/// Shards per worker, as in `hemiola-tables`.
const SHARDS_PER_WORKER: usize = 2;

/// A profiled program with the settings of a prediction.
#[derive(Clone, Copy, Debug)]
pub struct ProfiledProgram<'a> {
    /// Profile of the program.
    pub profile: &'a LoopProfile,
    /// Number of workers per peer.
    pub workers: usize,
    /// Clocks per pass, for tables and all-reduce.
    pub clocks: u64,
    /// Number of passes to predict.
    pub passes: usize,
}

/// Totals of some passes.
struct PassRun {
    ended: RunSummary,
    usage: Vec<PeerUsage>,
    trace: Option<SimTrace>,
}

impl ProfiledProgram<'_> {
    /// Predicts one strategy; returns a trace if requested.
    pub fn predict(
        &self,
        strategy: TrainingStrategy,
        cluster: &ClusterSpec,
        seed: u64,
        traced: bool,
    ) -> Result<(TrainingPrediction, Option<SimTrace>), String> {
        if self.workers == 0 || self.clocks == 0 || self.passes == 0 {
            return Err("the number of workers, clocks or passes is 0; use at least 1".to_owned());
        }
        let mut cluster = cluster.clone();
        // Without compute models in the spec, peers vary as the profiled machine did.
        if cluster.compute.is_empty() {
            cluster.compute = vec![ComputeModel::Jitter { deviation: self.profile.time_spread().min(1.0) }];
        }
        let plan = self.plan(cluster.peers)?;
        let run = |passes: usize, traced: bool| match strategy {
            TrainingStrategy::Rotation => self.rotate(&plan, passes, &cluster, seed, traced),
            TrainingStrategy::Bsp => self.serve(&plan, Consistency::Bsp, passes, &cluster, seed, traced),
            TrainingStrategy::Ssp(staleness) => {
                self.serve(&plan, Consistency::Ssp(staleness), passes, &cluster, seed, traced)
            }
            TrainingStrategy::AllReduce => self.all_reduce(&plan, passes, &cluster, seed, traced),
        };
        let (first, all) = (run(1, false)?, run(1 + self.passes, traced)?);
        let (passes, peers) = (self.passes as f64, cluster.peers as f64);
        let sum = |run: &PassRun, of: fn(&PeerUsage) -> u64| run.usage.iter().map(of).sum::<u64>() as f64;
        let more = |of: fn(&PeerUsage) -> u64| sum(&all, of) - sum(&first, of);
        let seconds = (all.ended.end_time.secs() - first.ended.end_time.secs()) / passes;
        let workers_time = 1e9 * seconds * passes * peers * self.workers as f64;
        let prediction = TrainingPrediction {
            strategy: strategy.to_string(),
            epoch_seconds: seconds,
            epoch_bytes: more(|account| account.sent_bytes) / peers / passes,
            epoch_messages: more(|account| account.sent_messages) / peers / passes,
            computing: more(|account| account.computing) / workers_time,
            waiting: more(|account| account.waiting) / workers_time,
            rmse: None,
        };
        Ok((prediction, all.trace))
    }

    /// Returns the plan of the loop for this number of peers.
    pub fn plan(&self, peers: usize) -> Result<LoopPlan, String> {
        let plan = self.profile.plan(peers, self.workers).map_err(|error| error.to_string())?;
        match self.profile.unsupported(&plan) {
            Some(problem) => Err(format!("{} cannot be predicted: {problem}", self.profile.description.title)),
            None => Ok(plan),
        }
    }

    fn nanos(&self, entries: u64) -> u64 {
        (1e9 * self.profile.seconds_per_entry() * entries as f64).round() as u64
    }

    fn rotate(
        &self,
        plan: &LoopPlan,
        passes: usize,
        cluster: &ClusterSpec,
        seed: u64,
        traced: bool,
    ) -> Result<PassRun, String> {
        let entries = self.profile.entries_of(plan).map_err(|error| error.to_string())?;
        let work: Vec<u64> = entries.into_iter().map(|entries| self.nanos(entries)).collect();
        let (times, travelling) = (plan.cuts.times(), self.profile.rotating_arrays(plan));
        let messages = |time: usize| {
            let rows = |array: &RotatingArray| array.row_bytes as usize * array.rows[time].len();
            travelling.iter().map(|array| HEADER_BYTES + rows(array)).chain([HEADER_BYTES]).collect()
        };
        let setup = loop_blocks::LoopSetup {
            cuts: plan.cuts.clone(),
            passes,
            part_values: 0,
            time_values: 0,
            message_bytes: Some(Arc::new((0..times).map(messages).collect())),
            barriers: BARRIERS_PER_PASS,
            work: Arc::new(move |block: LoopBlock| SimDuration::from_nanos(work[block.part * times + block.time])),
            body: Arc::new(|_, _, _, _| {}),
            send_before_run: false,
        };
        let simulation = Simulation::new(cluster, seed, |me| LoopActor::new(me, cluster.peers, setup.clone()));
        finish(simulation.map_err(|error| error.to_string())?, traced)
    }

    /// Draws the histogram bins of the rows that each worker's entries read.
    fn shares(&self, plan: &LoopPlan, cluster: &ClusterSpec, seed: u64) -> Result<Vec<Vec<u32>>, String> {
        let all = cluster.peers * self.workers;
        let time =
            plan.dimensions.1.ok_or("no rows travel, so tables and all-reduce have nothing to do; use rotation")?;
        let counts: Vec<u64> = match &self.profile.histograms[time] {
            Some(histogram) => histogram.counts().to_vec(),
            None => vec![1; self.profile.description.extents[time].end],
        };
        let mut ends: Vec<u64> = Vec::with_capacity(counts.len());
        for count in counts {
            ends.push(ends.last().copied().unwrap_or(0) + count);
        }
        let total = ends.last().copied().unwrap_or(0).max(1);
        let entries = self.profile.description.entries;
        let worker = |number: usize| {
            let share = |at: usize| entries * at as u64 / all as u64;
            let random = &mut sampling::generator(seed ^ 0x5555, number as u64);
            let draw = |_| {
                let at = random.below(total as usize) as u64;
                ends.partition_point(|end| *end <= at) as u32
            };
            (0..share(number + 1) - share(number)).map(draw).collect()
        };
        Ok((0..all).map(worker).collect())
    }

    /// Number of rows that would travel, and of values per row.
    fn shared_rows(&self, plan: &LoopPlan) -> Result<(usize, usize), String> {
        let travelling = self.profile.rotating_arrays(plan);
        let rows = travelling.iter().filter_map(|array| array.rows.last()).map(|rows| rows.end).max();
        let width = travelling.iter().map(|array| array.row_bytes as usize).sum::<usize>().div_ceil(CELL_BYTES);
        let rows = rows.filter(|rows| *rows > 0 && width > 0);
        Ok((rows.ok_or("no rows travel, so tables and all-reduce have nothing to do; use rotation")?, width))
    }

    fn serve(
        &self,
        plan: &LoopPlan,
        consistency: Consistency,
        passes: usize,
        cluster: &ClusterSpec,
        seed: u64,
        traced: bool,
    ) -> Result<PassRun, String> {
        let ((rows, width), peers) = (self.shared_rows(plan)?, cluster.peers);
        let bins = self.shares(plan, cluster, seed)?;
        let time = plan.dimensions.1.unwrap_or(0);
        let bin_rows = self.profile.histograms[time].as_ref().map_or(1, Histogram::width);
        let shards = SHARDS_PER_WORKER * self.workers * peers;
        let spec = TableSpec {
            consistency,
            shards,
            clients: peers,
            ..TableSpec::new("rows", KeySpace::Fixed(rows as u64), width)
        };
        let spec = Arc::new(spec);
        let mut failed = None;
        let simulation = Simulation::new(cluster, seed, |me| {
            let reader = |local: usize| {
                let mine = &bins[me.index() * self.workers + local];
                ProfiledWorker::new(mine, bin_rows, rows, (self.clocks, passes), width, |entries| self.nanos(entries))
            };
            let programs = (0..self.workers).map(reader).collect();
            let setup =
                TableActorSetup { spec: spec.clone(), procedure: || Box::new(Addition), programs, budget: None };
            TableActor::new(me, peers, setup).inspect_err(|problem| failed = Some(problem.clone())).ok()
        });
        let simulation = simulation.map_err(|error| error.to_string())?;
        match failed {
            Some(problem) => Err(problem),
            None => finish(simulation, traced),
        }
    }

    fn all_reduce(
        &self,
        plan: &LoopPlan,
        passes: usize,
        cluster: &ClusterSpec,
        seed: u64,
        traced: bool,
    ) -> Result<PassRun, String> {
        let (rows, width) = self.shared_rows(plan)?;
        let length = rows * width;
        let (algorithm, operator) = (Algorithm::Ring, ReduceOp::Sum);
        let clocks = self.clocks as usize * passes;
        // The workers of a peer compute in parallel and sum locally.
        let share = self.profile.description.entries / (cluster.peers * self.workers) as u64 / self.clocks;
        let before = SimDuration::from_nanos(self.nanos(share));
        let simulation = Simulation::new(cluster, seed, |me| {
            let operation = Operation::AllReduce { algorithm, operator, length };
            let one = collectives::CollectiveJob { operation, elements: vec![0.0_f32; length], before };
            CollectiveActor::new(CallSetup::new(me, cluster.peers), vec![one; clocks], 1)
        });
        finish(simulation.map_err(|error| error.to_string())?, traced)
    }
}

fn finish<A: Actor>(simulation: Simulation<A>, traced: bool) -> Result<PassRun, String> {
    let mut simulation = if traced { simulation.with_trace() } else { simulation };
    let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
    Ok(PassRun { ended, usage: simulation.usage().to_vec(), trace: simulation.trace().cloned() })
}

/// A worker that reads rows, computes and updates them.
#[derive(Debug)]
struct ProfiledWorker {
    /// Rows and compute time, by clock of a pass.
    clocks: Vec<(Vec<u64>, SimDuration)>,
    /// Number of clocks of all passes.
    all: u64,
    width: usize,
}

impl ProfiledWorker {
    fn new(
        bins: &[u32],
        bin_rows: usize,
        rows: usize,
        (clocks, passes): (u64, usize),
        width: usize,
        nanos: impl Fn(u64) -> u64,
    ) -> Self {
        let share = |at: u64| (bins.len() as u64 * at / clocks) as usize;
        let clock = |at: u64| {
            let bins = &bins[share(at)..share(at + 1)];
            // Rows that share a histogram bin are read in turn.
            let row =
                |(number, bin): (usize, &u32)| (*bin as usize * bin_rows + number % bin_rows).min(rows - 1) as u64;
            let mut keys: Vec<u64> = bins.iter().enumerate().map(row).collect();
            keys.sort_unstable();
            keys.dedup();
            (keys, SimDuration::from_nanos(nanos(bins.len() as u64)))
        };
        Self { clocks: (0..clocks).map(clock).collect(), all: clocks * passes as u64, width }
    }

    fn at(&self, clock: u64) -> &(Vec<u64>, SimDuration) {
        &self.clocks[(clock % self.clocks.len() as u64) as usize]
    }
}

impl TableProgram<f32> for ProfiledWorker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        (clock < self.all).then(|| self.at(clock).0.clone())
    }

    fn work(&mut self, clock: u64, _: &mut TableRows<'_, f32>) -> Result<TableWork<f32>, String> {
        let (keys, span) = self.at(clock);
        Ok(TableWork { span: *span, updates: keys.iter().map(|key| (*key, vec![1e-3; self.width], 0)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_spec::HostSpec;
    use crate::units::DataRate;

    /// 6,000 entries in a 60 × 50 space, 10 µs each, with rows of 64 bytes.
    fn profile() -> LoopProfile {
        let array = |name: &str, dimension: usize| {
            serde_json::json!({ "name": name, "dimensions": 2, "buffered": [], "accesses": [{
                "name": dimension, "subscripts": [{ "Index": { "dimension": dimension, "offset": 0 } }],
                "mode": "Update", "text": name, "line": 1, "column": 1,
            }] })
        };
        let even = |extent: u64, each: u64| serde_json::json!({ "extent": extent, "width": 1, "counts": vec![each; extent as usize] });
        let block = serde_json::json!({ "part": 0, "time": 0, "entries": 6000, "compute_seconds": 0.06 });
        let pass = serde_json::json!({ "workers": 1, "seconds": 0.07, "blocks": [block] });
        let value = serde_json::json!({
            "format": hemiola_loops::profile::PROFILE_FORMAT,
            "description": {
                "title": "a loop", "space_text": "entries", "indices": ["u", "i"], "entries": 6000,
                "extents": [{ "start": 0, "end": 60 }, { "start": 0, "end": 50 }],
                "spec": { "dimensions": 2, "ordered": false, "arrays": [array("w", 0), array("h", 1)] },
                "arrays": [{ "shape": [60, 16], "cell_bytes": 4 }, { "shape": [50, 16], "cell_bytes": 4 }],
                "buffer_groups": [], "tables": [], "sortable": true, "rows_only": false,
            },
            "histograms": [even(60, 100), even(50, 120)],
            "joints": [{
                "dimensions": [0, 1],
                "bounds": [(0..=60).collect::<Vec<u64>>(), (0..=50).collect::<Vec<u64>>()],
                "counts": vec![2; 3000],
            }],
            "passes": [pass, pass],
        });
        LoopProfile::from_json(&value.to_string()).unwrap()
    }

    const ALL: [TrainingStrategy; 4] =
        [TrainingStrategy::Bsp, TrainingStrategy::Ssp(1), TrainingStrategy::Rotation, TrainingStrategy::AllReduce];

    fn near(peers: usize) -> ClusterSpec {
        let mut cluster = ClusterSpec::new(peers);
        cluster.link.bandwidth = DataRate::from_bits(10_000_000_000_000);
        (cluster.link.latency, cluster.link.overhead) = (SimDuration::from_nanos(1), SimDuration::ZERO);
        cluster
    }

    fn predicted(strategy: TrainingStrategy, cluster: &ClusterSpec) -> TrainingPrediction {
        let profile = profile();
        let measured = ProfiledProgram { profile: &profile, workers: 1, clocks: 4, passes: 3 };
        measured.predict(strategy, cluster, 1, false).unwrap().0
    }

    #[test]
    fn with_a_fast_network_a_pass_takes_the_time_of_its_entries() {
        for strategy in ALL {
            for peers in [2, 4] {
                let share = predicted(strategy, &near(peers)).epoch_seconds / (0.06 / peers as f64);
                assert!((0.95..1.2).contains(&share), "{strategy} with {peers}: {share}");
            }
        }
    }

    #[test]
    fn peers_of_a_host_share_its_cores() {
        for strategy in ALL {
            let mut cluster = near(4);
            cluster.hosts = Some(HostSpec { peers: 4, cores: 2, message_time: SimDuration::ZERO, nanos_per_byte: 0.0 });
            let (two, four) =
                (predicted(strategy, &near(2)).epoch_seconds, predicted(strategy, &cluster).epoch_seconds);
            assert!(
                (0.9..1.15).contains(&(four / two)),
                "{strategy}: {four} on shared cores, {two} with as many peers"
            );
            // Message handling takes core time from computations.
            let handled = HostSpec { nanos_per_byte: 500.0, ..cluster.hosts.unwrap() };
            let busy = predicted(strategy, &ClusterSpec { hosts: Some(handled), ..cluster });
            assert!(busy.epoch_seconds > 1.05 * four, "{strategy}: {busy:?} after {four}");
        }
    }

    #[test]
    fn a_rotation_sends_its_rows_and_the_first_pass_is_not_counted() {
        let found = predicted(TrainingStrategy::Rotation, &ClusterSpec::new(2));
        // All rows of an array, once from each peer, plus headers, frames and barriers.
        assert!((3200.0..4500.0).contains(&found.epoch_bytes), "{found:?}");
        let served = predicted(TrainingStrategy::Bsp, &ClusterSpec::new(2));
        // In each clock, both peers read and change nearly all rows: half of the updates go to the
        // other peer, and half of the rows come back.
        let rows = 4.0 * 3200.0;
        assert!((0.9 * rows..1.6 * rows).contains(&served.epoch_bytes), "{served:?}");
    }

    #[test]
    fn rows_are_drawn_by_their_frequency() {
        let profile = profile();
        let measured = ProfiledProgram { profile: &profile, workers: 1, clocks: 4, passes: 1 };
        let plan = measured.plan(2).unwrap();
        let draws = measured.shares(&plan, &ClusterSpec::new(2), 1).unwrap();
        assert_eq!(draws.iter().map(Vec::len).sum::<usize>(), 6000);
        let extent = profile.description.extents[plan.dimensions.1.unwrap()].end as u32;
        for row in 0..extent {
            let found = draws.iter().flatten().filter(|drawn| **drawn == row).count() as f64;
            let due = 6000.0 / f64::from(extent);
            assert!((0.5 * due..1.6 * due).contains(&found), "row {row}: {found} of {due}");
        }
    }

    #[test]
    fn predictions_repeat_and_zero_sizes_are_refused() {
        for strategy in ALL {
            assert_eq!(predicted(strategy, &ClusterSpec::new(3)), predicted(strategy, &ClusterSpec::new(3)));
        }
        let profile = profile();
        let measured = ProfiledProgram { profile: &profile, workers: 0, clocks: 1, passes: 1 };
        assert!(measured.predict(TrainingStrategy::Rotation, &ClusterSpec::new(2), 1, false).is_err());
    }
}
