//! Rows and sums that are sent ahead of need.

use crate::support::{quick, with_watchdog};
use hemiola_cluster::standalone;
use hemiola_parameters::{Bandwidth, Consistency, Priority, Tables};

#[test]
fn budgets_change_no_sum_and_bsp_no_bit() {
    with_watchdog(|| {
        for consistency in [Consistency::Bsp, Consistency::Ssp(2), Consistency::Async] {
            for priority in
                [Priority::RoundRobin, Priority::Random, Priority::AbsoluteMagnitude, Priority::RelativeMagnitude]
            {
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
