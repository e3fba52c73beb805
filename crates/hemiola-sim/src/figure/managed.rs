//! Bösen, figures 4 and 5: what sending rows ahead of need is worth, by budget and by which rows go first.
//!
//! As in the paper a clock is a pass over a worker's data, reads may miss two clocks, and every peer has a client, shards and workers. *S* is bounded staleness alone: rows travel when clocks end. In *B* runs, peers send changes and rows meanwhile,
//! as far as a budget allows. Every peer has as much data, however many there are. Budgets are multiples of what S sends in the same time, as those of the paper are: 200 and 800 Mbit/s beside 33.

use super::{Figure, Panel, or_dash, reached};
use crate::describe::Description;
use crate::units::{Rate, Span};
use crate::workload::{lda, mf};
use crate::world::Account;
use hemiola_tables_proto::{Consistency, Priority};

/// Of every table: as many as the fewest peers.
const SHARDS: usize = 8;

/// How rows travel.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// So many times what bounded staleness alone sends, and which rows go first.
    ahead: Option<(f64, Priority)>,
}

/// By clock, seconds and loss; and megabits a second that a peer sends.
type Run = (Vec<(f64, f64)>, f64);

const KINDS: [Kind; 4] = [
    Kind { name: "S", ahead: None },
    Kind { name: "B 6x R", ahead: Some((6.0, Priority::Random)) },
    Kind { name: "B 6x RM", ahead: Some((6.0, Priority::RelativeMagnitude)) },
    Kind { name: "B 24x R", ahead: Some((24.0, Priority::Random)) },
];

fn cluster(peers: usize) -> Description {
    let mut cluster = Description::new(peers);
    // Whatever a budget allows there is room for, as in the paper.
    cluster.link.bandwidth = Rate::from_bits(1_000_000_000);
    cluster.link.latency = Span::from_micros(100);
    cluster.compute = vec![crate::describe::Compute::Jitter { deviation: 0.05 }];
    cluster
}

fn finish(course: &[(Span, f64)], accounts: &[Account]) -> Run {
    let last = course.last().map_or(1.0, |(end, _)| end.secs());
    let bytes: u64 = accounts.iter().map(|account| account.sent_bytes).sum();
    let rate = bytes as f64 * 8e-6 / accounts.len() as f64 / last;
    (course.iter().map(|(end, loss)| (end.secs(), *loss)).collect(), rate)
}

/// Figure 4.
pub(super) fn factors(peers: &[usize], seeds: u64) -> Result<Figure, String> {
    let run = |peers: usize, seed: u64, budget: Option<Rate>, priority: Priority| {
        let job = mf::Job {
            seed,
            users: 120 * peers,
            items: 200,
            per_user: 50,
            rank: 32,
            revised: true,
            clocks: 20,
            clocks_per_pass: 1,
            parts: 20,
            workers: 1,
            shards: SHARDS,
            consistency: Consistency::Ssp(2),
            budget,
            priority,
            rating: Span::from_micros(32),
            ..mf::Job::default()
        };
        let outcome = job.run(&cluster(peers), seed, false)?;
        Ok(finish(&outcome.course, &outcome.accounts))
    };
    compare("Matrix factorization under managed communication", "mean squared error", peers, seeds, run)
}

/// Figure 5.
pub(super) fn topics(peers: &[usize], seeds: u64) -> Result<Figure, String> {
    let run = |peers: usize, seed: u64, budget: Option<Rate>, priority: Priority| {
        let job = lda::Job {
            seed,
            documents: 40 * peers,
            length: 40,
            words: 400,
            topics: 16,
            clocks: 30,
            parts: 10,
            workers: 1,
            shards: SHARDS,
            consistency: Consistency::Ssp(2),
            budget,
            priority,
            token: Span::from_micros(128),
        };
        let outcome = job.run(&cluster(peers), seed)?;
        Ok(finish(&outcome.course, &outcome.accounts))
    };
    compare("Topics under managed communication", "negative log likelihood of a token", peers, seeds, run)
}

