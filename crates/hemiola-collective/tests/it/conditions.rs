//! Peers that disagree, that do not come, that die; numbers that are none.

use crate::support::{impatient, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{Algorithm, Collectives, Encoder, Encoding, Factors, MakeCollectives as _, Operator};
use hemiola_core::{ErrorKind, Rank};
use std::sync::Mutex;

/// Runs a program that fails on every peer; what each said.
fn failures(peers: usize, program: impl Fn(&Cluster, &Collectives) -> Result<()> + Sync) -> Vec<(ErrorKind, String)> {
    let said = Mutex::new(vec![None; peers]);
    let outcome = standalone(peers).deadlines(impatient()).run(|cluster| {
        let error = program(cluster, &cluster.collectives()?).unwrap_err();
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
            let said = failures(4, |cluster, collectives| {
                let length = if cluster.rank() == Rank::new(2) { 101 } else { 100 };
                if background {
                    return collectives.begin_all_reduce(vec![1.0_f32; length], Operator::Sum)?.finish().map(drop);
                }
                collectives.all_reduce(&mut vec![1.0_f32; length], Operator::Sum)
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
        let said = failures(3, |cluster, collectives| {
            if cluster.is_root() {
                collectives.all_reduce(&mut [1.0_f32; 64], Operator::Sum)
            } else {
                collectives.all_reduce(&mut [1_i32; 64], Operator::Sum)
            }
        });
        assert!(said.iter().all(|(_, text)| text.contains("64 f32") && text.contains("64 i32")), "{said:?}");
        let said = failures(2, |cluster, collectives| {
            if cluster.is_root() { collectives.barrier() } else { collectives.all_gather(&[1_i64]).map(drop) }
        });
        assert!(said.iter().all(|(_, text)| text.contains("barrier") && text.contains("all-gather")), "{said:?}");
    });
}

#[test]
fn different_encodings_are_an_error_on_all_that_names_both() {
    type Make = fn(&Collectives) -> Result<(Encoder, usize, Operator)>;
    fn made(encoder: Result<Encoder>) -> Result<(Encoder, usize, Operator)> {
        let encoder = encoder?;
        let length = encoder.length();
        Ok((encoder, length, Operator::Sum))
    }
    let cases: [(Make, Make, [&str; 2]); 8] = [
        (
            |c| made(c.encoder(Encoding::OneBit { block: 64 }, 100)),
            |c| made(c.encoder(Encoding::TopK { keep: 10 }, 100)),
            ["100 f32 by sum encoded as one bit, blocks of 64", "100 f32 by sum encoded as top-k, 10 kept"],
        ),
        (
            |c| made(c.encoder(Encoding::TopK { keep: 11 }, 100)),
            |c| made(c.encoder(Encoding::TopK { keep: 10 }, 100)),
            ["encoded as top-k, 11 kept", "encoded as top-k, 10 kept"],
        ),
        (
            |c| made(c.encoder(Encoding::TopK { keep: 10 }, 101)),
            |c| made(c.encoder(Encoding::TopK { keep: 10 }, 100)),
            ["of 101 f32", "of 100 f32"],
        ),
        (
            |c| made(c.encoder(Encoding::Bf16, 100)),
            |c| made(c.encoder(Encoding::F16, 100)),
            ["encoded as bf16", "encoded as f16"],
        ),
        (
            |c| made(c.encoder(Encoding::Plain, 100)),
            |c| made(c.encoder(Encoding::Bf16, 100)),
            ["all-reduce (ring) of 100 f32", "encoded as bf16"],
        ),
        (
            |c| made(c.encoder(Encoding::Bf16, 100)),
            |c| Ok((c.encoder(Encoding::Bf16, 100)?, 100, Operator::Max)),
            ["by sum encoded as bf16", "by max encoded as bf16"],
        ),
        // The same length in another shape: nothing else tells them apart.
        (
            |c| made(c.matrix_encoder(Encoding::LowRank { rank: 2 }, 5, 20)),
            |c| made(c.matrix_encoder(Encoding::LowRank { rank: 2 }, 20, 5)),
            ["shape and state", "shape and state"],
        ),
        // One that is new beside one that goes on from a checkpoint.
        (
            |c| made(c.matrix_encoder(Encoding::LowRank { rank: 2 }, 10, 10)),
            |c| {
                let mut encoder = c.matrix_encoder(Encoding::LowRank { rank: 2 }, 10, 10)?;
                standalone(1)
                    .run(|alone| {
                        let mut gradient = vec![1.0; 100];
                        let mut used = encoder.clone();
                        alone.collectives()?.all_reduce_encoded(&mut gradient, Operator::Sum, &mut used)?;
                        Ok(used)
                    })?
                    .into_iter()
                    .for_each(|used| encoder = used);
                made(Ok(encoder))
            },
            ["shape and state", "shape and state"],
        ),
    ];
    with_watchdog(|| {
        for (number, (usual, other, words)) in cases.into_iter().enumerate() {
            for background in [false, true] {
                let said = failures(3, |cluster, collectives| {
                    let collectives = collectives.by(Algorithm::Ring);
                    let make = if cluster.rank() == Rank::new(2) { other } else { usual };
                    let (mut encoder, length, operator) = make(&collectives)?;
                    let before = encoder.clone();
                    if background {
                        let pending = collectives.begin_all_reduce_encoded(vec![1.5; length], operator, encoder)?;
                        let (encoder, sum) = pending.finish();
                        assert_eq!(encoder, before);
                        return sum.map(drop);
                    }
                    let outcome = collectives.all_reduce_encoded(&mut vec![1.5; length], operator, &mut encoder);
                    assert_eq!(encoder, before);
                    outcome
                });
                for (peer, (kind, text)) in said.iter().enumerate() {
                    let names = words.iter().all(|word| text.contains(word)) && text.contains("peer 2 does");
                    assert!(*kind == ErrorKind::Usage && names, "case {number}, peer {peer}: {text}");
                }
            }
        }
        let said = failures(2, |cluster, collectives| {
            let (rows, columns) = if cluster.is_root() { (2, 3) } else { (3, 2) };
            let (u, v) = (vec![1.0; rows], vec![1.0; columns]);
            collectives.all_reduce_factors(Factors { u: &u, v: &v, rows, columns }, &mut [0.0; 6])
        });
        assert!(said.iter().all(|(_, text)| text.contains("encoded as sufficient factors")), "{said:?}");
    });
}

#[test]
fn a_call_that_one_peer_leaves_out_ends_at_the_deadline_and_says_who_is_where() {
    with_watchdog(|| {
        let said = failures(3, |cluster, collectives| {
            if cluster.rank() == Rank::new(1) {
                cluster.barrier()
            } else {
                collectives.by(Algorithm::Ring).all_reduce(&mut [1.0_f32; 10], Operator::Sum)
            }
        });
        let report = &said.iter().find(|(kind, text)| *kind == ErrorKind::World && text.contains("gave up")).unwrap().1;
        assert!(report.contains("driver waits for all-reduce #") && report.contains("conditions.rs"), "{report}");
        assert!(report.contains("peer 1 driver waits for barrier #0 at"), "{report}");
    });
}

#[test]
fn numbers_that_are_none_are_delivered_and_counted() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                for operator in [Operator::Sum, Operator::Min, Operator::Max] {
                    let mut own = vec![1.0_f32; 10];
                    if cluster.rank() == Rank::new(1) {
                        own[4] = f32::NAN;
                    }
                    let before = collectives.tally().nan;
                    collectives.all_reduce(&mut own, operator)?;
                    assert!(own[4].is_nan() && own.iter().filter(|value| value.is_nan()).count() == 1);
                    assert_eq!(collectives.tally().nan - before, 1);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn what_cannot_be_divided_or_is_too_much_is_refused() {
    with_watchdog(|| {
        standalone(2)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                let error = collectives.all_to_all(&mut [1, 2, 3]).unwrap_err();
                assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("multiple of 2"), "{error}");
                let error = collectives.all_gather_ragged(&[0_i32; 10], 19).unwrap_err();
                assert!(error.to_string().contains("more than the limit of 19"), "{error}");
                let error = collectives.broadcast(Rank::new(5), &mut [1]).unwrap_err();
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
            let collectives = cluster.collectives()?;
            collectives.barrier()?;
            if cluster.rank() == Rank::new(2) {
                return Err("out of luck".into());
            }
            let begun = collectives.begin_all_reduce(vec![1.0_f32; 10], Operator::Sum)?;
            let error = begun.finish().unwrap_err();
            assert_eq!(error.lost_peer().unwrap().rank, Rank::new(2));
            let error = collectives.all_reduce(&mut vec![1.0_f32; 100_000], Operator::Sum).unwrap_err();
            assert_eq!(error.lost_peer().unwrap().rank, Rank::new(2));
            Err::<(), _>(error)
        });
        assert!(outcome.unwrap_err().to_string().contains("out of luck"));
    });
}
