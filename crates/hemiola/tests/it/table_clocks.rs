//! Clocks of tables inside a pass of a loop: `every`.

use crate::with_watchdog;
use hemiola::cluster::Result;
use hemiola::core::{ClusterEvent, Observer, Purpose};
use hemiola::loops::LoopReport;
use hemiola::prelude::*;
use hemiola::tables::{Consistency, Table, TableInLoop};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Runs `body` on `peers` peers of two workers each.
fn run<T: Send>(peers: usize, body: impl Fn(&Cluster) -> Result<T> + Send + Sync) -> Vec<T> {
    with_watchdog(|| hemiola::cluster::standalone(peers).workers(2).run(|cluster| body(cluster)).unwrap())
}

const SAMPLES: usize = 800;
/// Factors of a feature, after its weight.
const FACTORS: usize = 3;
const WIDTH: usize = 1 + FACTORS;
/// First feature and number of features of each of three fields.
const FIELDS: [(usize, usize); 3] = [(0, 12), (12, 8), (20, 4)];
const FEATURES: u64 = 24;

/// Features of a sample, one of each field.
fn features(sample: usize) -> [usize; 3] {
    let mixed = sample.wrapping_mul(2_654_435_761) >> 7;
    [FIELDS[0].0 + mixed % 12, FIELDS[1].0 + mixed / 12 % 8, FIELDS[2].0 + mixed / 96 % 4]
}

/// A label that weights alone cannot learn: the first two fields interact. A tenth is wrong.
fn label(sample: usize) -> f32 {
    let [user, item, _] = features(sample);
    let wrong = (sample * 7919).is_multiple_of(10);
    if ((user + item) % 2 == 0) == wrong { -1.0 } else { 1.0 }
}

/// Score of a factorization machine, and the sums of factors that its gradient needs.
fn score<'r>(row: impl Fn(usize) -> &'r [f32], features: [usize; 3]) -> (f32, [f32; FACTORS]) {
    let (mut linear, mut sums, mut squares) = (0.0, [0.0; FACTORS], 0.0);
    for feature in features {
        let row = row(feature);
        linear += row[0];
        for factor in 0..FACTORS {
            sums[factor] += row[1 + factor];
            squares += row[1 + factor] * row[1 + factor];
        }
    }
    let pairs = (sums.iter().map(|sum| sum * sum).sum::<f32>() - squares) / 2.0;
    (linear + pairs, sums)
}

/// One pass of stochastic gradient descent with the logistic loss.
fn pass(cluster: &Cluster, w: &TableInLoop<'_, Table<f32>>) -> Result<LoopReport> {
    parallel_for!(
        cluster,
        repeated,
        for sample in 0..SAMPLES {
            let of = features(sample);
            let (scored, sums) = score(|feature| &w[feature], of);
            let y = label(sample);
            let slope = -y / (1.0 + (y * scored).exp());
            for feature in of {
                let row = &w[feature];
                let mut change = [0.0_f32; WIDTH];
                change[0] = -0.05 * slope;
                for factor in 0..FACTORS {
                    change[1 + factor] = -0.05 * slope * (sums[factor] - row[1 + factor]);
                }
                w.add(feature, &change);
            }
        }
    )
}

/// Mean logistic loss over all samples. Not finite if the training has diverged.
fn loss(rows: &BTreeMap<u64, Vec<f32>>) -> f32 {
    let each = (0..SAMPLES).map(|sample| {
        let (scored, _) = score(|feature| &rows[&(feature as u64)], features(sample));
        (-label(sample) * scored).exp().ln_1p()
    });
    each.sum::<f32>() / SAMPLES as f32
}

fn machine(cluster: &Cluster, consistency: Consistency) -> Result<Table<f32>> {
    let initializer = hemiola::tables::RowInitializer::Normal { seed: 3, mean: 0.0, std_dev: 0.3 };
    cluster.table("machine").rows(FEATURES).width(WIDTH).initializer(initializer).consistency(consistency).build()
}

/// Loss after training; infinite if an update was not finite.
fn train(peers: usize, consistency: Consistency, every: Option<u64>, passes: usize) -> f32 {
    let losses = run(peers, |cluster| {
        let table = machine(cluster, consistency)?;
        let w = every.map_or(table.in_loop(), |every| table.in_loop().every(every));
        for _ in 0..passes {
            if pass(cluster, &w).is_err() {
                return Ok(f32::INFINITY);
            }
        }
        Ok(loss(&table.collect()?))
    });
    losses[0]
}

