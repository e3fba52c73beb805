//! What a program that was measured on one machine would take on a cluster.
//!
//! - *Rotation* is the plan that the planner of `hemiola-loops` makes for that cluster, whatever it is: its blocks have the entries that were counted, and the rows that travel with them.
//! - *Tables*: rows that would travel are served instead. Each worker has the entries of its part; which rows those of a clock read is drawn from how often rows occur. Rows and updates are as long as real ones, and mean nothing.
//! - *All-reduce*: changes of the rows that would travel are added up after each clock.
//!
//! An entry takes the time that was measured, with the spread that was measured. **Invariant:** the first pass, in which tables fetch all rows, is not counted.

use super::what_if::{Prediction, Strategy};
use crate::actor::Actor;
use crate::actors::blocks::{self, Blocks};
use crate::actors::collectives::{self, Collectives};
use crate::actors::tables::{Program, Rows, Setup, Tables, Work};
use crate::chance;
use crate::describe::{Compute, Description};
use crate::trace::Trace;
use crate::units::Span;
use crate::world::{Account, Ended, World};
use hemiola_collective_proto::{Algorithm, Operation, Operator};
use hemiola_loops::Profile;
use hemiola_loops::plan::{Block, Plan};
use hemiola_loops::profile::{Histogram, Travels};
use hemiola_tables_proto::procedure::Add;
use hemiola_tables_proto::{Consistency, Ids, Spec};
use std::sync::Arc;

/// How often a loop has all peers meet: they agree on its plan, on how it has ended, and on what was added up.
const MEETINGS: usize = 3;
/// What stands before the rows in a message of a block, and all of its last message.
const HEAD: usize = 12;
/// Bytes of a number in tables and all-reduce.
const CELL: usize = 4;
/// Shards of a table for each worker, as `hemiola-tables` makes them.
const SHARDS: usize = 2;
/// Bytes of elements in a message of an all-reduce.
const SEGMENT: usize = 1 << 18;

/// How a measured program would run.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The program.
    pub profile: &'a Profile,
    /// Workers of each peer.
    pub workers: usize,
    /// Clocks of a pass, for tables and all-reduce.
    pub clocks: u64,
    /// Passes.
    pub passes: usize,
}

/// What came of some passes.
struct Ran {
    ended: Ended,
    accounts: Vec<Account>,
    trace: Option<Trace>,
}

