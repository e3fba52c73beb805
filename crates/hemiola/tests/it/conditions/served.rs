//! Served arrays: rows that other peers own.

use super::run;
use hemiola::core::Purpose;
use hemiola::prelude::*;

/// Cells of an array that is too large to be replicated.
const LARGE: usize = 20_000;
/// Number of entries that makes a loop worth running on several peers.
const ENTRIES: usize = 40_000;

#[test]
fn ranges_whose_ends_depend_on_data_can_be_read() {
    for peers in 1..4 {
        run(peers, 2, |cluster| {
            let table = cluster.from_fn([LARGE], |[index]| index)?;
            let starts: Vec<usize> = (0..ENTRIES).map(|at| at * 397 % 19_990).collect();
            let sum = cluster.accumulator::<usize>();
            parallel_for!(
                cluster,
                for at in 0..ENTRIES {
                    let (start, all) = (starts[at], &table[starts[at]..starts[at] + 3]);
                    let again = &table[starts[at]..=starts[at] + 2];
                    assert_eq!(all, again);
                    assert_eq!(all, [start, start + 1, start + 2]);
                    sum += all.iter().sum::<usize>();
                }
            )?;
            assert_eq!(sum.take()?, (0..ENTRIES).map(|at| at * 397 % 19_990 * 3 + 3).sum::<usize>());
            Ok(())
        });
    }
}

#[test]
fn arrays_of_one_buffer_have_the_same_placement() {
    run(2, 2, |cluster| {
        // The first is small enough to be replicated; the others are not.
        let (a, b, c) =
            (cluster.zeros::<u8, 1>([LARGE])?, cluster.zeros::<u64, 1>([LARGE])?, cluster.zeros::<u64, 1>([LARGE])?);
        let first = a.buffered_with(&b, |a: &mut u8, b: &mut u64, update: u64| {
            *a = a.wrapping_add(1);
            *b += update;
        });
        let second = b.buffered_with(&c, |b: &mut u64, c: &mut u64, update: u64| {
            *b += update;
            *c += update;
        });
        parallel_for!(
            cluster,
            for i in 0..ENTRIES {
                first[i * i % 1000] += 1;
                second[i * i % 1000] += 2;
            }
        )?;
        let sum =
            |array: &DistArray<u64, 1>| array.collect().map(|all| all.iter().map(|(_, value)| value).sum::<u64>());
        assert_eq!((sum(&b)?, sum(&c)?), (3 * ENTRIES as u64, 2 * ENTRIES as u64));
        Ok(())
    });
}

#[test]
fn a_repeated_loop_may_be_used_with_other_arrays() {
    run(2, 2, |cluster| {
        let data = cluster.from_fn([ENTRIES], |[index]| index * 7919)?;
        let pass = |table: &DistArray<usize, 1>, other: &DistArray<usize, 1>| {
            let (size, other_size) = (table.len(), other.len());
            let sum = cluster.accumulator::<usize>();
            parallel_for!(
                cluster,
                repeated,
                for (_, value) in &data {
                    let (one, two) = (*value % size, *value % other_size);
                    assert_eq!(table[one], one);
                    sum += table[one] + other[two];
                }
            )?;
            let expected = (0..ENTRIES).map(|index| index * 7919 % size + index * 7919 % other_size).sum::<usize>();
            assert_eq!(sum.take()?, expected);
            Ok::<_, hemiola::cluster::Error>(())
        };
        let make = |size| cluster.from_fn([size], |[index]| index);
        let (large, larger, small) = (make(LARGE)?, make(2 * LARGE)?, make(10)?);
        pass(&larger, &small)?;
        pass(&larger, &small)?;
        pass(&large, &small)?;
        pass(&small, &larger)?;
        pass(&small, &large)?;
        pass(&large, &larger)?;
        Ok(())
    });
}