/// All kinds with one seed, and what each comes to.
struct Compared {
    runs: Vec<Run>,
    /// By kind, if it comes to the target: passes and seconds.
    reached: Vec<Option<(f64, f64)>>,
}

impl Compared {
    fn new(run: impl Fn(Option<Rate>, Priority) -> Result<Run, String>) -> Result<Self, String> {
        let mut runs: Vec<Run> = Vec::new();
        for kind in &KINDS {
            let alone = runs.first().map_or(0.0, |(_, rate)| *rate);
            // Half of it for each direction, as in the paper.
            let budget = kind.ahead.map(|(times, _)| Rate::from_bits((1e6 * alone * times / 2.0) as u64));
            runs.push(run(budget, kind.ahead.map_or(Priority::Random, |(_, priority)| priority))?);
        }
        // A tenth of the way is left from where all begin to where bounded staleness ends.
        let alone = &runs[0].0;
        let (begin, end) = (alone[0].1, alone[alone.len() - 1].1);
        let target = end + 0.1 * (begin - end);
        let reached = runs.iter().map(|(course, _)| reached(course, target)).collect();
        Ok(Self { runs, reached })
    }

    /// How many times fewer passes, or seconds, than bounded staleness a kind takes.
    fn share(&self, kind: usize, of: fn((f64, f64)) -> f64) -> Option<f64> {
        Some(of(self.reached[0]?) / of(self.reached[kind]?))
    }
}

/// The mean, if all are there.
fn mean(numbers: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let numbers = numbers.collect::<Option<Vec<f64>>>()?;
    Some(numbers.iter().sum::<f64>() / numbers.len() as f64)
}

fn compare(
    title: &str,
    loss: &str,
    peers: &[usize],
    seeds: u64,
    run: impl Fn(usize, u64, Option<Rate>, Priority) -> Result<Run, String>,
) -> Result<Figure, String> {
    let (mut rows, mut by_pass, mut by_time) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_peers: Vec<(&str, [f64; 2])> = Vec::new();
    for &count in peers {
        let compared =
            (1..=seeds.max(1)).map(|seed| Compared::new(|budget, priority| run(count, seed, budget, priority)));
        let compared = compared.collect::<Result<Vec<_>, _>>()?;
        for (place, kind) in KINDS.iter().enumerate() {
            let fewer = |one: &Compared| one.share(place, |(passes, _)| passes);
            let rate = mean(compared.iter().map(|one| Some(one.runs[place].1)));
            let pass = |one: &Compared| one.runs[place].0.last().map(|(end, _)| end / one.runs[place].0.len() as f64);
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
            for (kind, (course, _)) in KINDS.iter().zip(&compared[0].runs) {
                let passes = course.iter().zip(1..).map(|((_, loss), pass)| [f64::from(pass), *loss]);
                by_pass.push((kind.name.to_owned(), passes.collect()));
                by_time.push((kind.name.to_owned(), course.iter().map(|(end, loss)| [*end, *loss]).collect()));
            }
        }
    }
    let axes = |x: &str, y: &str| [x.to_owned(), y.to_owned()];
    let mut panels = vec![
        Panel { axes: axes(&format!("pass, {} peers", peers[0]), loss), lines: by_pass },
        Panel { axes: axes(&format!("seconds, {} peers", peers[0]), loss), lines: by_time },
    ];
    if peers.len() > 1 {
        let line = |kind: &Kind| {
            let mut points: Vec<[f64; 2]> =
                by_peers.iter().filter(|(name, _)| *name == kind.name).map(|(_, point)| *point).collect();
            points.sort_by(|a, b| a[0].total_cmp(&b[0]));
            (kind.name.to_owned(), points)
        };
        let lines = KINDS.iter().map(line).collect();
        panels.push(Panel { axes: axes("peers", "times fewer passes than S"), lines });
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
    Ok(Figure { title: title.to_owned(), panels, columns, rows })
}