impl Measured<'_> {
    /// Predicts one strategy, with what happened when if asked for.
    pub fn predict(
        &self,
        strategy: Strategy,
        cluster: &Description,
        seed: u64,
        traced: bool,
    ) -> Result<(Prediction, Option<Trace>), String> {
        if self.workers == 0 || self.clocks == 0 || self.passes == 0 {
            return Err("a prediction needs some workers, clocks and passes".to_owned());
        }
        let mut cluster = cluster.clone();
        // How its peers vary is what the description says; if it says nothing, as the machine that was measured did.
        if cluster.compute.is_empty() {
            cluster.compute = vec![Compute::Jitter { deviation: self.profile.spread().min(1.0) }];
        }
        let plan = self.plan(cluster.peers)?;
        let run = |passes: usize, traced: bool| match strategy {
            Strategy::Rotation => self.rotate(&plan, passes, &cluster, seed, traced),
            Strategy::Bsp => self.serve(&plan, Consistency::Bsp, passes, &cluster, seed, traced),
            Strategy::Ssp(staleness) => self.serve(&plan, Consistency::Ssp(staleness), passes, &cluster, seed, traced),
            Strategy::AllReduce => self.add_up(&plan, passes, &cluster, seed, traced),
        };
        let (first, all) = (run(1, false)?, run(1 + self.passes, traced)?);
        let (passes, peers) = (self.passes as f64, cluster.peers as f64);
        let sum = |run: &Ran, of: fn(&Account) -> u64| run.accounts.iter().map(of).sum::<u64>() as f64;
        let more = |of: fn(&Account) -> u64| sum(&all, of) - sum(&first, of);
        let seconds = (all.ended.at.secs() - first.ended.at.secs()) / passes;
        let workers_time = 1e9 * seconds * passes * peers * self.workers as f64;
        let prediction = Prediction {
            strategy: strategy.to_string(),
            pass_seconds: seconds,
            pass_bytes: more(|account| account.sent_bytes) / peers / passes,
            pass_messages: more(|account| account.sent_messages) / peers / passes,
            computing: more(|account| account.computing) / workers_time,
            waiting: more(|account| account.waiting) / workers_time,
            rmse: None,
        };
        Ok((prediction, all.trace))
    }

    /// The plan of the loop on so many peers.
    pub fn plan(&self, peers: usize) -> Result<Plan, String> {
        let plan = self.profile.plan(peers, self.workers).map_err(|error| error.to_string())?;
        match self.profile.beyond(&plan) {
            Some(problem) => Err(format!("{} cannot be predicted: {problem}", self.profile.subject.title)),
            None => Ok(plan),
        }
    }

    fn nanos(&self, entries: u64) -> u64 {
        (1e9 * self.profile.seconds_per_entry() * entries as f64).round() as u64
    }

    fn rotate(
        &self,
        plan: &Plan,
        passes: usize,
        cluster: &Description,
        seed: u64,
        traced: bool,
    ) -> Result<Ran, String> {
        let entries = self.profile.entries_of(plan).map_err(|error| error.to_string())?;
        let work: Vec<u64> = entries.into_iter().map(|entries| self.nanos(entries)).collect();
        let (times, travelling) = (plan.cuts.times(), self.profile.travelling(plan));
        let messages = |time: usize| {
            let rows = |array: &Travels| (array.row_bytes * (array.rows[time].end - array.rows[time].start)) as usize;
            travelling.iter().map(|array| HEAD + rows(array)).chain([HEAD]).collect()
        };
        let setup = blocks::Setup {
            cuts: plan.cuts.clone(),
            passes,
            part_values: 0,
            time_values: 0,
            message_bytes: Some(Arc::new((0..times).map(messages).collect())),
            meetings: MEETINGS,
            work: Arc::new(move |block: Block| Span::from_nanos(work[block.part * times + block.time])),
            body: Arc::new(|_, _, _, _| {}),
            early: false,
        };
        let world = World::new(cluster, seed, |me| Blocks::new(me, cluster.peers, setup.clone()));
        finish(world.map_err(|error| error.to_string())?, traced)
    }

    /// Entries of each worker, and the rows they are of.
    fn shares(&self, plan: &Plan, cluster: &Description, seed: u64) -> Result<Vec<Vec<u32>>, String> {
        let all = cluster.peers * self.workers;
        let time = plan.dimensions.1.ok_or("no rows travel, so there is nothing to serve or to add up")?;
        let counts: Vec<u64> = match &self.profile.histograms[time] {
            Some(histogram) => histogram.counts().to_vec(),
            None => vec![1; self.profile.subject.extents[time].end as usize],
        };
        let mut ends: Vec<u64> = Vec::with_capacity(counts.len());
        for count in counts {
            ends.push(ends.last().copied().unwrap_or(0) + count);
        }
        let total = ends.last().copied().unwrap_or(0).max(1);
        let entries = self.profile.subject.entries;
        let worker = |number: usize| {
            let share = |at: usize| entries * at as u64 / all as u64;
            let random = &mut chance::generator(seed ^ 0x5555, number as u64);
            let draw = |_| {
                let at = random.below(total as usize) as u64;
                ends.partition_point(|end| *end <= at) as u32
            };
            (0..share(number + 1) - share(number)).map(draw).collect()
        };
        Ok((0..all).map(worker).collect())
    }

    /// Rows that would travel, and numbers in each.
    fn shared_rows(&self, plan: &Plan) -> Result<(u64, usize), String> {
        let travelling = self.profile.travelling(plan);
        let rows = travelling.iter().filter_map(|array| array.rows.last()).map(|rows| rows.end).max();
        let width = travelling.iter().map(|array| array.row_bytes as usize).sum::<usize>().div_ceil(CELL);
        let rows = rows.filter(|rows| *rows > 0 && width > 0);
        Ok((rows.ok_or("no rows travel, so there is nothing to serve or to add up")?, width))
    }

    fn serve(
        &self,
        plan: &Plan,
        consistency: Consistency,
        passes: usize,
        cluster: &Description,
        seed: u64,
        traced: bool,
    ) -> Result<Ran, String> {
        let ((rows, width), peers) = (self.shared_rows(plan)?, cluster.peers);
        let bins = self.shares(plan, cluster, seed)?;
        let time = plan.dimensions.1.unwrap_or(0);
        let bin_rows = self.profile.histograms[time].as_ref().map_or(1, Histogram::width);
        let shards = SHARDS * self.workers * peers;
        let spec = Spec { consistency, shards, clients: peers, ..Spec::new("rows", Ids::Fixed(rows), width) };
        let spec = Arc::new(spec);
        let mut failed = None;
        let world = World::new(cluster, seed, |me| {
            let reader = |local: usize| {
                let mine = &bins[me.index() * self.workers + local];
                Reader::new(mine, bin_rows, rows, (self.clocks, passes), width, |entries| self.nanos(entries))
            };
            let programs = (0..self.workers).map(reader).collect();
            let setup = Setup { spec: spec.clone(), procedure: || Box::new(Add), programs, budget: None };
            Tables::new(me, peers, setup).inspect_err(|problem| failed = Some(problem.clone())).ok()
        });
        let world = world.map_err(|error| error.to_string())?;
        match failed {
            Some(problem) => Err(problem),
            None => finish(world, traced),
        }
    }

    fn add_up(
        &self,
        plan: &Plan,
        passes: usize,
        cluster: &Description,
        seed: u64,
        traced: bool,
    ) -> Result<Ran, String> {
        let (rows, width) = self.shared_rows(plan)?;
        let length = rows as usize * width;
        let (algorithm, operator) = (Algorithm::Ring, Operator::Sum);
        let clocks = self.clocks as usize * passes;
        // The workers of a peer compute side by side, and add up among themselves.
        let share = self.profile.subject.entries / (cluster.peers * self.workers) as u64 / self.clocks;
        let before = Span::from_nanos(self.nanos(share));
        let world = World::new(cluster, seed, |me| {
            let operation = Operation::AllReduce { algorithm, operator, length };
            let one = collectives::Job { operation, elements: vec![0.0_f32; length], before };
            Collectives::new(me, cluster.peers, vec![one; clocks], 1, SEGMENT)
        });
        finish(world.map_err(|error| error.to_string())?, traced)
    }
}

