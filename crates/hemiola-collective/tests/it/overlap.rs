//! Collectives that were begun: several at once, in any order of finishing, beside those that block.

use crate::support::with_watchdog;
use hemiola_cluster::standalone;
use hemiola_collective::{MakeCollectives as _, Operator};
use hemiola_core::Rank;

#[test]
fn many_are_in_flight_and_finish_in_any_order() {
    with_watchdog(|| {
        for peers in [1, 2, 4] {
            standalone(peers)
                .run(|cluster| {
                    let collectives = cluster.collectives()?;
                    let me = cluster.rank().index();
                    let begun = (0..30)
                        .map(|turn| {
                            collectives.begin_all_reduce(
                                vec![me + turn; turn * 3000].into_iter().map(|value| value as f64).collect(),
                                Operator::Sum,
                            )
                        })
                        .collect::<hemiola_cluster::Result<Vec<_>>>()?;
                    // One that blocks goes past all of them.
                    let mut here = [1.0_f32];
                    collectives.all_reduce(&mut here, Operator::Sum)?;
                    assert_eq!(here.to_vec(), [peers as f32]);
                    let mut begun: Vec<_> = begun.into_iter().enumerate().collect();
                    if me % 2 == 1 {
                        begun.reverse();
                    }
                    for (turn, pending) in begun {
                        let expected: usize = (0..peers).map(|peer| peer + turn).sum();
                        assert_eq!(pending.finish()?, vec![expected as f64; turn * 3000]);
                    }
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn every_collective_can_be_begun() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                let me = cluster.rank().index();
                let root = Rank::new(2);
                let scatter = collectives.begin_reduce_scatter(vec![1.0_f64; 9], Operator::Sum)?;
                let gather = collectives.begin_all_gather(&[me as f32])?;
                let tell = collectives.begin_broadcast(root, vec![me as f32; 5])?;
                let sum = collectives.begin_reduce(root, vec![1_i64; 5], Operator::Sum)?;
                let swap = collectives.begin_all_to_all((0..3).map(|to| (10 * me + to) as f64).collect())?;
                assert_eq!(swap.finish()?, [0, 1, 2].map(|from| (10 * from + me) as f64));
                assert!(me != 2 || sum.finish()? == [3; 5]);
                assert_eq!(tell.finish()?, [2.0; 5]);
                assert_eq!(gather.finish()?, [0.0, 1.0, 2.0]);
                assert_eq!(scatter.finish()?[me * 3..me * 3 + 3], [3.0; 3]);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn one_that_nobody_finishes_does_not_keep_the_cluster_from_ending() {
    with_watchdog(|| {
        standalone(2)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                drop(collectives.begin_all_reduce(vec![1.0_f32; 100_000], Operator::Sum)?);
                Ok(())
            })
            .unwrap();
    });
}
