//! BSP results equal those of a serial computation, bit for bit.

use crate::support::{delta, quick, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_tables::{RowDelivery, TableExt};
use std::collections::BTreeMap;

const ROWS: u64 = 13;
const WIDTH: usize = 5;
const CLOCKS: usize = 6;

/// Each worker reads a row, and adds values that depend on it to that row and to another. All reads
/// enter the result.
fn train(cluster: &Cluster, delivery: RowDelivery, cache: usize) -> Result<BTreeMap<u64, Vec<u32>>> {
    let table = cluster.table::<f32>("w").rows(ROWS).width(WIDTH).delivery(delivery).cache_rows(cache).build()?;
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        let me = worker.id().index();
        for clock in 0..CLOCKS {
            for step in 0..4 {
                let row = ((peer * 5 + me * 3 + clock + step * 2) as u64) % ROWS;
                let seen: f32 = worker.get(row, |row| row.iter().sum())?;
                let values: Vec<f32> =
                    (0..WIDTH).map(|column| delta(peer, me, clock, row, column) + seen / 1000.0).collect();
                worker.inc(row, &values)?;
                worker.inc_many(&[(row + 1) % ROWS], &values)?;
            }
            let mut many = 0.0;
            worker.get_many(&[0, 5, 9], |_, row| many += row[1])?;
            worker.inc(12, &[many / 100.0; WIDTH])?;
            worker.clock()?;
        }
        Ok(())
    })?;
    Ok(table.collect()?.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect())
}

/// Serial reference: sums of a clock by worker, then by peer, then into the rows.
fn serial(peers: usize, workers: usize) -> BTreeMap<u64, Vec<u32>> {
    type Rows = BTreeMap<u64, Vec<f32>>;
    fn add(rows: &mut Rows, key: u64, values: &[f32]) {
        match rows.get_mut(&key) {
            Some(row) => row.iter_mut().zip(values).for_each(|(cell, value)| *cell += value),
            None => drop(rows.insert(key, values.to_vec())),
        }
    }
    let mut table: Rows = (0..ROWS).map(|row| (row, vec![0.0; WIDTH])).collect();
    for clock in 0..CLOCKS {
        let mut clocks_sums = Vec::new();
        for peer in 0..peers {
            let mut of_peer = Rows::new();
            for me in 0..workers {
                let mut own = Rows::new();
                let read = |own: &Rows, row: u64| -> Vec<f32> {
                    let mut seen = table[&row].clone();
                    own.get(&row)
                        .into_iter()
                        .for_each(|own| seen.iter_mut().zip(own).for_each(|(cell, add)| *cell += add));
                    seen
                };
                for step in 0..4 {
                    let row = ((peer * 5 + me * 3 + clock + step * 2) as u64) % ROWS;
                    let seen: f32 = read(&own, row).iter().sum();
                    let values: Vec<f32> =
                        (0..WIDTH).map(|column| delta(peer, me, clock, row, column) + seen / 1000.0).collect();
                    add(&mut own, row, &values);
                    add(&mut own, (row + 1) % ROWS, &values);
                }
                // In the order in which shards are visited.
                let many: Vec<f32> = [0, 5, 9].map(|row| read(&own, row)[1]).to_vec();
                add(&mut own, 12, &[many_in_shard_order(&many, peers, workers) / 100.0; WIDTH]);
                for (key, values) in &own {
                    add(&mut of_peer, *key, values);
                }
            }
            clocks_sums.push(of_peer);
        }
        for sums in clocks_sums {
            for (key, values) in &sums {
                add(&mut table, *key, values);
            }
        }
    }
    table.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect()
}

/// `get_many` calls back by shard, and rows are dealt to shards in turn.
fn many_in_shard_order(many: &[f32], peers: usize, workers: usize) -> f32 {
    let mut order = vec![(0, many[0]), (5, many[1]), (9, many[2])];
    order.sort_by_key(|(row, _)| row % (2 * workers * peers));
    order.into_iter().fold(0.0, |sum, (_, value)| sum + value)
}

#[test]
fn bsp_gives_the_bits_of_a_serial_computation() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for workers in 1..=3 {
                let expected = serial(peers, workers);
                for (delivery, cache) in
                    [(RowDelivery::Push, usize::MAX), (RowDelivery::Push, 1), (RowDelivery::Pull, usize::MAX)]
                {
                    let results = standalone(peers).workers(workers).deadlines(quick());
                    for found in results.run(|cluster| train(cluster, delivery, cache)).unwrap() {
                        assert_eq!(found, expected, "{peers} peers, {workers} workers, {delivery:?}, cache {cache}");
                    }
                }
            }
        }
    });
}