fn finish<A: Actor>(world: World<A>, traced: bool) -> Result<Ran, String> {
    let mut world = if traced { world.traced() } else { world };
    let ended = world.run().map_err(|trouble| trouble.to_string())?;
    Ok(Ran { ended, accounts: world.accounts().to_vec(), trace: world.trace().cloned() })
}

/// A worker that reads rows, computes and adds something to them.
#[derive(Debug)]
struct Reader {
    /// By clock of a pass: the rows it reads, and how long it computes.
    clocks: Vec<(Vec<u64>, Span)>,
    /// Clocks of all passes.
    all: u64,
    width: usize,
}

impl Reader {
    fn new(
        bins: &[u32],
        bin_rows: u64,
        rows: u64,
        (clocks, passes): (u64, usize),
        width: usize,
        nanos: impl Fn(u64) -> u64,
    ) -> Self {
        let share = |at: u64| (bins.len() as u64 * at / clocks) as usize;
        let clock = |at: u64| {
            let bins = &bins[share(at)..share(at + 1)];
            // Of a range of rows that were counted together, all are read in turn.
            let row =
                |(number, bin): (usize, &u32)| (u64::from(*bin) * bin_rows + number as u64 % bin_rows).min(rows - 1);
            let mut keys: Vec<u64> = bins.iter().enumerate().map(row).collect();
            keys.sort_unstable();
            keys.dedup();
            (keys, Span::from_nanos(nanos(bins.len() as u64)))
        };
        Self { clocks: (0..clocks).map(clock).collect(), all: clocks * passes as u64, width }
    }

    fn at(&self, clock: u64) -> &(Vec<u64>, Span) {
        &self.clocks[(clock % self.clocks.len() as u64) as usize]
    }
}

