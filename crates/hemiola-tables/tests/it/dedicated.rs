//! Tables whose rows are held by some peers, or by peers that do nothing else.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::processes::start;
use crate::support::{delta, quick, with_watchdog};
use hemiola_cluster::{Cluster, Result, Standalone, standalone};
use hemiola_core::Rank;
use hemiola_tables::{
    AdaRevision, Adam, Bandwidth, Cell, Consistency, Defaults, Procedure, Servers, Sgd, TableBuilder, Tables, serve,
};
use hemiola_tables_proto::Clock;
use hemiola_tables_proto::procedure::{UnknownVersion, Update, View};
use std::collections::BTreeMap;

fn job(peers: usize, servers: usize) -> Standalone {
    standalone(peers).workers(2).servers(servers, serve).deadlines(quick())
}

type Arrange<C> = fn(TableBuilder<C>) -> TableBuilder<C>;

/// Some clocks of reading and adding; all rows at the end, as bits.
fn train<C: Cell>(cluster: &Cluster, servers: Servers, arrange: Arrange<C>) -> Result<BTreeMap<u64, Vec<u64>>>
where
    C::Wide: serde::Serialize + serde::de::DeserializeOwned,
{
    use hemiola_tables::Number as _;
    let table = arrange(cluster.table::<C>("w").rows(200).width(4)).servers(servers).build()?;
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        let me = worker.id().index();
        for clock in 0..6 {
            let at = worker.at();
            let keys: Vec<u64> = (0..60).map(|at| (at * 3 + clock as u64 + me as u64 * 7) % 200).collect();
            worker.intend(&keys, at, Clock::new(at.units() + 1))?;
            let mut seen = vec![0.0; keys.len()];
            worker.get_many(&keys, |place, row| seen[place] = row[1].to_f64())?;
            for (key, seen) in keys.iter().zip(seen) {
                let value = |column| C::Wide::from_f64(f64::from(delta(peer, me, clock, *key, column)) + seen / 64.0);
                let values: Vec<C::Wide> = (0..4).map(value).collect();
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
fn bits_do_not_depend_on_who_holds_the_rows() {
    with_watchdog(|| {
        fn check<C: Cell>(arrange: Arrange<C>)
        where
            C::Wide: serde::Serialize + serde::de::DeserializeOwned,
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
        check::<f64>(|table| table.procedure(Sgd::new(0.1)));
        check::<i32>(|table| table);
        check::<half::bf16>(|table| table.defaults(Defaults::Normal { seed: 3, mean: 0.0, deviation: 1.0 }));
        check::<f32>(|table| table.procedure(AdaRevision::new(0.1)));
        check::<f32>(|table| table.procedure(AdaRevision::with_snapshots(0.1, 100)));
        check::<f64>(|table| table.procedure(Adam::new(0.1)));
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
fn tables_come_and_go() {
    with_watchdog(|| {
        job(2, 2)
            .run(|cluster| {
                let kept = cluster.table::<f32>("kept").build()?;
                for round in 0..20 {
                    let table = cluster.table::<f64>(&format!("t{round}")).staleness(round % 3).build()?;
                    table.each_worker(|worker| worker.inc(round, &[1.0]).and_then(|()| worker.clock()))?;
                    assert_eq!(table.collect()?[&round], [4.0]);
                    drop(table);
                    // What peers do among themselves does not concern servers.
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
fn checkpoints_go_from_servers_to_peers_and_back() {
    with_watchdog(|| {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("model");
        std::fs::write(lab.path().join("file"), "no folder").unwrap();
        for (round, (peers, servers)) in [(2, 2), (3, 0), (1, 3), (2, 1)].into_iter().enumerate() {
            job(peers, servers)
                .run(|cluster| {
                    let table = cluster.table::<f32>("w").procedure(AdaRevision::new(0.5)).resume(&path).build()?;
                    assert_eq!(table.started_at().units(), 2 * round as u64);
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
            let table = cluster.table::<f32>("w").procedure(AdaRevision::new(0.5)).restore(&path).build()?;
            Ok((table.started_at().units(), table.collect()?))
        });
        let (clock, rows) = rows.unwrap().remove(0);
        assert_eq!((clock, rows.len()), (8, 30));
        let moved = rows[&0][0];
        assert!(moved < -1.0 && rows.values().all(|row| row[0].to_bits() == moved.to_bits()), "{rows:?}");
    });
}

#[test]
fn a_program_may_go_on_after_a_mistake_that_all_were_told() {
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

/// A procedure of a program's own.
#[derive(Clone, Debug)]
struct Mine;

impl Procedure<f32> for Mine {
    fn view(&self) -> View<f32> {
        View::Add
    }

    fn apply(&self, update: &Update<'_, f32>, row: &mut [f32], _state: &mut [f32]) -> Result<(), UnknownVersion> {
        update.cells.iter().for_each(|(column, value)| row[column] += value);
        Ok(())
    }
}

#[test]
fn what_servers_cannot_do_is_refused_on_all_peers() {
    with_watchdog(|| {
        job(2, 1)
            .run(|cluster| {
                let said = |table: TableBuilder<f32>| table.build().unwrap_err().to_string();
                let mine = || cluster.table::<f32>("w").procedure(Mine);
                assert!(said(mine()).contains("do not know the procedure `Mine`"), "{}", said(mine()));
                mine().servers(Servers::Peers).build()?;
                let sparse = said(cluster.table::<f32>("w").sparse().procedure(AdaRevision::new(0.1)));
                assert!(sparse.contains("sparse rows take procedures that add"), "{sparse}");
                for (on, problem) in [(vec![2], "peer 2 is to hold it, and there are 2 peers"), (vec![], "each once")] {
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
        assert!(none.contains("this job has none; start it with `hemiola run --servers 1`"), "{none}");
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
fn the_peer_with_a_server() {
    if std::env::var_os("HEMIOLA_TEST_DEDICATED").is_none() {
        return;
    }
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
fn processes_with_a_server_get_the_bits_of_threads_without() {
    with_watchdog(|| {
        let expected = standalone(2).workers(2).run(|cluster| train::<f32>(cluster, Servers::Auto, |table| table));
        let expected = format!("said: {:?}", expected.unwrap()[0]);
        let meet = tempfile::tempdir().unwrap();
        let peers = start(3, "dedicated::the_peer_with_a_server", meet.path(), |_, command| {
            command.env("HEMIOLA_TEST_DEDICATED", "1").env("HEMIOLA_SERVERS", "1");
        });
        for (peer, expected) in peers.into_iter().zip([&*expected, &*expected, "said: served"]) {
            let output = peer.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains(expected), "{said}, expected {expected}");
        }
    });
}

#[test]
fn whoever_plays_the_wrong_part_is_told() {
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
    assert!(all.contains("leave nobody who runs the program"), "{all}");
}
