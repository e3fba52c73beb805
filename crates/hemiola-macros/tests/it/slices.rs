//! A slice predicts exactly the reads of the body.
//!
//! The loops read tables that record every request. The first request of a block is its prefetch
//! set; a read that the slice did not predict sends a request of its own.

use std::collections::BTreeMap;
use std::sync::Mutex;

use hemiola::core::WorkerId;
use hemiola::prelude::*;
use hemiola_tables_proto::in_loop::{LoopHandle, LoopTable, TableInLoop};
use hemiola_tables_proto::{Clock, Consistency};

/// A table whose cells are `row * width + column` as long as nothing is added.
#[derive(Default)]
struct RecordingTable {
    added: Mutex<BTreeMap<u64, i64>>,
    requests: Mutex<Vec<Vec<u64>>>,
}

const WIDTH: usize = 2;

impl RecordingTable {
    /// Returns the rows that were prefetched since the last call, and those read without it.
    fn take(&self) -> (Vec<u64>, Vec<u64>) {
        let mut requests = std::mem::take(&mut *self.requests.lock().expect("no test panics"));
        let prefetched = requests.remove(0);
        (prefetched, requests.concat())
    }
}

impl LoopTable for RecordingTable {
    type Value = i64;
    type Error = hemiola::cluster::Error;
    type Handle<'t> = RecordingHandle<'t>;

    fn width(&self) -> usize {
        WIDTH
    }

    fn row_count(&self) -> Option<u64> {
        None
    }

    fn consistency(&self) -> Consistency {
        Consistency::Bsp
    }

    fn takes_advice(&self) -> bool {
        false
    }

    fn handle(&self, _: WorkerId) -> Result<RecordingHandle<'_>, Self::Error> {
        Ok(RecordingHandle { table: self, clock: Clock::new(0) })
    }
}

struct RecordingHandle<'t> {
    table: &'t RecordingTable,
    clock: Clock,
}

impl LoopHandle for RecordingHandle<'_> {
    type Value = i64;
    type Error = hemiola::cluster::Error;

    fn current_clock(&self) -> Clock {
        self.clock
    }

    fn copy(&mut self, keys: &[u64], cells: &mut [i64]) -> Result<(), Self::Error> {
        let added = self.table.added.lock().expect("no test panics");
        for (key, row) in keys.iter().zip(cells.chunks_exact_mut(WIDTH)) {
            let more = added.get(key).copied().unwrap_or(0);
            row.iter_mut().zip(0..).for_each(|(cell, column)| {
                *cell = key.cast_signed() * WIDTH.cast_signed() as i64 + column + more;
            });
        }
        self.table.requests.lock().expect("no test panics").push(keys.to_vec());
        Ok(())
    }

    fn add(&mut self, key: u64, values: &[i64]) -> Result<(), Self::Error> {
        *self.table.added.lock().expect("no test panics").entry(key).or_default() += values[0];
        Ok(())
    }

    fn announce(&mut self, _: &[u64], _: Clock, _: Clock) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clock(&mut self) -> Result<(), Self::Error> {
        self.clock = self.clock.next();
        Ok(())
    }
}

/// Runs a program on one worker, so that a loop is one block.
fn on_one_worker(program: impl Fn(&Cluster) -> hemiola::Result<()> + Sync) {
    hemiola_testkit::with_watchdog(|| hemiola::standalone(1).workers(1).run(&program)).expect("the loops run");
}

#[test]
fn features_of_a_sample_are_predicted() {
    on_one_worker(|cluster| {
        let samples = cluster.from_fn([2], |[k]| vec![(k, 1_i64), (3 - k, 2)])?;
        let (table, labels) = (RecordingTable::default(), RecordingTable::default());
        let (w, label) = (TableInLoop::new(&table), TableInLoop::new(&labels));
        let mut gradient = cluster.zeros::<i64, 1>([4])?;
        parallel_for!(
            cluster,
            for (row, features) in &samples {
                let mut dot = 0;
                for &(j, x) in features {
                    dot += w[j][0] * x;
                }
                let error = dot - label[row][0];
                for &(j, x) in features {
                    gradient[j] += error * x;
                }
            }
        )?;
        assert_eq!(table.take(), (vec![0, 1, 2, 3], vec![]));
        // Subscripts that are loop indices need no slice.
        assert_eq!(labels.take(), (vec![0, 1], vec![]));
        Ok(())
    });
}

#[test]
fn subscripts_from_plain_tables_are_predicted_and_from_arrays_are_not() {
    on_one_worker(|cluster| {
        let plain = vec![vec![2_usize, 0], vec![1]];
        let array = cluster.from_fn([2], |[k]| 7 + k)?;
        let table = RecordingTable::default();
        let w = TableInLoop::new(&table);
        let (out, first) = (cluster.accumulator::<i64>(), String::from("x"));
        parallel_for!(
            cluster,
            for i in 0..2 {
                let row = &plain[i];
                let name = first.clone();
                for &j in row {
                    out += w[j][0] + name.len().cast_signed() as i64;
                }
                let from_array = array[i];
                if from_array == 7 {
                    out += w[from_array][1];
                }
                let last = row[row.len() - 1];
                out += w[last][0];
            }
        )?;
        assert_eq!(table.take(), (vec![0, 1, 2], vec![7]));
        assert_eq!(out.take()?, 4 + 1 + 1 + 15 + 2 + 1 + 2);
        Ok(())
    });
}

