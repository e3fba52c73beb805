//! Checkpoints written during training, and restored.

use crate::support::{delta, quick, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_tables::{AdaRevision, Consistency, Table, TableExt};
use std::collections::BTreeMap;
use std::path::Path;

type Bits = BTreeMap<u64, Vec<u32>>;

fn bits(table: &Table<f32>) -> Result<Bits> {
    Ok(table.collect()?.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect())
}

/// Trains until all workers have ended `until` clocks. Updates depend on the values read.
fn train(cluster: &Cluster, table: &Table<f32>, until: u64) -> Result<()> {
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        while worker.current_clock().units() < until {
            let clock = worker.current_clock().units() as usize;
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
    cluster.table::<f32>("w").rows(40).width(2).consistency(consistency).update_rule(AdaRevision::new(0.1))
}

#[test]
fn a_resumed_job_is_bit_identical_to_an_undisturbed_one() {
    with_watchdog(|| {
        for peers in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("model");
            let whole = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                let table = settings(cluster, Consistency::Bsp).build()?;
                train(cluster, &table, 4)?;
                let saving = table.checkpoint(&path)?;
                assert_eq!(saving.clock().units(), 4);
                // Train while the checkpoint is being written.
                train(cluster, &table, 9)?;
                saving.finish()?;
                bits(&table)
            });
            let resumed = standalone(peers).workers(2).deadlines(quick()).run(|cluster| {
                let table = settings(cluster, Consistency::Bsp).restore(&path).build()?;
                assert_eq!(table.start_clock().units(), 4);
                train(cluster, &table, 9)?;
                bits(&table)
            });
            assert_eq!(whole.unwrap(), resumed.unwrap(), "{peers} peers");
        }
    });
}

#[test]
fn a_checkpoint_holds_its_clock_and_restores_on_any_number_of_peers() {
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
                    // A second checkpoint replaces the first.
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
                        Ok((found, table.start_clock().units()))
                    });
                    assert!(found.unwrap().into_iter().all(|found| found == (saved.clone(), 12)), "{consistency:?}");
                }
            }
        }
    });
}

/// Error of restoring a table from a folder.
fn restore_error(path: &Path, table: &str, width: usize) -> String {
    let outcome =
        standalone(2).run(|cluster| cluster.table::<f32>(table).rows(40).width(width).restore(path).build().map(drop));
    outcome.unwrap_err().to_string()
}

#[test]
fn torn_and_foreign_checkpoints_are_rejected_with_the_reason() {
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
        assert!(restore_error(&path, "other", 2).contains("it is of table `w`"));
        let other = restore_error(&path, "w", 3);
        assert!(other.contains("dense with 2 columns of f32, but those of this table are dense with 3"), "{other}");
        assert!(restore_error(&folder.path().join("nothing"), "w", 2).contains("no such file"));
        let part = path.join("generation-1/peer-00001.00000.safetensors");
        let whole = std::fs::read(&part).unwrap();
        std::fs::write(&part, &whole[..whole.len() - 1]).unwrap();
        let torn = restore_error(&path, "w", 2);
        assert!(torn.contains("is not a complete save") && torn.contains("peer-00001"), "{torn}");
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&part, &changed).unwrap();
        assert!(restore_error(&path, "w", 2).contains("is not a complete save"));
        std::fs::remove_file(path.join("generation-1/manifest.json")).unwrap();
        std::fs::remove_file(path.join("manifest.json")).unwrap();
        assert!(restore_error(&path, "w", 2).contains("manifest.json"));
        // A folder that is not a save is not replaced, and the table can be saved elsewhere.
        std::fs::write(path.join("thesis.txt"), "years of work").unwrap();
        let taken = save().unwrap_err().to_string();
        assert!(taken.contains("it contains other data"), "{taken}");
    });
}

#[test]
fn of_a_damaged_checkpoint_the_one_before_is_restored_on_all_peers() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let restored = || {
            standalone(3).run(|cluster| {
                let table = cluster.table::<f32>("w").rows(40).width(2).restore(&path).build()?;
                Ok((table.start_clock(), bits(&table)?))
            })
        };
        let save = |clocks| {
            standalone(2).run(|cluster| {
                let table = cluster.table::<f32>("w").rows(40).width(2).build()?;
                train(cluster, &table, clocks)?;
                table.save(&path)
            })
        };
        save(2).unwrap();
        let before = restored().unwrap();
        save(5).unwrap();
        assert_ne!(restored().unwrap(), before);
        std::fs::write(path.join("generation-2/peer-00001.00000.safetensors"), "torn").unwrap();
        assert_eq!(restored().unwrap(), before);
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
                // A checkpoint that is abandoned at any point.
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
