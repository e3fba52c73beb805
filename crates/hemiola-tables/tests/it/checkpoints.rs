//! Tables saved while training goes on, and gone on from.

use crate::support::{delta, quick, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_tables::{AdaRevision, Consistency, Table, Tables};
use std::collections::BTreeMap;
use std::path::Path;

type Bits = BTreeMap<u64, Vec<u32>>;

fn bits(table: &Table<f32>) -> Result<Bits> {
    Ok(table.collect()?.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect())
}

/// Goes on until all have ended `until` clocks. What is added depends on what is read.
fn train(cluster: &Cluster, table: &Table<f32>, until: u64) -> Result<()> {
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        while worker.at().units() < until {
            let clock = worker.at().units() as usize;
            for step in 0..5_u64 {
                let row = (clock as u64 * 3 + step * 7 + worker.id().index() as u64) % 40;
                let seen = worker.get(row, |row| row[1])?;
                worker.inc(row, &[delta(peer, worker.id().index(), clock, row, 0), seen / 8.0 + 1.0])?;
            }
            worker.clock()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn settings(cluster: &Cluster, consistency: Consistency) -> hemiola_tables::TableBuilder<f32> {
    cluster.table::<f32>("w").rows(40).width(2).consistency(consistency).procedure(AdaRevision::new(0.1))
}

#[test]
fn a_job_that_goes_on_from_a_checkpoint_gets_the_bits_of_one_that_was_not_disturbed() {
    with_watchdog(|| {
        for peers in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("model");
            let whole = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                let table = settings(cluster, Consistency::Bsp).build()?;
                train(cluster, &table, 4)?;
                let saving = table.checkpoint(&path)?;
                assert_eq!(saving.at().units(), 4);
                // While it is being written.
                train(cluster, &table, 9)?;
                saving.finish()?;
                bits(&table)
            });
            let resumed = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                let table = settings(cluster, Consistency::Bsp).restore(&path).build()?;
                assert_eq!(table.started_at().units(), 4);
                train(cluster, &table, 9)?;
                bits(&table)
            });
            assert_eq!(whole.unwrap(), resumed.unwrap(), "{peers} peers");
        }
    });
}

#[test]
fn a_checkpoint_is_of_its_clock_and_any_number_of_peers_goes_on_from_it() {
    with_watchdog(|| {
        for consistency in [Consistency::Bsp, Consistency::Ssp(2), Consistency::Async] {
            for peers in [1, 3] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("model");
                let saved = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                    let table = settings(cluster, consistency).build()?;
                    train(cluster, &table, 3)?;
                    let there = bits(&table)?;
                    let saving = table.checkpoint(&path)?;
                    train(cluster, &table, 12)?;
                    assert_ne!(bits(&table)?, there);
                    saving.finish()?;
                    // Another, in the place of the first.
                    let there = bits(&table)?;
                    table.save(&path)?;
                    Ok(there)
                });
                let saved = saved.unwrap().remove(0);
                for (peers, workers) in [(1, 1), (2, 3), (4, 1)] {
                    let found = standalone(peers).workers(workers).deadlines(quick()).run(|cluster| {
                        let table = settings(cluster, consistency).resume(&path).shards_per_peer(3).build()?;
                        let found = bits(&table)?;
                        train(cluster, &table, 14)?;
                        Ok((found, table.started_at().units()))
                    });
                    assert!(found.unwrap().into_iter().all(|found| found == (saved.clone(), 12)), "{consistency:?}");
                }
            }
        }
    });
}

/// What comes of going on from a folder.
fn refused(path: &Path, table: &str, width: usize) -> String {
    let outcome =
        standalone(2).run(|cluster| cluster.table::<f32>(table).rows(40).width(width).restore(path).build().map(drop));
    outcome.unwrap_err().to_string()
}

#[test]
fn torn_and_foreign_checkpoints_are_refused_with_the_reason() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let save = || {
            standalone(2).run(|cluster| {
                let table = cluster.table::<f32>("w").rows(40).width(2).build()?;
                train(cluster, &table, 2)?;
                table.save(&path)
            })
        };
        save().unwrap();
        assert!(refused(&path, "other", 2).contains("it is of table `w`"));
        let other = refused(&path, "w", 3);
        assert!(other.contains("dense with 2 columns of f32, and those of this table dense with 3"), "{other}");
        assert!(refused(&folder.path().join("nothing"), "w", 2).contains("no such file"));
        let part = path.join("peer-00001.00000.safetensors");
        let whole = std::fs::read(&part).unwrap();
        std::fs::write(&part, &whole[..whole.len() - 1]).unwrap();
        let torn = refused(&path, "w", 2);
        assert!(torn.contains("is not a complete save") && torn.contains("peer-00001"), "{torn}");
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&part, &changed).unwrap();
        assert!(refused(&path, "w", 2).contains("is not a complete save"));
        std::fs::remove_file(path.join("manifest.json")).unwrap();
        assert!(refused(&path, "w", 2).contains("manifest.json"));
        // What is no save is not replaced, and the table can be saved elsewhere.
        let taken = save().unwrap_err().to_string();
        assert!(taken.contains("something else is there"), "{taken}");
    });
}

#[test]
fn a_table_that_could_not_be_saved_can_be_saved_again() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        standalone(2)
            .run(|cluster| {
                let table = cluster.table::<f32>("w").rows(40).width(2).build()?;
                train(cluster, &table, 2)?;
                assert!(table.save(&folder.path().join("no/such/\0/place")).is_err());
                // One that is given up, at whatever point it is.
                drop(table.checkpoint(&path)?);
                train(cluster, &table, 3)?;
                let there = bits(&table)?;
                table.save(&path)?;
                assert_eq!(bits(&cluster.table::<f32>("w").rows(40).width(2).restore(&path).build()?)?, there);
                table.each_worker(|worker| worker.clock().and_then(|()| worker.finish()))?;
                let late = table.save(&path).unwrap_err().to_string();
                assert!(late.contains("all workers have finished"), "{late}");
                Ok(())
            })
            .unwrap();
    });
}
