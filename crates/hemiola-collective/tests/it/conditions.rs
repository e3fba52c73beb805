//! Failures: mismatched calls, missing calls, lost peers, and values that are not finite.

use crate::support::{short_deadlines, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{
    Algorithm, CollectiveExt as _, Communicator, Compression, Compressor, ReduceOp, SufficientFactors,
};
use hemiola_core::{ErrorKind, Rank};
use std::sync::Mutex;

/// Runs a program that fails on every peer; returns the error of each.
fn failures(peers: usize, program: impl Fn(&Cluster, &Communicator) -> Result<()> + Sync) -> Vec<(ErrorKind, String)> {
    let said = Mutex::new(vec![None; peers]);
    let outcome = standalone(peers).deadlines(short_deadlines()).run(|cluster| {
        let error = program(cluster, &cluster.communicator()?).unwrap_err();
        said.lock().unwrap()[cluster.rank().index()] = Some((error.kind(), error.to_string()));
        Err::<(), _>(error)
    });
    assert!(outcome.is_err());
    said.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

#[test]
fn different_lengths_are_an_error_on_all_that_names_both() {
    with_watchdog(|| {
        for background in [false, true] {
            let said = failures(4, |cluster, communicator| {
                let length = if cluster.rank() == Rank::new(2) { 101 } else { 100 };
                if background {
                    return communicator.begin_all_reduce(vec![1.0_f32; length], ReduceOp::Sum)?.wait().map(drop);
                }
                communicator.all_reduce(&mut vec![1.0_f32; length], ReduceOp::Sum)
            });
            for (peer, (_, text)) in said.iter().enumerate() {
                assert!(text.contains("of 100 f32") && text.contains("peer 2 does"), "peer {peer}: {text}");
                assert!(text.contains("of 101 f32"), "peer {peer}: {text}");
            }
        }
    });
}

#[test]
fn different_types_and_calls_are_an_error_on_all_that_names_both() {
    with_watchdog(|| {
        let said = failures(3, |cluster, communicator| {
            if cluster.is_root() {
                communicator.all_reduce(&mut [1.0_f32; 64], ReduceOp::Sum)
            } else {
                communicator.all_reduce(&mut [1_i32; 64], ReduceOp::Sum)
            }
        });
        assert!(said.iter().all(|(_, text)| text.contains("64 f32") && text.contains("64 i32")), "{said:?}");
        let said = failures(2, |cluster, communicator| {
            if cluster.is_root() { communicator.barrier() } else { communicator.all_gather(&[1_i64]).map(drop) }
        });
        assert!(said.iter().all(|(_, text)| text.contains("barrier") && text.contains("all-gather")), "{said:?}");
    });
}

#[test]
fn different_compressions_are_an_error_on_all_that_names_both() {
    type Make = fn(&Communicator) -> Result<(Compressor, usize, ReduceOp)>;
    fn made(compressor: Result<Compressor>) -> Result<(Compressor, usize, ReduceOp)> {
        let compressor = compressor?;
        let length = compressor.length();
        Ok((compressor, length, ReduceOp::Sum))
    }
    let cases: [(Make, Make, [&str; 2]); 8] = [
        (
            |c| made(c.compressor(Compression::OneBit { block: 64 }, 100)),
            |c| made(c.compressor(Compression::TopK { keep: 10 }, 100)),
            ["100 f32 by sum compressed as one bit, blocks of 64", "100 f32 by sum compressed as top-k, 10 kept"],
        ),
        (
            |c| made(c.compressor(Compression::TopK { keep: 11 }, 100)),
            |c| made(c.compressor(Compression::TopK { keep: 10 }, 100)),
            ["compressed as top-k, 11 kept", "compressed as top-k, 10 kept"],
        ),
        (
            |c| made(c.compressor(Compression::TopK { keep: 10 }, 101)),
            |c| made(c.compressor(Compression::TopK { keep: 10 }, 100)),
            ["of 101 f32", "of 100 f32"],
        ),
        (
            |c| made(c.compressor(Compression::Bf16, 100)),
            |c| made(c.compressor(Compression::F16, 100)),
            ["compressed as bf16", "compressed as f16"],
        ),
        (
            |c| made(c.compressor(Compression::Plain, 100)),
            |c| made(c.compressor(Compression::Bf16, 100)),
            ["all-reduce (ring) of 100 f32", "compressed as bf16"],
        ),
        (
            |c| made(c.compressor(Compression::Bf16, 100)),
            |c| Ok((c.compressor(Compression::Bf16, 100)?, 100, ReduceOp::Max)),
            ["by sum compressed as bf16", "by max compressed as bf16"],
        ),
        // The same length in another shape: nothing else distinguishes them.
        (
            |c| made(c.matrix_compressor(Compression::LowRank { rank: 2 }, 5, 20)),
            |c| made(c.matrix_compressor(Compression::LowRank { rank: 2 }, 20, 5)),
            ["shape and state", "shape and state"],
        ),
        // A new compressor beside one restored from a checkpoint.
        (
            |c| made(c.matrix_compressor(Compression::LowRank { rank: 2 }, 10, 10)),
            |c| {
                let mut compressor = c.matrix_compressor(Compression::LowRank { rank: 2 }, 10, 10)?;
                standalone(1)
                    .run(|alone| {
                        let mut gradient = vec![1.0; 100];
                        let mut used = compressor.clone();
                        alone.communicator()?.all_reduce_compressed(&mut gradient, ReduceOp::Sum, &mut used)?;
                        Ok(used)
                    })?
                    .into_iter()
                    .for_each(|used| compressor = used);
                made(Ok(compressor))
            },
            ["shape and state", "shape and state"],
        ),
    ];
    with_watchdog(|| {
        for (number, (usual, other, words)) in cases.into_iter().enumerate() {
            for background in [false, true] {
                let said = failures(3, |cluster, communicator| {
                    let communicator = communicator.with_algorithm(Algorithm::Ring);
                    let make = if cluster.rank() == Rank::new(2) { other } else { usual };
                    let (mut compressor, length, operator) = make(&communicator)?;
                    let before = compressor.clone();
                    if background {
                        let pending =
                            communicator.begin_all_reduce_compressed(vec![1.5; length], operator, compressor)?;
                        let (compressor, sum) = pending.wait();
                        assert_eq!(compressor, before);
                        return sum.map(drop);
                    }
                    let outcome = communicator.all_reduce_compressed(&mut vec![1.5; length], operator, &mut compressor);
                    assert_eq!(compressor, before);
                    outcome
                });
                for (peer, (kind, text)) in said.iter().enumerate() {
                    let names = words.iter().all(|word| text.contains(word)) && text.contains("peer 2 does");
                    assert!(*kind == ErrorKind::Usage && names, "case {number}, peer {peer}: {text}");
                }
            }
        }
        let said = failures(2, |cluster, communicator| {
            let (rows, columns) = if cluster.is_root() { (2, 3) } else { (3, 2) };
            let (u, v) = (vec![1.0; rows], vec![1.0; columns]);
            communicator.all_reduce_factors(SufficientFactors { u: &u, v: &v, rows, columns }, &mut [0.0; 6])
        });
        assert!(said.iter().all(|(_, text)| text.contains("compressed as sufficient factors")), "{said:?}");
    });
}

#[test]
fn a_missing_call_ends_at_the_deadline_and_names_the_calls_of_all() {
    with_watchdog(|| {
        let said = failures(3, |cluster, communicator| {
            if cluster.rank() == Rank::new(1) {
                cluster.barrier()
            } else {
                communicator.with_algorithm(Algorithm::Ring).all_reduce(&mut [1.0_f32; 10], ReduceOp::Sum)
            }
        });
        let report = &said
            .iter()
            .find(|(kind, text)| *kind == ErrorKind::External && text.contains("timed out after"))
            .unwrap()
            .1;
        assert!(report.contains("driver waits for all-reduce #") && report.contains("conditions.rs"), "{report}");
        assert!(report.contains("peer 1 driver waits for barrier #0 at"), "{report}");
    });
}

#[test]
fn nan_is_delivered_and_counted() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                for operator in [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max] {
                    let mut own = vec![1.0_f32; 10];
                    if cluster.rank() == Rank::new(1) {
                        own[4] = f32::NAN;
                    }
                    let before = communicator.stats().nan;
                    communicator.all_reduce(&mut own, operator)?;
                    assert!(own[4].is_nan() && own.iter().filter(|value| value.is_nan()).count() == 1);
                    assert_eq!(communicator.stats().nan - before, 1);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn indivisible_buffers_and_exceeded_limits_are_refused() {
    with_watchdog(|| {
        standalone(2)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                let error = communicator.all_to_all(&mut [1, 2, 3]).unwrap_err();
                assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("multiple of 2"), "{error}");
                let error = communicator.all_gather_ragged(&[0_i32; 10], 19).unwrap_err();
                assert!(error.to_string().contains("more than the limit of 19"), "{error}");
                let error = communicator.broadcast(Rank::new(5), &mut [1]).unwrap_err();
                assert!(error.kind() == ErrorKind::Usage, "{error}");
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_peer_that_fails_ends_the_wait_of_the_others() {
    with_watchdog(|| {
        let outcome = standalone(3).run(|cluster| {
            let communicator = cluster.communicator()?;
            communicator.barrier()?;
            if cluster.rank() == Rank::new(2) {
                return Err("out of luck".into());
            }
            let pending = communicator.begin_all_reduce(vec![1.0_f32; 10], ReduceOp::Sum)?;
            let error = pending.wait().unwrap_err();
            assert_eq!(error.lost_peer().unwrap().rank, Rank::new(2));
            let error = communicator.all_reduce(&mut vec![1.0_f32; 100_000], ReduceOp::Sum).unwrap_err();
            assert_eq!(error.lost_peer().unwrap().rank, Rank::new(2));
            Err::<(), _>(error)
        });
        assert!(outcome.unwrap_err().to_string().contains("out of luck"));
    });
}
