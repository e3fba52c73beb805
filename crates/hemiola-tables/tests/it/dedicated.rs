//! Tables on some of the peers, or on dedicated servers.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::support::{delta, quick, with_watchdog};
use hemiola_cluster::{Cluster, Result, Standalone, standalone};
use hemiola_core::Rank;
use hemiola_tables::{
    AdaRevision, Adam, Bandwidth, Consistency, RowInitializer, Servers, Sgd, SnapshotAdaRevision, StorageType,
    TableBuilder, TableExt, UpdateRule, serve,
};
use hemiola_tables_proto::Clock;
use hemiola_tables_proto::update_rule::{LocalApply, RowUpdate, UnknownVersion};
use hemiola_testkit::PeerProcesses;
use std::collections::BTreeMap;

fn job(peers: usize, servers: usize) -> Standalone {
    standalone(peers).workers(2).servers(servers, serve).deadlines(quick())
}

type Arrange<C> = fn(TableBuilder<C>) -> TableBuilder<C>;

/// Reads and adds for some clocks, and returns the bits of all rows.
fn train<C: StorageType>(cluster: &Cluster, servers: Servers, arrange: Arrange<C>) -> Result<BTreeMap<u64, Vec<u64>>>
where
    C::Compute: serde::Serialize + serde::de::DeserializeOwned,
{
    use hemiola_tables::ComputeType as _;
    let table = arrange(cluster.table::<C>("w").rows(200).width(4)).servers(servers).build()?;
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        let me = worker.id().index();
        for clock in 0..6 {
            let at = worker.current_clock();
            let keys: Vec<u64> = (0..60).map(|at| (at * 3 + clock as u64 + me as u64 * 7) % 200).collect();
            worker.intend(&keys, at, Clock::new(at.units() + 1))?;
            let mut seen = vec![0.0; keys.len()];
            worker.get_many(&keys, |place, row| seen[place] = row[1].to_f64())?;
            for (key, seen) in keys.iter().zip(seen) {
                let value =
                    |column| C::Compute::from_f64(f64::from(delta(peer, me, clock, *key, column)) + seen / 64.0);
                let values: Vec<C::Compute> = (0..4).map(value).collect();
                worker.inc(*key, &values)?;
            }
            worker.clock()?;
        }
        Ok(())
    })?;
    let rows = table.collect()?;
    Ok(rows.into_iter().map(|(key, row)| (key, row.iter().map(|value| value.to_f64().to_bits()).collect())).collect())
}

#[test]
fn results_do_not_depend_on_shard_placement() {
    with_watchdog(|| {
        fn check<C: StorageType>(arrange: Arrange<C>)
        where
            C::Compute: serde::Serialize + serde::de::DeserializeOwned,
        {
            let run = |job: Standalone, servers: &Servers| {
                let all = job.run(|cluster| train::<C>(cluster, servers.clone(), arrange)).unwrap();
                assert!(all.iter().all(|rows| *rows == all[0]), "peers see the same");
                all.into_iter().next().unwrap()
            };
            let expected = run(standalone(3).workers(2), &Servers::Auto);
            assert_eq!(expected.len(), 190);
            for servers in [1, 2, 4] {
                assert_eq!(run(job(3, servers), &Servers::Auto), expected, "{servers} servers");
                assert_eq!(run(job(3, servers), &Servers::Peers), expected, "{servers} servers without a table");
            }
            for on in [vec![2], vec![0], vec![2, 1]] {
                let on = Servers::On(on.into_iter().map(Rank::new).collect());
                assert_eq!(run(standalone(3).workers(2), &on), expected, "{on:?}");
                assert_eq!(run(job(3, 1), &on), expected, "{on:?}");
            }
        }
        check::<f32>(|table| table);
        check::<f64>(|table| table.update_rule(Sgd::new(0.1)));
        check::<i32>(|table| table);
        check::<half::bf16>(|table| table.initializer(RowInitializer::Normal { seed: 3, mean: 0.0, std_dev: 1.0 }));
        check::<f32>(|table| table.update_rule(AdaRevision::new(0.1)));
        check::<f32>(|table| table.update_rule(SnapshotAdaRevision::new(0.1, 100)));
        check::<f64>(|table| table.update_rule(Adam::new(0.1)));
    });
}