impl Program<f32> for Reader {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        (clock < self.all).then(|| self.at(clock).0.clone())
    }

    fn work(&mut self, clock: u64, _: &mut Rows<'_, f32>) -> Result<Work<f32>, String> {
        let (keys, span) = self.at(clock);
        Ok(Work { span: *span, updates: keys.iter().map(|key| (*key, vec![1e-3; self.width], 0)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::Hosts;
    use crate::units::Rate;

    /// 6,000 entries of 60 by 50, 10 µs each, whose rows have 64 bytes.
    fn profile() -> Profile {
        let array = |name: &str, dimension: usize| {
            serde_json::json!({ "name": name, "dimensions": 2, "buffered": [], "accesses": [{
                "name": dimension, "subscripts": [{ "Index": { "dimension": dimension, "offset": 0 } }],
                "mode": "Update", "text": name, "line": 1, "column": 1,
            }] })
        };
        let even = |extent: u64, each: u64| serde_json::json!({ "extent": extent, "width": 1, "counts": vec![each; extent as usize] });
        let block = serde_json::json!({ "part": 0, "time": 0, "entries": 6000, "computing": 0.06 });
        let pass = serde_json::json!({ "workers": 1, "seconds": 0.07, "blocks": [block] });
        let value = serde_json::json!({
            "format": hemiola_loops::profile::FORMAT,
            "subject": {
                "title": "a loop", "space_text": "entries", "indices": ["u", "i"], "entries": 6000,
                "extents": [{ "start": 0, "end": 60 }, { "start": 0, "end": 50 }],
                "spec": { "dimensions": 2, "ordered": false, "arrays": [array("w", 0), array("h", 1)] },
                "arrays": [{ "shape": [60, 16], "cell_bytes": 4 }, { "shape": [50, 16], "cell_bytes": 4 }],
                "together": [], "tables": [], "sortable": true, "rows_only": false,
            },
            "histograms": [even(60, 100), even(50, 120)],
            "joints": [{
                "dimensions": [0, 1],
                "bounds": [(0..=60).collect::<Vec<u64>>(), (0..=50).collect::<Vec<u64>>()],
                "counts": vec![2; 3000],
            }],
            "passes": [pass, pass],
        });
        Profile::from_json(&value.to_string()).unwrap()
    }

    const ALL: [Strategy; 4] = [Strategy::Bsp, Strategy::Ssp(1), Strategy::Rotation, Strategy::AllReduce];

    fn near(peers: usize) -> Description {
        let mut cluster = Description::new(peers);
        cluster.link.bandwidth = Rate::from_bits(10_000_000_000_000);
        (cluster.link.latency, cluster.link.overhead) = (Span::from_nanos(1), Span::ZERO);
        cluster
    }

    fn predicted(strategy: Strategy, cluster: &Description) -> Prediction {
        let profile = profile();
        let measured = Measured { profile: &profile, workers: 1, clocks: 4, passes: 3 };
        measured.predict(strategy, cluster, 1, false).unwrap().0
    }

    #[test]
    fn without_a_network_to_speak_of_a_pass_takes_the_time_of_its_entries() {
        for strategy in ALL {
            for peers in [2, 4] {
                let share = predicted(strategy, &near(peers)).pass_seconds / (0.06 / peers as f64);
                assert!((0.95..1.2).contains(&share), "{strategy} with {peers}: {share}");
            }
        }
    }

    #[test]
    fn peers_of_a_host_with_fewer_cores_take_as_long_as_the_cores() {
        for strategy in ALL {
            let mut cluster = near(4);
            cluster.hosts = Some(Hosts { peers: 4, cores: 2, message: Span::ZERO, byte_nanos: 0.0 });
            let (two, four) = (predicted(strategy, &near(2)).pass_seconds, predicted(strategy, &cluster).pass_seconds);
            assert!(
                (0.9..1.15).contains(&(four / two)),
                "{strategy}: {four} on shared cores, {two} with as many peers"
            );
            // A byte that takes longer to handle takes it from those who compute.
            let handled = Hosts { byte_nanos: 500.0, ..cluster.hosts.unwrap() };
            let busy = predicted(strategy, &Description { hosts: Some(handled), ..cluster });
            assert!(busy.pass_seconds > 1.05 * four, "{strategy}: {busy:?} after {four}");
        }
    }

    #[test]
    fn a_rotation_sends_the_rows_that_travel_and_the_first_pass_is_not_counted() {
        let found = predicted(Strategy::Rotation, &Description::new(2));
        // All rows of an array, once from each peer: heads, frames and meetings come on top.
        assert!((3200.0..4500.0).contains(&found.pass_bytes), "{found:?}");
        let served = predicted(Strategy::Bsp, &Description::new(2));
        // Each clock nearly all rows are read and changed by both: half of the updates go to the other peer, half of the rows come back.
        let rows = 4.0 * 3200.0;
        assert!((0.9 * rows..1.6 * rows).contains(&served.pass_bytes), "{served:?}");
    }

    #[test]
    fn rows_are_drawn_as_often_as_they_occur() {
        let profile = profile();
        let measured = Measured { profile: &profile, workers: 1, clocks: 4, passes: 1 };
        let plan = measured.plan(2).unwrap();
        let draws = measured.shares(&plan, &Description::new(2), 1).unwrap();
        assert_eq!(draws.iter().map(Vec::len).sum::<usize>(), 6000);
        let extent = profile.subject.extents[plan.dimensions.1.unwrap()].end as u32;
        for row in 0..extent {
            let found = draws.iter().flatten().filter(|drawn| **drawn == row).count() as f64;
            let due = 6000.0 / f64::from(extent);
            assert!((0.5 * due..1.6 * due).contains(&found), "row {row}: {found} of {due}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_prediction_and_nothing_is_no_prediction() {
        for strategy in ALL {
            assert_eq!(predicted(strategy, &Description::new(3)), predicted(strategy, &Description::new(3)));
        }
        let profile = profile();
        let measured = Measured { profile: &profile, workers: 0, clocks: 1, passes: 1 };
        assert!(measured.predict(Strategy::Rotation, &Description::new(2), 1, false).is_err());
    }
}
