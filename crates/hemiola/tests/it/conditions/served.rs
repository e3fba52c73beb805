//! Arrays whose rows other peers own.

use super::run;
use hemiola::prelude::*;

/// Cells of an array that is too large to be copied.
const LARGE: u64 = 20_000;
/// Entries of a loop that is worth running on several peers.
const ENTRIES: usize = 40_000;

#[test]
fn ranges_whose_ends_depend_on_data_can_be_read() {
    for peers in 1..4 {
        run(peers, 2, |cluster| {
            let table = cluster.from_fn([LARGE], |[index]| index)?;
            let starts: Vec<usize> = (0..ENTRIES).map(|at| at * 397 % 19_990).collect();
            let sum = cluster.accumulator::<u64>();
            parallel_for!(
                cluster,
                for at in 0..ENTRIES {
                    let (start, all) = (starts[at], &table[starts[at]..starts[at] + 3]);
                    let again = &table[starts[at]..=starts[at] + 2];
                    assert_eq!(all, again);
                    assert_eq!(all, [start as u64, start as u64 + 1, start as u64 + 2]);
                    sum += all.iter().sum::<u64>();
                }
            )?;
            assert_eq!(sum.take()?, (0..ENTRIES as u64).map(|at| at * 397 % 19_990 * 3 + 3).sum::<u64>());
            Ok(())
        });
    }
}

#[test]
fn arrays_that_buffers_update_together_lie_alike() {
    run(2, 2, |cluster| {
        // The first is small enough to be copied; the others are not.
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
        let data = cluster.from_fn([ENTRIES as u64], |[index]| index * 7919)?;
        let pass = |table: &DistArray<u64, 1>, other: &DistArray<u64, 1>| {
            let (size, other_size) = (table.len(), other.len());
            let sum = cluster.accumulator::<u64>();
            parallel_for!(
                cluster,
                repeated,
                for (_, value) in &data {
                    let (one, two) = ((*value % size) as usize, (*value % other_size) as usize);
                    assert_eq!(table[one], one as u64);
                    sum += table[one] + other[two];
                }
            )?;
            let expected =
                (0..ENTRIES as u64).map(|index| index * 7919 % size + index * 7919 % other_size).sum::<u64>();
            assert_eq!(sum.take()?, expected);
            Ok::<_, hemiola::Error>(())
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
