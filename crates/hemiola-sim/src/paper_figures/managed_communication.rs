//! Bösen, figures 4 and 5: benefit of bandwidth-managed communication, by budget and by
//! prioritization policy.
//!
//! As in the paper, a clock is an epoch of a worker, the staleness bound is two, and every peer has
//! a client, shards and workers. *S* is bounded staleness alone: rows are sent when clocks end. In
//! *B* runs, peers send updates and rows eagerly, within a budget. The data per peer are constant.
//! Budgets are multiples of the traffic of S, as in the paper: 200 and 800 Mbit/s against 33.

use super::{FigurePanel, PaperFigure, or_dash, reached};
use crate::cluster_spec::ClusterSpec;
use crate::simulation::PeerUsage;
use crate::units::{DataRate, SimDuration};
use crate::workload::{lda, mf};
use hemiola_tables_proto::{Consistency, PriorityPolicy};

/// Number of shards of every table: the smallest number of peers.
const SHARDS: usize = 8;

/// A variant of communication.
#[derive(Clone, Copy)]
struct ManagedVariant {
    name: &'static str,
    /// Budget as a multiple of the traffic of S, and the prioritization policy; `None` for S.
    ahead: Option<(f64, PriorityPolicy)>,
}

/// Seconds and loss by clock, and the traffic of a peer in Mbit/s.
type ManagedRun = (Vec<(f64, f64)>, f64);

const VARIANTS: [ManagedVariant; 4] = [
    ManagedVariant { name: "S", ahead: None },
    ManagedVariant { name: "B 6x R", ahead: Some((6.0, PriorityPolicy::Random)) },
    ManagedVariant { name: "B 6x RM", ahead: Some((6.0, PriorityPolicy::RelativeMagnitude)) },
    ManagedVariant { name: "B 24x R", ahead: Some((24.0, PriorityPolicy::Random)) },
];

fn cluster(peers: usize) -> ClusterSpec {
    let mut cluster = ClusterSpec::new(peers);
    // Link bandwidth exceeds every budget, as in the paper.
    cluster.link.bandwidth = DataRate::from_bits(1_000_000_000);
    cluster.link.latency = SimDuration::from_micros(100);
    cluster.compute = vec![crate::cluster_spec::ComputeModel::Jitter { deviation: 0.05 }];
    cluster
}

fn finish(course: &[(SimDuration, f64)], usage: &[PeerUsage]) -> ManagedRun {
    let last = course.last().map_or(1.0, |(end, _)| end.secs());
    let bytes: u64 = usage.iter().map(|account| account.sent_bytes).sum();
    let rate = bytes as f64 * 8e-6 / usage.len() as f64 / last;
    (course.iter().map(|(end, loss)| (end.secs(), *loss)).collect(), rate)
}

/// Figure 4: matrix factorization.
pub(super) fn factors(peers: &[usize], seeds: u64) -> Result<PaperFigure, String> {
    let run = |peers: usize, seed: u64, budget: Option<DataRate>, priority: PriorityPolicy| {
        let job = mf::MfWorkload {
            seed,
            users: 120 * peers,
            items: 200,
            per_user: 50,
            rank: 32,
            adaptive_revision: true,
            clocks: 20,
            clocks_per_epoch: 1,
            batches_per_clock: 20,
            workers: 1,
            shards: SHARDS,
            consistency: Consistency::Ssp(2),
            budget,
            priority,
            rating_time: SimDuration::from_micros(32),
            ..mf::MfWorkload::default()
        };
        let outcome = job.run(&cluster(peers), seed, false)?;
        Ok(finish(&outcome.curve, &outcome.usage))
    };
    compare("Matrix factorization under managed communication", "mean squared error", peers, seeds, run)
}

/// Figure 5: topic model.
pub(super) fn topics(peers: &[usize], seeds: u64) -> Result<PaperFigure, String> {
    let run = |peers: usize, seed: u64, budget: Option<DataRate>, priority: PriorityPolicy| {
        let job = lda::LdaWorkload {
            seed,
            documents: 40 * peers,
            length: 40,
            words: 400,
            topics: 16,
            clocks: 30,
            batches_per_clock: 10,
            workers: 1,
            shards: SHARDS,
            consistency: Consistency::Ssp(2),
            budget,
            priority,
            token_time: SimDuration::from_micros(128),
        };
        let outcome = job.run(&cluster(peers), seed)?;
        Ok(finish(&outcome.curve, &outcome.usage))
    };
    compare("Topics under managed communication", "negative log likelihood of a token", peers, seeds, run)
}

/// All variants with one seed.
struct SeedComparison {
    runs: Vec<ManagedRun>,
    /// Epochs and seconds to the target, by variant.
    reached: Vec<Option<(f64, f64)>>,
}

