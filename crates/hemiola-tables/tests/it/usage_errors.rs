//! Usage errors are returned by the call, and the table stays usable.

use crate::support::with_watchdog;
use hemiola_cluster::{Error, standalone};
use hemiola_core::{ErrorKind, Rank};
use hemiola_tables::{Consistency, NonFinitePolicy, Sgd, TableExt};

#[test]
fn usage_errors_are_returned_by_the_call() {
    with_watchdog(|| {
        for (peers, consistency) in [(1, Consistency::Bsp), (1, Consistency::Async), (2, Consistency::Ssp(1))] {
            standalone(peers)
                .workers(2)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").rows(10).width(2).consistency(consistency).build()?;
                    table.each_worker(|worker| {
                        let said = |result: Result<(), Error>| {
                            let error = result.unwrap_err();
                            assert_eq!(error.kind(), ErrorKind::Usage);
                            error.to_string()
                        };
                        assert!(said(worker.get(10, |_| ())).starts_with("table `w` has no row 10"));
                        assert!(said(worker.get_many(&[1, 11], |_, _| ())).starts_with("table `w` has no row 11"));
                        assert!(said(worker.inc(10, &[0.0; 2])).starts_with("table `w` has no row 10"));
                        assert!(said(worker.inc(1, &[0.0; 3])).contains("2 columns, but 3 values"));
                        assert!(said(worker.inc_many(&[1, 2], &[0.0; 3])).contains("3 values were given"));
                        let nan = said(worker.inc(3, &[0.0, f32::NAN]));
                        let named = format!("worker {} of peer {}", worker.id(), cluster.rank());
                        assert!(nan.contains("row 3, column 1") && nan.contains(&named), "{nan}");
                        assert!(
                            said(worker.inc_many(&[1, 2], &[0.0, 0.0, f32::INFINITY, 0.0])).contains("row 2, column 0")
                        );
                        worker.inc(3, &[1.0, 0.0])?;
                        worker.clock()
                    })?;
                    assert_eq!(table.collect()?[&3], [2.0 * peers as f32, 0.0]);
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn updates_that_are_not_finite_can_be_dropped_and_counted() {
    with_watchdog(|| {
        for peers in [1, 2] {
            standalone(peers)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").staleness(1).non_finite(NonFinitePolicy::Drop).build()?;
                    table.each_worker(|worker| {
                        worker.inc(1, &[f32::NAN])?;
                        worker.inc(1, &[1.0])?;
                        worker.clock()
                    })?;
                    assert_eq!((table.dropped(), table.collect()?[&1][0].to_bits()), (1, (peers as f32).to_bits()));
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn a_worker_has_one_handle_at_a_time() {
    standalone(1)
        .run(|cluster| {
            let table = cluster.table::<f32>("w").build()?;
            cluster.each_worker(|worker| {
                let _first = table.worker(worker).unwrap();
                let second = table.worker(worker).unwrap_err().to_string();
                assert!(second.contains("worker 0 has a handle to table `w` already"), "{second}");
            })?;
            Ok(())
        })
        .unwrap();
}

#[test]
fn invalid_tables_are_rejected_on_every_peer() {
    with_watchdog(|| {
        let error = standalone(2)
            .run(|cluster| {
                let width = 1 + usize::from(cluster.rank() == Rank::new(1));
                cluster.table::<f32>("w").width(width).build()
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("peer 1 built table `w` with other settings than peer 0"), "{error}");
        let error = standalone(2).run(|cluster| cluster.table::<f32>("w").width(0).build()).unwrap_err();
        assert!(error.to_string().contains("the number of columns must be between 1"), "{error}");
        let sparse = standalone(1).run(|cluster| cluster.table::<f32>("w").sparse().update_rule(Sgd::new(0.1)).build());
        assert!(sparse.is_ok(), "{sparse:?}");
        let uneven = standalone(2).run(|cluster| {
            let table = cluster.table::<f32>("w").staleness(3).build()?;
            table.each_worker(|worker| if cluster.is_root() { worker.clock() } else { Ok(()) })?;
            table.collect()
        });
        let uneven = uneven.unwrap_err().to_string();
        assert!(uneven.contains("worker 0 of peer 0 is at clock 1, but others are at 0"), "{uneven}");
    });
}

#[test]
fn sparse_tables_store_nonzero_columns() {
    with_watchdog(|| {
        for peers in [1, 2] {
            standalone(peers)
                .run(|cluster| {
                    let table = cluster.table::<i32>("topics").width(1000).sparse().staleness(1).build()?;
                    table.each_worker(|worker| {
                        worker.inc_columns(1 << 40, &[3, 900], &[1, 2])?;
                        worker.clock()?;
                        worker.clock()?;
                        let here = worker.get(1 << 40, |row| (row.entries().collect::<Vec<_>>(), row.column(4)))?;
                        let n = i32::try_from(peers).unwrap();
                        assert_eq!(here, (vec![(3, n), (900, 2 * n)], None));
                        Ok(())
                    })?;
                    assert_eq!(table.collect()?[&(1 << 40)].iter().sum::<i32>(), 3 * i32::try_from(peers).unwrap());
                    Ok(())
                })
                .unwrap();
        }
    });
}
