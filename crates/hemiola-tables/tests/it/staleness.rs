//! Staleness of reads, with slow workers and uneven data.

use crate::support::{quick, with_watchdog};
use hemiola_cluster::standalone;
use hemiola_core::Purpose;
use hemiola_tables::{AdaRevision, Adam, Consistency, RowDelivery, RowInitializer, SnapshotAdaRevision, TableExt};
use std::time::Duration;

#[test]
fn a_read_is_never_staler_than_the_bound() {
    with_watchdog(|| {
        for (peers, workers) in [(1, 3), (2, 2), (3, 1), (4, 2)] {
            for staleness in [0, 1, 3] {
                for delivery in [RowDelivery::Push, RowDelivery::Pull] {
                    standalone(peers)
                        .workers(workers)
                        .deadlines(quick())
                        .run(|cluster| {
                            let all = (peers * workers) as u64;
                            let table = cluster
                                .table::<f64>("counts")
                                .rows(all)
                                .staleness(staleness)
                                .delivery(delivery)
                                .build()?;
                            table.each_worker(|worker| {
                                let me = (cluster.rank().index() * workers + worker.id().index()) as u64;
                                for clock in 0..12_u64 {
                                    if me == 0 {
                                        // The slow worker.
                                        cluster.env().sleep(Duration::from_millis(2));
                                    }
                                    let mut counts = vec![0.0; all as usize];
                                    worker
                                        .get_many(&(0..all).collect::<Vec<_>>(), |place, row| counts[place] = row[0])?;
                                    for (other, count) in counts.iter().enumerate() {
                                        let least = clock.saturating_sub(staleness) as f64;
                                        assert!(*count >= least, "clock {clock}: {other} is at {count}");
                                        if other as u64 == me {
                                            assert!(
                                                (*count - clock as f64).abs() < 0.5,
                                                "a worker sees its own updates"
                                            );
                                        } else if staleness == 0 {
                                            assert!(
                                                *count <= clock as f64,
                                                "BSP hides what others add in the same clock"
                                            );
                                        }
                                    }
                                    worker.inc(me, &[1.0])?;
                                    worker.clock()?;
                                }
                                Ok(())
                            })?;
                            let rows = table.collect()?;
                            assert!((0..all).all(|row| rows[&row] == [12.0]), "{rows:?}");
                            Ok(())
                        })
                        .unwrap();
                }
            }
        }
    });
}

#[test]
fn finished_workers_do_not_block_others() {
    with_watchdog(|| {
        for consistency in [Consistency::Bsp, Consistency::Ssp(1), Consistency::Async] {
            for peers in [1, 3] {
                let sums = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                    let table = cluster.table::<i32>("n").rows(4).consistency(consistency).build()?;
                    table.each_worker(|worker| {
                        let clocks = 1 + 7 * (cluster.rank().index() + worker.id().index());
                        for clock in 0..clocks {
                            worker.get(clock as u64 % 4, |_| ())?;
                            worker.inc(clock as u64 % 4, &[1])?;
                            worker.clock()?;
                        }
                        worker.finish()?;
                        let late = worker.get(0, |_| ()).unwrap_err().to_string();
                        assert!(late.contains("after it had finished"), "{late}");
                        Ok(())
                    })?;
                    Ok(table.collect()?.values().map(|row| row[0]).sum::<i32>())
                });
                let clocks: usize = (0..peers).flat_map(|peer| (0..2).map(move |worker| 1 + 7 * (peer + worker))).sum();
                assert_eq!(sums.unwrap(), vec![i32::try_from(clocks).unwrap(); peers], "{consistency:?}");
            }
        }
    });
}

