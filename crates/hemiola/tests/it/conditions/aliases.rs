//! One captured object under two names. The compiler refuses a second name of an array that a loop
//! writes (`uses_a_written_array_twice.rs` of `hemiola-macros`).

use super::run;
use hemiola::prelude::*;

#[test]
fn an_array_that_is_only_read_may_have_two_names() {
    run(1, 2, |cluster| {
        let array = cluster.zeros::<u64, 1>([64])?;
        let other = &array;
        let sum = cluster.accumulator::<u64>();
        parallel_for!(
            cluster,
            for i in 0..64 {
                sum += array[i] + other[i] + 1;
            }
        )?;
        assert_eq!(sum.take()?, 64);
        Ok(())
    });
}

#[test]
fn an_accumulator_under_two_names_keeps_everything() {
    run(2, 2, |cluster| {
        let sum = cluster.accumulator::<u64>();
        let other = &sum;
        parallel_for!(
            cluster,
            for _ in 0..100 {
                sum += 1;
                other += 10;
            }
        )?;
        assert_eq!(sum.take()?, 1100);
        Ok(())
    });
}

#[test]
fn an_array_cannot_be_iterated_and_indexed() {
    for peers in [1, 2] {
        run(peers, 1, |cluster| {
            let array = cluster.from_fn([8], |[index]| index as u64)?;
            let other = &array;
            let outcome = parallel_for!(
                cluster,
                for (i, value) in &array {
                    assert_eq!(*value, other[i]);
                }
            );
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("arrays of a loop must be distinct"), "{error}");
            let buffer = array.buffered(|cell: &mut u64, update: u64| *cell += update);
            let outcome = parallel_for!(
                cluster,
                for (i, value) in &array {
                    buffer[i] += *value;
                }
            );
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("arrays of a loop must be distinct"), "{error}");
            assert_eq!(array.collect()?.len(), 8);
            Ok(())
        });
    }
}