#[test]
fn a_factorization_machine_learns_on_four_peers_as_on_one_if_clocks_end_inside_the_pass() {
    let one = train(1, Consistency::Ssp(1), None, 10);
    assert!(one < 0.33, "it learns on one peer: {one}");
    // Workers of other peers see an update after at most 2 clocks of 8 iterations. The loss depends
    // on the timing of messages. A serial simulation of 8 workers that see updates after a clock ends
    // at 0.301, one worker at 0.292; before training the loss is 0.76.
    let four = train(4, Consistency::Ssp(1), Some(8), 10);
    assert!((four - one).abs() < 0.05, "four peers: {four}, one: {one}");
    // With one clock per pass each of 8 workers adds a whole pass to the same rows. Under BSP the
    // result does not depend on timing.
    let hidden = train(4, Consistency::Bsp, None, 10);
    assert!(!hidden.is_finite() || hidden > 10.0 * one, "one clock per pass: {hidden}, one: {one}");
}

/// Advice that an observer has received.
#[derive(Debug, Default)]
struct AdviceLog(Mutex<Vec<String>>);

impl Observer for AdviceLog {
    fn observe(&self, event: &ClusterEvent) {
        if let ClusterEvent::Warning { message } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// Runs two passes and returns the last plan and all advice.
fn plan_and_advice(peers: usize, every: Option<u64>) -> (String, Vec<String>) {
    let log = Arc::new(AdviceLog::default());
    let plans = with_watchdog({
        let log = log.clone();
        move || {
            let cluster = hemiola::cluster::standalone(peers).workers(2).observer(log);
            let plans = cluster.run(|cluster| {
                let table = machine(cluster, Consistency::Ssp(1))?;
                let w = every.map_or(table.in_loop(), |every| table.in_loop().every(every));
                pass(cluster, &w)?;
                Ok(pass(cluster, &w)?.plan().to_string())
            });
            plans.unwrap()
        }
    });
    let advice = log.0.lock().unwrap().clone();
    (plans[0].clone(), advice)
}

#[test]
fn one_clock_per_pass_on_several_peers_is_warned_of_once() {
    let (plan, advice) = plan_and_advice(2, None);
    let warning = "all updates of a pass to the table `w` are invisible to other peers until its end: add `.every(n)`";
    assert!(plan.contains(&format!("      warning: {warning}")), "{plan}");
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert!(advice[0].contains(warning) && advice[0].starts_with("the loop at "), "{advice:?}");
    for (peers, every) in [(1, None), (2, Some(8))] {
        let (plan, advice) = plan_and_advice(peers, every);
        assert!(!plan.contains("warning") && advice.is_empty(), "{plan}\n{advice:?}");
    }
}

#[test]
fn a_plan_tells_how_many_updates_a_read_may_miss() {
    let (plan, _) = plan_and_advice(2, Some(8));
    let clock = "table `w`: rows announced one chunk ahead, also across passes; the clock advances after each 8 iterations of a worker\n";
    assert!(plan.contains(clock), "{plan}");
    let delay = "a read may miss the updates of about 48 iterations: 2 clocks of 8 on each of 3 other workers\n";
    assert!(plan.contains(delay), "{plan}");
    assert!(plan.contains("cost of a pass: 0 bytes on the network besides tables, "), "{plan}");
    // A worker has 200 iterations in a pass.
    let (plan, _) = plan_and_advice(2, None);
    assert!(plan.contains("about 1200 iterations: 2 clocks of 200 on each of 3 other workers\n"), "{plan}");
}

#[test]
fn a_report_has_the_bytes_that_tables_sent() {
    let sent = |cluster: &Cluster| {
        let lines = cluster.traffic().lines;
        lines.iter().filter(|line| line.purpose == Purpose::Tables).map(|line| line.bytes_sent).sum::<u64>()
    };
    let reports = run(2, |cluster| {
        let table = machine(cluster, Consistency::Bsp)?;
        let w = table.in_loop().every(8).without_announcements();
        let before = sent(cluster);
        let report = pass(cluster, &w)?;
        // All messages of the pass have been answered.
        table.collect()?;
        Ok((report.table_bytes(), cluster.all_gather(sent(cluster) - before)?.iter().sum::<u64>()))
    });
    for (reported, all) in reports {
        assert!(reported > 0 && reported <= all && 2 * reported > all, "{reported} of {all}");
    }
    let alone = run(1, |cluster| {
        let table = machine(cluster, Consistency::Bsp)?;
        Ok(pass(cluster, &table.in_loop().every(8))?.table_bytes())
    });
    assert_eq!(alone, [0]);
}

#[test]
fn workers_with_few_iterations_end_their_clocks_and_block_nobody() {
    let ends = run(3, |cluster| {
        // Nearly all entries are in one row of the array, which one worker gets.
        let all = cluster.from_fn([7, 114], |_| 1_i32)?;
        let entries = all.entries().filter(|[row, at], _| row == 0 || at == 0).materialize()?;
        let (rare, often) = (cluster.table::<i32>("rare").build()?, cluster.table::<i32>("often").build()?);
        let (r, o) = (rare.in_loop().every(50), often.in_loop().every(3));
        let mut rows = cluster.zeros::<i32, 1>([7])?;
        for _ in 0..3 {
            parallel_for!(
                cluster,
                for ([row, _], &one) in &entries {
                    rows[row] += one;
                    assert!(r[5][0] >= 0 && o[row][0] >= 0);
                    r.add(5, &[one]);
                    o.add(row, &[one]);
                }
            )?;
        }
        let at = rare.each_worker(|worker| Ok(worker.current_clock().units()))?;
        assert_eq!(at, [9, 9], "3 passes of 114 iterations, 50 in a clock");
        let at = often.each_worker(|worker| Ok(worker.current_clock().units()))?;
        assert_eq!(at, [114, 114], "3 passes of 114 iterations, 3 in a clock");
        Ok((rare.collect()?[&5][0], often.collect()?[&0][0]))
    });
    assert_eq!(ends, [(360, 342); 3]);
}

#[test]
fn rotations_with_clocks_inside_blocks_neither_block_nor_lose_updates() {
    for consistency in [Consistency::Bsp, Consistency::Ssp(1)] {
        let ends = run(3, |cluster| {
            // Blocks differ in size, so workers end different numbers of clocks on their own.
            let all = cluster.from_fn([40, 40], |_| 1_i32)?;
            let entries = all.entries().filter(|[u, i], _| i <= u).materialize()?;
            let (mut left, mut right) = (cluster.zeros::<i32, 1>([40])?, cluster.zeros::<i32, 1>([40])?);
            let table = cluster.table::<i32>("counts").consistency(consistency).build()?;
            let w = table.in_loop().every(4);
            for _ in 0..2 {
                let run = parallel_for!(
                    cluster,
                    for ([u, i], &one) in &entries {
                        left[u] += one;
                        right[i] += one;
                        assert!(w[u % 3][0] >= 0);
                        w.add(u % 3, &[one]);
                    }
                )?;
                assert!(run.plan().to_string().contains("rotation along"), "{}", run.plan());
            }
            assert_eq!(left.collect()?.into_iter().map(|(_, count)| count).sum::<i32>(), 1640);
            Ok(table.collect()?.values().map(|row| row[0]).sum::<i32>())
        });
        assert_eq!(ends, [1640; 3], "{consistency:?}");
    }
}

#[test]
fn clocks_and_buffers_have_their_own_intervals() {
    let ends = run(2, |cluster| {
        let table = cluster.table::<i32>("counts").build()?;
        let w = table.in_loop().every(5);
        let sums = cluster.zeros::<i32, 1>([3])?;
        let buffer = sums.buffered(|sum, more: i32| *sum += more).flush_every(7);
        for _ in 0..2 {
            parallel_for!(
                cluster,
                for i in 0..100 {
                    buffer[i % 3] += 1;
                    assert!(w[i % 4][0] >= 0);
                    w.add(i % 4, &[1]);
                }
            )?;
        }
        let at = table.each_worker(|worker| Ok(worker.current_clock().units()))?;
        assert_eq!(at, [10, 10], "two passes of 25 iterations, 5 in a clock");
        let sums: i32 = sums.collect()?.into_iter().map(|(_, sum)| sum).sum();
        Ok((sums, table.collect()?.values().map(|row| row[0]).sum::<i32>()))
    });
    assert_eq!(ends, [(200, 200); 2]);
}

#[test]
fn a_table_whose_clocks_end_inside_the_pass_stays_usable_after_a_body_fails() {
    run(2, |cluster| {
        let table = cluster.table::<i32>("counts").build()?;
        let w = table.in_loop().every(3);
        for broken in [150, 400] {
            let failed = parallel_for!(
                cluster,
                for i in 0..200 {
                    assert!(i != broken, "a bad entry");
                    assert!(w[i % 5][0] >= 0);
                    w.add(i % 5, &[1]);
                }
            );
            if broken == 150 {
                let message = failed.unwrap_err().to_string();
                assert!(message.ends_with("failed at entry [150] on peer 1: a bad entry"), "{message}");
            } else {
                failed?;
            }
        }
        table.collect().map(drop)
    });
}