#[test]
fn rows_of_several_dimensions_are_fetched_in_bulk_or_one_by_one() {
    for (peers, workers) in [(1, 2), (2, 1), (2, 2), (3, 2)] {
        let results = run(peers, workers, |cluster| {
            let table = cluster.from_fn([500, 8, 4], |[a, b, c]| a * 100 + b * 10 + c)?;
            let list = cluster.from_fn([LARGE], |[index]| index * 7 % 500)?;
            let data = cluster.from_fn([ENTRIES], |[index]| index * 7919 % LARGE)?;
            let (sum, wrong) = (cluster.accumulator::<usize>(), cluster.accumulator::<usize>());
            let run = parallel_for!(
                cluster,
                for (i, value) in &data {
                    // Predictable: it depends on the entry alone.
                    let row = &table[[*value % 500, i % 7]];
                    wrong += usize::from(row[3] != *value % 500 * 100 + i % 7 * 10 + 3);
                    // Not predictable: the index is read from another served array.
                    if i % 1000 == 0 {
                        let next = list[*value];
                        sum += table[[next, 7, 1]];
                    }
                }
            )?;
            assert_eq!(run.plan().cuts.peers_used, peers, "{}", run.plan());
            assert_eq!(wrong.take()?, 0);
            let expected = (0..ENTRIES / 1000).map(|i| i * 1000 * 7919 % LARGE * 7 % 500 * 100 + 71).sum::<usize>();
            assert_eq!(sum.take()?, expected);
            Ok(run.prefetch_misses().to_vec())
        });
        // Every peer returns the sum over all peers.
        assert!(results.iter().all(|counts| *counts == results[0]));
        if peers == 1 {
            assert!(results[0].is_empty());
        } else {
            let count = |name: &str| results[0].iter().find(|(array, _)| array == name).unwrap().1;
            assert!((1..=40).contains(&count("table")), "{results:?}");
            assert_eq!(count("list"), 0, "{results:?}");
        }
    }
}

#[test]
fn a_block_sends_one_request_to_every_owner() {
    let (peers, workers) = (3, 2);
    let results = run(peers, workers, |cluster| {
        let table = cluster.from_fn([LARGE], |[index]| index)?;
        let data = cluster.from_fn([ENTRIES], |[index]| index * 7919 % LARGE)?;
        let sum = cluster.accumulator::<usize>();
        let pass = || {
            parallel_for!(
                cluster,
                for (_, value) in &data {
                    sum += table[*value];
                }
            )
        };
        let messages = || {
            let lines = cluster.traffic().lines;
            lines.iter().filter(|line| line.purpose == Purpose::Served).map(|line| line.messages_sent).sum::<u64>()
        };
        let run = pass()?;
        assert!(run.prefetch_misses().iter().all(|(_, count)| *count == 0), "{:?}", run.prefetch_misses());
        let before = messages();
        pass()?;
        Ok(messages() - before)
    });
    // Each peer sends one request per worker to every other peer, as many answers, and one final
    // message to every other peer.
    let others = peers as u64 - 1;
    assert_eq!(results, vec![2 * workers as u64 * others + others; peers]);
}

#[test]
fn very_large_arrays_are_found_by_hashing() {
    // More rows than the direct slot table has.
    run(2, 1, |cluster| {
        let table = cluster.from_fn([(1 << 22) + 1000], |[index]| index as u8)?;
        let counts = table.buffered(|cell: &mut u8, update: u8| *cell = cell.wrapping_add(update));
        let wrong = cluster.accumulator::<u64>();
        let size = table.len();
        let index_of = |i: usize| i * 104_729 % size;
        let entries = cluster.from_fn([300_000], |[index]| index)?;
        parallel_for!(
            cluster,
            for (i, _) in &entries {
                let at = i * 104_729 % size;
                wrong += u64::from(table[at] != at as u8);
                counts[at] += 1;
            }
        )?;
        assert_eq!(wrong.take()?, 0);
        let touched: std::collections::BTreeSet<usize> = (0..300_000).map(index_of).collect();
        let cells = table.collect()?;
        assert!(
            cells
                .iter()
                .all(|([index], cell)| { *cell == (*index as u8).wrapping_add(u8::from(touched.contains(index))) })
        );
        Ok(())
    });
}
