//! Non-blocking collectives: several at once, waited for in any order, beside blocking ones.

use crate::support::with_watchdog;
use hemiola_cluster::standalone;
use hemiola_collective::{CollectiveExt as _, ReduceOp};
use hemiola_core::Rank;

#[test]
fn many_are_in_flight_and_complete_in_any_order() {
    with_watchdog(|| {
        for peers in [1, 2, 4] {
            standalone(peers)
                .run(|cluster| {
                    let communicator = cluster.communicator()?;
                    let me = cluster.rank().index();
                    let pending = (0..30)
                        .map(|turn| {
                            communicator.begin_all_reduce(
                                vec![me + turn; turn * 3000].into_iter().map(|value| value as f64).collect(),
                                ReduceOp::Sum,
                            )
                        })
                        .collect::<hemiola_cluster::Result<Vec<_>>>()?;
                    // A blocking collective overtakes all of them.
                    let mut here = [1.0_f32];
                    communicator.all_reduce(&mut here, ReduceOp::Sum)?;
                    assert_eq!(here.to_vec(), [peers as f32]);
                    let mut pending: Vec<_> = pending.into_iter().enumerate().collect();
                    if me % 2 == 1 {
                        pending.reverse();
                    }
                    for (turn, pending) in pending {
                        let expected: usize = (0..peers).map(|peer| peer + turn).sum();
                        assert_eq!(pending.wait()?, vec![expected as f64; turn * 3000]);
                    }
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn every_collective_can_be_non_blocking() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                let me = cluster.rank().index();
                let root = Rank::new(2);
                let scatter = communicator.begin_reduce_scatter(vec![1.0_f64; 9], ReduceOp::Sum)?;
                let gather = communicator.begin_all_gather(&[me as f32])?;
                let tell = communicator.begin_broadcast(root, vec![me as f32; 5])?;
                let sum = communicator.begin_reduce(root, vec![1_i64; 5], ReduceOp::Sum)?;
                let swap = communicator.begin_all_to_all((0..3).map(|to| (10 * me + to) as f64).collect())?;
                assert_eq!(swap.wait()?, [0, 1, 2].map(|from| (10 * from + me) as f64));
                assert!(me != 2 || sum.wait()? == [3; 5]);
                assert_eq!(tell.wait()?, [2.0; 5]);
                assert_eq!(gather.wait()?, [0.0, 1.0, 2.0]);
                assert_eq!(scatter.wait()?[me * 3..me * 3 + 3], [3.0; 3]);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_collective_without_a_wait_does_not_delay_the_end_of_the_cluster() {
    with_watchdog(|| {
        standalone(2)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                drop(communicator.begin_all_reduce(vec![1.0_f32; 100_000], ReduceOp::Sum)?);
                Ok(())
            })
            .unwrap();
    });
}
