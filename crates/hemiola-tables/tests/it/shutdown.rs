//! However a job ends, no wait outlasts it, and the reason is reported.

use crate::support::{quick, with_watchdog};
use hemiola_cluster::standalone;
use hemiola_core::{ChannelId, ChannelOwner, Lane, Rank};
use hemiola_tables::{Consistency, TableExt};
use std::time::Duration;

/// Runs a job in which a worker of the last peer calls `disturb` in clock 3 while others continue,
/// and returns the error.
fn disturbed(
    peers: usize,
    consistency: Consistency,
    disturb: impl Fn() -> hemiola_cluster::Result<()> + Sync,
) -> String {
    with_watchdog(|| {
        let outcome = standalone(peers).workers(3).deadlines(quick()).run(|cluster| {
            let table = cluster.table::<f32>("w").rows(20).consistency(consistency).build()?;
            table.each_worker(|worker| {
                for clock in 0..50 {
                    if cluster.rank().index() == peers - 1 && worker.id().index() == 1 && clock == 3 {
                        disturb()?;
                    }
                    worker.get(clock % 20, |_| ())?;
                    worker.inc(clock % 20, &[1.0])?;
                    worker.clock()?;
                }
                Ok(())
            })?;
            Ok(())
        });
        outcome.unwrap_err().to_string()
    })
}

#[test]
fn a_panicking_worker_ends_the_job() {
    for peers in [1, 2, 3] {
        for consistency in [Consistency::Bsp, Consistency::Ssp(1)] {
            let said = disturbed(peers, consistency, || panic!("out of luck"));
            let expected = format!("worker 1 of peer {} panicked: out of luck", peers - 1);
            assert!(said.contains(&expected), "{peers} peers, {consistency:?}: {said}");
        }
    }
}

#[test]
fn a_failing_worker_ends_the_job() {
    for peers in [1, 2, 3] {
        for consistency in [Consistency::Bsp, Consistency::Ssp(1)] {
            assert_eq!(disturbed(peers, consistency, || Err("no more".into())), "no more");
        }
    }
}

#[test]
fn a_lost_peer_ends_the_job() {
    with_watchdog(|| {
        let errors = std::sync::Mutex::new(Vec::new());
        let outcome = standalone(3).workers(2).deadlines(quick()).run(|cluster| {
            let table = cluster.table::<f32>("w").rows(20).staleness(1).build()?;
            if cluster.rank() == Rank::new(1) {
                return Err("peer 1 has other plans".into());
            }
            let trained = table.each_worker(|worker| {
                for clock in 0..10 {
                    worker.get(clock % 20, |_| ())?;
                    worker.clock()?;
                }
                Ok(())
            });
            errors.lock().unwrap().push(trained.unwrap_err().to_string());
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "peer 1 has other plans");
        let errors = errors.into_inner().unwrap();
        assert!(
            errors.len() == 2 && errors.iter().all(|said| said.contains("lost peer 1") && said.contains("other plans")),
            "{errors:?}"
        );
    });
}

#[test]
fn a_deadline_error_names_the_clocks() {
    with_watchdog(|| {
        let mut deadlines = quick();
        deadlines.wait = Duration::from_millis(300);
        let outcome = standalone(2).deadlines(deadlines).run(|cluster| {
            let table = cluster.table::<f32>("w").rows(20).shards_per_peer(1).build()?;
            table.each_worker(|worker| {
                if cluster.is_root() {
                    worker.clock()?;
                    worker.get(0, |_| ())?;
                }
                Ok(())
            })?;
            if !cluster.is_root() {
                // Wait until peer 0 has timed out.
                let never = cluster
                    .open_channel(ChannelId::of(ChannelOwner::Application, 0), Lane::Control)
                    .receive(Duration::from_secs(100));
                assert!(never.is_err());
            }
            Ok(())
        });
        let said = outcome.unwrap_err().to_string();
        assert!(
            said.contains("rows of a table, from shard #0 at ")
                && said.contains("peers are at clocks 1, 0; peer 0 waits for 1"),
            "{said}"
        );
    });
}

#[test]
fn a_table_ends_when_its_last_peer_drops_it() {
    with_watchdog(|| {
        standalone(2)
            .workers(2)
            .deadlines(quick())
            .run(|cluster| {
                for round in 0..20_u8 {
                    let table = cluster.table::<i32>("n").rows(3).staleness(2).build()?;
                    table.each_worker(|worker| {
                        // Peer 0 drops the table early; peer 1 still reads from its shards.
                        for clock in 0..if cluster.is_root() { 1 } else { 30 } {
                            worker.get(clock % 3, |_| ())?;
                            worker.inc(clock % 3, &[1])?;
                            worker.clock()?;
                        }
                        Ok(())
                    })?;
                    if round % 2 == 0 {
                        drop(table);
                        cluster.barrier()?;
                    }
                }
                Ok(())
            })
            .unwrap();
    });
}