#[test]
fn conditions_and_early_ends_are_respected() {
    on_one_worker(|cluster| {
        let entries = cluster.from_fn([4], |[k]| k)?;
        let skip = [false, true, false, false];
        let table = RecordingTable::default();
        let w = TableInLoop::new(&table);
        let sum = cluster.accumulator::<i64>();
        parallel_for!(
            cluster,
            for (i, &entry) in &entries {
                if skip[i] {
                    continue;
                }
                let limit = entry.min(1);
                if entry > 2 || w[[entry, limit]] > 100 {
                    continue;
                }
                let column = if entry % 2 == 0 { 0 } else { limit };
                sum += w[[entry, column]] + (0..limit).map(|k| w[[entry + 1, k]]).sum::<i64>();
            }
        )?;
        // Entry 3 ends before it reads, entry 1 is skipped. The condition on `w` itself is unknown,
        // so the prediction ends there: the read of row 3 by entry 2 is not predicted.
        assert_eq!(table.take(), (vec![0, 2], vec![3]));
        assert_eq!(sum.take()?, 4 + 6);
        Ok(())
    });
}

#[test]
fn changed_entries_are_seen_as_they_were_before() {
    on_one_worker(|cluster| {
        let mut places = cluster.from_fn([3], |[k]| (2 - k, 0_i64))?;
        let table = RecordingTable::default();
        let w = TableInLoop::new(&table);
        parallel_for!(
            cluster,
            for (_, (place, value)) in &mut places {
                *value += w[*place][1];
            }
        )?;
        assert_eq!(table.take(), (vec![0, 1, 2], vec![]));
        assert_eq!(crate::values(&places)?, [(2, 5), (1, 3), (0, 1)]);
        Ok(())
    });
}

/// Bodies that are hard to slice: every body that compiles must compile as a slice.
#[test]
fn slices_of_tangled_bodies_compile_and_predict() {
    on_one_worker(|cluster| {
        let entries = cluster.from_fn([2], |[k]| vec![k + 1, k])?;
        let table = RecordingTable::default();
        let w = TableInLoop::new(&table);
        let order = [3_usize, 2];
        let names = [String::from("a"), String::from("bb")];
        let lengths: BTreeMap<String, usize> = names.iter().map(|name| (name.clone(), name.len())).collect();
        let lists = [Some(vec![1_usize, 4]), None];
        let sum = cluster.accumulator::<i64>();

        // Moved values, pending options, and tuples of them.
        parallel_for!(
            cluster,
            for (i, entry) in &entries {
                let (first, name) = (order[i], names[i].clone());
                let key = name;
                let found = lengths[&key];
                let list = lists[i].clone();
                if let Some(list) = list {
                    for place in list {
                        sum += w[place + first][0];
                    }
                }
                let [a, b] = [found + 4, entry[0]];
                sum += w[a][0] + w[b][0];
            }
        )?;
        assert_eq!(table.take(), (vec![1, 2, 4, 5, 6, 7], vec![]));

        // Changing locals, stacks, labels.
        parallel_for!(
            cluster,
            for (i, entry) in &entries {
                let mut stack = vec![i];
                let mut visited = [false; 8];
                'walk: while let Some(top) = stack.pop() {
                    if visited[top] {
                        continue;
                    }
                    visited[top] = true;
                    for &next in entry {
                        if next + top > 5 {
                            break 'walk;
                        }
                        stack.push((next + top) % 8);
                    }
                    sum += w[top][0];
                }
            }
        )?;
        assert_eq!(table.take(), (vec![0, 1, 2, 3, 4], vec![]));

        // Shadowing, references to locals, closures of the body, functions of the body.
        parallel_for!(
            cluster,
            for (i, entry) in &entries {
                fn twice(x: usize) -> usize {
                    2 * x
                }
                let shift = |x: usize| x + order.len();
                let mut copy = entry.clone();
                copy.sort_unstable();
                let smallest = &mut copy[0];
                *smallest += 1;
                let i = twice(i);
                let total: i64 = entry.iter().copied().filter(|&x| x < 8).map(|x| w[x][0] + w[shift(x) % 8][0]).sum();
                sum += w[i][0] + total + w[copy[0]][0];
            }
        )?;
        assert_eq!(table.take(), (vec![0, 1, 2, 3, 4], vec![]));

        // A table that is indexed with its own values: nothing to predict, nothing to fail.
        parallel_for!(
            cluster,
            for i in 0..2 {
                let next = usize::try_from(w[usize::try_from(w[i][0]).unwrap()][0]).unwrap();
                w.add(next, &[w[i][0], 0]);
                let Some(&last) = order.get(i) else { continue };
                sum += last.cast_signed() as i64;
            }
        )?;
        // The rows of the loop index are known.
        assert_eq!(table.take().0, [0, 1]);
        sum.take()?;
        Ok(())
    });
}

fn generic<T: Copy + Into<usize> + Sync>(
    cluster: &Cluster,
    keys: &[T],
    w: &TableInLoop<'_, RecordingTable>,
) -> hemiola::Result<i64> {
    let sum = cluster.accumulator::<i64>();
    parallel_for!(
        cluster,
        for i in 0..2 {
            let key: usize = keys[i].into();
            sum += w[key][0];
        }
    )?;
    let sum = sum.take()?;
    Ok(sum)
}

#[test]
fn slices_may_be_generic() {
    on_one_worker(|cluster| {
        let table = RecordingTable::default();
        let sum = generic(cluster, &[3_u8, 1], &TableInLoop::new(&table))?;
        assert_eq!(sum, 8);
        // `into` might do anything with a captured value, so it is not called twice.
        assert_eq!(table.take(), (vec![], vec![3, 1]));
        Ok(())
    });
}