impl SeedComparison {
    fn new(run: impl Fn(Option<DataRate>, PriorityPolicy) -> Result<ManagedRun, String>) -> Result<Self, String> {
        let mut runs: Vec<ManagedRun> = Vec::new();
        for kind in &VARIANTS {
            let alone = runs.first().map_or(0.0, |(_, rate)| *rate);
            // Half of the budget for each direction, as in the paper.
            let budget = kind.ahead.map(|(times, _)| DataRate::from_bits((1e6 * alone * times / 2.0) as u64));
            runs.push(run(budget, kind.ahead.map_or(PriorityPolicy::Random, |(_, priority)| priority))?);
        }
        // The target leaves a tenth of the improvement that S makes.
        let alone = &runs[0].0;
        let (begin, end) = (alone[0].1, alone[alone.len() - 1].1);
        let target = end + 0.1 * (begin - end);
        let reached = runs.iter().map(|(course, _)| reached(course, target)).collect();
        Ok(Self { runs, reached })
    }

    /// Ratio of the epochs (or seconds) of S to those of a variant.
    fn share(&self, kind: usize, of: fn((f64, f64)) -> f64) -> Option<f64> {
        Some(of(self.reached[0]?) / of(self.reached[kind]?))
    }
}

/// Mean of all numbers; `None` if one is missing.
fn mean(numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let numbers = numbers.collect::<Option<Vec<f64>>>()?;
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}

fn compare(
    title: &str,
    loss: &str,
    peers: &[usize],
    seeds: u64,
    run: impl Fn(usize, u64, Option<DataRate>, PriorityPolicy) -> Result<ManagedRun, String>,
) -> Result<PaperFigure, String> {
    let (mut rows, mut by_pass, mut by_time) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_peers: Vec<(&str, [f64; 2])> = Vec::new();
    for &count in peers {
        let compared =
            (1..=seeds.max(1)).map(|seed| SeedComparison::new(|budget, priority| run(count, seed, budget, priority)));
        let compared = compared.collect::<Result<Vec<_>, _>>()?;
        for (place, kind) in VARIANTS.iter().enumerate() {
            let fewer = |one: &SeedComparison| one.share(place, |(passes, _)| passes);
            let rate = mean(compared.iter().map(|one| Some(one.runs[place].1)));
            let pass =
                |one: &SeedComparison| one.runs[place].0.last().map(|(end, _)| end / one.runs[place].0.len() as f64);
            let each: Vec<f64> = compared.iter().filter_map(fewer).collect();
            let all = mean(compared.iter().map(fewer));
            let number =
                |number: Option<f64>, digits: usize| or_dash(number.map(|number| format!("{number:.digits$}")));
            let bound = |of: fn(f64, f64) -> f64| all.and_then(|_| each.iter().copied().reduce(of));
            rows.push(vec![
                kind.name.to_owned(),
                count.to_string(),
                number(rate, 2),
                number(mean(compared.iter().map(pass)), 3),
                number(mean(compared.iter().map(|one| Some(one.reached[place]?.0))), 1),
                number(all, 2),
                number(bound(f64::min), 2),
                number(bound(f64::max), 2),
                number(mean(compared.iter().map(|one| one.share(place, |(_, seconds)| seconds))), 2),
            ]);
            by_peers.extend(all.map(|all| (kind.name, [count as f64, all])));
        }
        if count == peers[0] {
            for (kind, (course, _)) in VARIANTS.iter().zip(&compared[0].runs) {
                let passes = course.iter().zip(1..).map(|((_, loss), pass)| [f64::from(pass), *loss]);
                by_pass.push((kind.name.to_owned(), passes.collect()));
                by_time.push((kind.name.to_owned(), course.iter().map(|(end, loss)| [*end, *loss]).collect()));
            }
        }
    }
    let axes = |x: &str, y: &str| [x.to_owned(), y.to_owned()];
    let mut panels = vec![
        FigurePanel { axes: axes(&format!("pass, {} peers", peers[0]), loss), lines: by_pass },
        FigurePanel { axes: axes(&format!("seconds, {} peers", peers[0]), loss), lines: by_time },
    ];
    if peers.len() > 1 {
        let line = |kind: &ManagedVariant| {
            let mut points: Vec<[f64; 2]> =
                by_peers.iter().filter(|(name, _)| *name == kind.name).map(|(_, point)| *point).collect();
            points.sort_by(|a, b| a[0].total_cmp(&b[0]));
            (kind.name.to_owned(), points)
        };
        let lines = VARIANTS.iter().map(line).collect();
        panels.push(FigurePanel { axes: axes("peers", "times fewer passes than S"), lines });
    }
    let columns = vec![
        "run",
        "peers",
        "Mbit/s of a peer",
        "s a pass",
        "passes to target",
        "times fewer",
        "least",
        "most",
        "times faster",
    ];
    Ok(PaperFigure { title: title.to_owned(), panels, columns, rows })
}
