//! Eager sending of rows and sums.

use crate::support::{quick, with_watchdog};
use hemiola_cluster::standalone;
use hemiola_tables::{Bandwidth, Consistency, PriorityPolicy, TableExt};
use std::time::Duration;

#[test]
fn budgets_change_no_sum_and_bsp_no_bit() {
    with_watchdog(|| {
        for consistency in [Consistency::Bsp, Consistency::Ssp(2), Consistency::Async] {
            for priority in [
                PriorityPolicy::RoundRobin,
                PriorityPolicy::Random,
                PriorityPolicy::AbsoluteMagnitude,
                PriorityPolicy::RelativeMagnitude,
            ] {
                for budget in [0, 1, 1000] {
                    let sums = standalone(3).workers(2).deadlines(quick()).run(|cluster| {
                        let table = cluster.table::<f64>("w").rows(50).width(4).consistency(consistency);
                        let table = table.budget(Bandwidth::mbps(budget)).priority(priority).build()?;
                        table.each_worker(|worker| {
                            for clock in 0..8 {
                                for row in 0..50 {
                                    worker.get(row, |_| ())?;
                                    worker.inc(row, &[1.0, f64::from(clock), row as f64, 0.0])?;
                                }
                                worker.clock()?;
                            }
                            worker.finish()
                        })?;
                        table.collect()
                    });
                    for rows in sums.unwrap() {
                        assert!((0..50).all(|row| rows[&row] == [48.0, 168.0, 48.0 * row as f64, 0.0]), "{rows:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn with_a_budget_updates_arrive_before_their_clock_ends_and_within_the_budget() {
    with_watchdog(|| {
        const RATE: u64 = 2_000_000;
        standalone(2)
            .deadlines(quick())
            .run(|cluster| {
                let start = cluster.env().now();
                let table = cluster.table::<f32>("w").rows(4000).width(16).staleness(1000);
                let table = table.budget(Bandwidth::bytes_per_second(RATE)).build()?;
                let keys: Vec<u64> = (0..4000).collect();
                table.each_worker(|worker| {
                    worker.get_many(&keys, |_, _| ())?;
                    let mut seen = 0;
                    if cluster.is_root() {
                        worker.inc_many(&keys, &vec![1.0; 4000 * 16])?;
                    }
                    while seen < 4000 && !cluster.is_root() {
                        // No clock ends here: all visible updates were sent eagerly.
                        seen = 0;
                        worker.get_many(&keys, |_, row| seen += usize::from(row[5] > 0.5))?;
                        cluster.env().sleep(Duration::from_millis(1));
                    }
                    Ok(())
                })?;
                cluster.barrier()?;
                let ((ahead, _), elapsed) = (table.eager_and_urgent_bytes(), cluster.env().now() - start);
                // Both directions, each with its burst.
                let allowed = 2 * (RATE as f64 * (elapsed.as_secs_f64() + 0.02)) as u64;
                // From peer 0: sums for 2000 rows on the other peer, and as many rows from here.
                let needed = if cluster.is_root() { 4000 * 64 } else { 0 };
                assert!((needed..=allowed).contains(&ahead), "{ahead} bytes of {needed} to {allowed}");
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn with_a_budget_of_zero_nothing_is_sent_eagerly() {
    with_watchdog(|| {
        standalone(2)
            .deadlines(quick())
            .run(|cluster| {
                let table = cluster.table::<f32>("w").rows(40).staleness(1000);
                let table = table.budget(Bandwidth::bytes_per_second(0)).build()?;
                let keys: Vec<u64> = (0..40).collect();
                table.each_worker(|worker| worker.get_many(&keys, |_, _| ()))?;
                // A peer that fetched its rows late would see another peer's additions.
                cluster.barrier()?;
                table.each_worker(|worker| {
                    worker.inc_many(&keys, &[1.0; 40])?;
                    cluster.env().sleep(Duration::from_millis(20));
                    let mut sum = 0.0;
                    worker.get_many(&keys, |_, row| sum += row[0])?;
                    assert!((sum - 40.0_f32).abs() < 0.5, "others' updates were seen: {sum}");
                    Ok(())
                })?;
                cluster.barrier()?;
                assert_eq!(table.eager_and_urgent_bytes().0, 0);
                Ok(())
            })
            .unwrap();
    });
}