#[test]
fn one_process_sends_nothing_and_several_count_what_they_send() {
    with_watchdog(|| {
        for (peers, consistency) in [(1, Consistency::Bsp), (1, Consistency::Ssp(1)), (2, Consistency::Ssp(1))] {
            standalone(peers)
                .workers(2)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").rows(100).width(8).consistency(consistency).build()?;
                    table.each_worker(|worker| {
                        for row in 0..100 {
                            worker.get(row, |_| ())?;
                            worker.inc(row, &[1.0; 8])?;
                        }
                        worker.clock()
                    })?;
                    let rows = table.collect()?;
                    assert!(rows.len() == 100 && rows.values().all(|row| *row == [2.0 * peers as f32; 8]));
                    let lines = cluster.traffic().lines.into_iter().filter(|line| line.purpose == Purpose::Tables);
                    let bytes: u64 = lines.map(|line| line.bytes_sent).sum();
                    // Half of the rows are on the other peer: at least 50 rows of 32 bytes go
                    // there, and as many come back.
                    assert!(if peers == 1 { bytes == 0 } else { (3200..50_000).contains(&bytes) }, "{bytes} bytes");
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn update_rules_work_on_any_number_of_peers() {
    with_watchdog(|| {
        for peers in [1, 2, 3] {
            for consistency in [Consistency::Bsp, Consistency::Ssp(1), Consistency::Async] {
                for form in 0..3 {
                    let squares = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                        let table = cluster.table::<f64>("w").rows(6).width(3).consistency(consistency);
                        let table = table.initializer(RowInitializer::Constant(4.0));
                        let table = match form {
                            0 => table.update_rule(AdaRevision::new(0.5)),
                            1 => table.update_rule(SnapshotAdaRevision::new(0.5, 1000)),
                            _ => table.update_rule(Adam::new(0.2)),
                        };
                        let table = table.build()?;
                        table.each_worker(|worker| {
                            for clock in 0..60_u64 {
                                // Minimizes x²/2 of one row by its gradient; the other row is
                                // updated without being read.
                                let row = clock % 6;
                                let gradient: Vec<f64> = worker.read(row)?;
                                worker.inc(row, &gradient)?;
                                worker.inc_many(&[(row + 1) % 6], &[0.0; 3])?;
                                worker.clock()?;
                            }
                            Ok(())
                        })?;
                        Ok(table.collect()?.values().flatten().map(|x| x * x).sum::<f64>())
                    });
                    for squares in squares.unwrap() {
                        // Without a staleness bound there is no guarantee of progress.
                        let bound = if consistency == Consistency::Async { f64::MAX } else { 18.0 * 16.0 / 4.0 };
                        assert!(squares < bound, "form {form}, {consistency:?}, {peers} peers: {squares}");
                    }
                }
            }
        }
    });
}

#[test]
fn intents_change_no_result() {
    with_watchdog(|| {
        let rows = standalone(2).workers(2).deadlines(quick()).run(|cluster| {
            let table = cluster.table::<i32>("w").staleness(1).build()?;
            table.each_worker(|worker| {
                let mine = (cluster.rank().index() * 2 + worker.id().index()) as u64 * 1000;
                let now = worker.current_clock();
                worker.intend(&[mine, 7], now, hemiola_tables::Clock::new(now.units() + 5))?;
                for _ in 0..10 {
                    worker.get(mine, |_| ())?;
                    worker.inc(mine, &[1])?;
                    worker.inc(7, &[1])?;
                    worker.clock()?;
                }
                worker.finish()
            })?;
            table.collect()
        });
        for rows in rows.unwrap() {
            assert_eq!(
                rows.into_iter().map(|(key, row)| (key, row[0])).collect::<Vec<_>>(),
                [(0, 10), (7, 40), (1000, 10), (2000, 10), (3000, 10)]
            );
        }
    });
}

#[test]
fn collect_includes_the_sums_of_leased_rows() {
    with_watchdog(|| {
        let rows = standalone(2).workers(2).deadlines(quick()).run(|cluster| {
            let table = cluster.table::<i32>("w").staleness(1).build()?;
            let mine = |worker: &hemiola_tables::TableWorker<'_, i32>| {
                let first = (cluster.rank().index() * 2 + worker.id().index()) as u64 * 1000;
                (first..first + 20).collect::<Vec<_>>()
            };
            for _ in 0..3 {
                table.each_worker(|worker| {
                    let (keys, now) = (mine(worker), worker.current_clock());
                    worker.intend(&keys, now, hemiola_tables::Clock::new(now.units() + 100))?;
                    worker.get_many(&keys, |_, _| ())?;
                    worker.inc_many(&keys, &[1; 20])?;
                    worker.clock()
                })?;
                while table.leased_rows() < 40 {
                    std::thread::yield_now();
                }
            }
            table.collect()
        });
        for rows in rows.unwrap() {
            assert_eq!(rows.len(), 80);
            assert!(rows.values().all(|row| row == &[3]), "{rows:?}");
        }
    });
}