#[test]
fn a_single_peer_with_servers_sends_its_rows_there() {
    with_watchdog(|| {
        for staleness in [0, 3] {
            job(1, 2)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").staleness(staleness).build()?;
                    table.each_worker(|worker| worker.inc(3, &[1.0]).and_then(|()| worker.clock()))?;
                    assert_eq!((table.memory_bytes(), &table.collect()?[&3][..]), (0, &[2.0][..]));
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn no_sum_is_lost_with_staleness_and_budgets() {
    with_watchdog(|| {
        for consistency in [Consistency::Bsp, Consistency::Ssp(2), Consistency::Async] {
            for budget in [None, Some(0), Some(100)] {
                let sums = job(3, 2).run(|cluster| {
                    let mut table = cluster.table::<f64>("w").rows(50).width(2).consistency(consistency);
                    if let Some(megabits) = budget {
                        table = table.budget(Bandwidth::mbps(megabits));
                    }
                    let table = table.build()?;
                    table.each_worker(|worker| {
                        for clock in 0..8 {
                            for row in 0..50 {
                                worker.get(row, |_| ())?;
                                worker.inc(row, &[1.0, f64::from(clock)])?;
                            }
                            worker.clock()?;
                        }
                        worker.finish()
                    })?;
                    table.collect()
                });
                for rows in sums.unwrap() {
                    assert!((0..50).all(|row| rows[&row] == [48.0, 168.0]), "{consistency:?} {budget:?} {rows:?}");
                }
            }
        }
    });
}

#[test]
fn tables_are_created_and_dropped() {
    with_watchdog(|| {
        job(2, 2)
            .run(|cluster| {
                let kept = cluster.table::<f32>("kept").build()?;
                for round in 0..20 {
                    let table = cluster.table::<f64>(&format!("t{round}")).staleness(round % 3).build()?;
                    table.each_worker(|worker| worker.inc(round, &[1.0]).and_then(|()| worker.clock()))?;
                    assert_eq!(table.collect()?[&round], [4.0]);
                    drop(table);
                    // Collectives of the peers do not involve servers.
                    assert_eq!(cluster.all_gather(cluster.rank().index())?, [0, 1]);
                }
                kept.each_worker(|worker| worker.inc(1, &[1.0]).and_then(|()| worker.clock()))?;
                assert_eq!(kept.collect()?[&1], [4.0]);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn checkpoints_move_between_servers_and_peers() {
    with_watchdog(|| {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("model");
        std::fs::write(lab.path().join("file"), "no folder").unwrap();
        for (round, (peers, servers)) in [(2, 2), (3, 0), (1, 3), (2, 1)].into_iter().enumerate() {
            job(peers, servers)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").update_rule(AdaRevision::new(0.5)).resume(&path).build()?;
                    assert_eq!(table.start_clock().units(), 2 * round as u64);
                    let gradient = |worker: &mut hemiola_tables::TableWorker<'_, f32>| {
                        (0..30).try_for_each(|key| worker.inc(key, &[1.0]))?;
                        worker.clock()
                    };
                    table.each_worker(gradient)?;
                    drop(table.checkpoint(&path)?); // given up
                    let unsaved = table.save(&lab.path().join("file/model")).unwrap_err();
                    assert!(unsaved.to_string().contains("Not a directory"), "{unsaved}");
                    table.each_worker(gradient)?;
                    let saving = table.checkpoint(&path)?;
                    table.each_worker(gradient)?; // not in it
                    saving.finish()
                })
                .unwrap();
        }
        let rows = job(2, 0).run(|cluster| {
            let table = cluster.table::<f32>("w").update_rule(AdaRevision::new(0.5)).restore(&path).build()?;
            Ok((table.start_clock().units(), table.collect()?))
        });
        let (clock, rows) = rows.unwrap().remove(0);
        assert_eq!((clock, rows.len()), (8, 30));
        let moved = rows[&0][0];
        assert!(moved < -1.0 && rows.values().all(|row| row[0].to_bits() == moved.to_bits()), "{rows:?}");
    });
}

#[test]
fn a_program_may_continue_after_an_error_on_all_peers() {
    with_watchdog(|| {
        job(2, 1)
            .run(|cluster| {
                let table = cluster.table::<f32>("w").build()?;
                table.each_worker(|worker| if worker.id().index() == 0 { worker.clock() } else { Ok(()) })?;
                let uneven = table.collect().unwrap_err();
                assert!(uneven.to_string().contains("worker 0 of peer 0 is at clock 1"), "{uneven}");
                table.each_worker(|worker| if worker.id().index() == 1 { worker.clock() } else { Ok(()) })?;
                table.collect().map(|_| ())
            })
            .unwrap();
    });
}

/// User-defined update rule.
#[derive(Clone, Debug)]
struct Mine;

impl UpdateRule<f32> for Mine {
    fn local_apply(&self) -> LocalApply<f32> {
        LocalApply::Add
    }

    fn apply(&self, update: &RowUpdate<'_, f32>, row: &mut [f32], _state: &mut [f32]) -> Result<(), UnknownVersion> {
        update.cells.iter().for_each(|(column, value)| row[column] += value);
        Ok(())
    }
}

#[test]
fn settings_that_servers_cannot_run_are_rejected_on_all_peers() {
    with_watchdog(|| {
        job(2, 1)
            .run(|cluster| {
                let said = |table: TableBuilder<f32>| table.build().unwrap_err().to_string();
                let mine = || cluster.table::<f32>("w").update_rule(Mine);
                assert!(said(mine()).contains("do not know the update rule `Mine`"), "{}", said(mine()));
                mine().servers(Servers::Peers).build()?;
                let sparse = said(cluster.table::<f32>("w").sparse().update_rule(AdaRevision::new(0.1)));
                assert!(sparse.contains("sparse rows need an additive update rule"), "{sparse}");
                for (on, problem) in [(vec![2], "names peer 2, but there are 2 peers"), (vec![], "each peer once")] {
                    let on = Servers::On(on.into_iter().map(Rank::new).collect());
                    let said = said(cluster.table::<f32>("w").servers(on));
                    assert!(said.contains(problem), "{said}");
                }
                Ok(())
            })
            .unwrap();
        let none =
            standalone(2).run(|cluster| cluster.table::<f32>("w").servers(Servers::Dedicated).build().map(|_| ()));
        let none = none.unwrap_err().to_string();
        assert!(none.contains("the job has none; start the job with `hemiola run --servers 1`"), "{none}");
    });
}

#[test]
fn a_server_that_fails_ends_the_job_with_its_reason() {
    with_watchdog(|| {
        let failing = |_: &Cluster| Err("the server is on fire".into());
        let job = standalone(2).servers(1, failing).deadlines(quick());
        let error = job.run(|cluster| cluster.table::<f32>("w").build().map(|_| ())).unwrap_err();
        assert_eq!(error.to_string(), "the server is on fire");
    });
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_with_a_server() {
    let job = Cluster::builder().from_environment().unwrap();
    if std::env::var_os("HEMIOLA_RANK").is_some_and(|rank| rank == "2") {
        job.as_server().run(serve).unwrap();
        println!("said: served");
    } else {
        let rows = job.run(|cluster| train::<f32>(cluster, Servers::Auto, |table| table)).unwrap();
        println!("said: {rows:?}");
    }
}

#[test]
fn processes_with_a_server_equal_threads_without_one() {
    with_watchdog(|| {
        let expected = standalone(2).workers(2).run(|cluster| train::<f32>(cluster, Servers::Auto, |table| table));
        let expected = format!("said: {:?}", expected.unwrap()[0]);
        let peers = PeerProcesses::start(3, "dedicated::the_peer_with_a_server", |_, command| {
            command.env("HEMIOLA_SERVERS", "1");
        });
        for (said, expected) in peers.finish().into_iter().zip([&*expected, &*expected, "said: served"]) {
            assert!(said.contains(expected), "{said}, expected {expected}");
        }
    });
}

#[test]
fn a_process_in_the_wrong_role_gets_an_error() {
    let builder = |rank| Cluster::builder().peer(rank, 3).rendezvous("file:/nowhere".parse().unwrap());
    let said = |built: Result<Cluster>| built.unwrap_err().to_string();
    let program = said(builder(2).servers(1).build());
    assert!(
        program.contains("peer 2 of 3 is a dedicated server, as the last 1 are; run `hemiola serve` there"),
        "{program}"
    );
    let server = said(builder(1).servers(1).as_server().build());
    assert!(server.contains("peer 1 of 3 runs the program"), "{server}");
    let without = said(builder(1).as_server().build());
    assert!(without.contains("this job has no dedicated servers"), "{without}");
    let all = said(builder(1).servers(3).build());
    assert!(all.contains("leave no peer to run the program"), "{all}");
}
