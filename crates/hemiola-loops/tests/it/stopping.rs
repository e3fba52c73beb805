//! A request to stop ends a loop on all peers before the end of its pass.

use hemiola_array::ArrayExt;
use hemiola_cluster::{Error, standalone};
use hemiola_loops::parallel_for;
use std::sync::atomic::{AtomicUsize, Ordering};

const ENTRIES: usize = 300_000;

#[test]
fn a_request_leaves_the_loop_on_all_peers_before_its_end() {
    for (peers, workers) in [(1, 1), (1, 2), (2, 1)] {
        let visited = standalone(peers).workers(workers).run(|cluster| {
            let cells = cluster.zeros::<f32, 1>([ENTRIES])?;
            let mut sums = cluster.zeros::<f32, 1>([ENTRIES])?;
            let visited = AtomicUsize::new(0);
            let (stop, asks) = (cluster.stop_request().clone(), cluster.rank().index() == peers - 1);
            let mut pass = || {
                parallel_for!(
                    cluster,
                    for ([i], cell) in &cells {
                        if visited.fetch_add(1, Ordering::Relaxed) == 1000 && asks {
                            stop.request();
                        }
                        sums[i] += *cell + 1.0;
                    }
                )
                .map(|_| ())
            };
            let scope = cluster.stop_request().accept();
            assert!(matches!(pass(), Err(Error::Stopped)));
            drop(scope);
            let of_stopped = visited.swap(0, Ordering::Relaxed);
            // Without a scope the request is not accepted, and the array can be used as before.
            pass()?;
            assert_eq!(cluster.all_gather(visited.into_inner())?.into_iter().sum::<usize>(), ENTRIES);
            Ok(of_stopped)
        });
        let visited = visited.unwrap();
        let asking = visited[peers - 1];
        assert!((1001..ENTRIES / peers).contains(&asking), "{visited:?} on {peers} peers of {workers}");
    }
}
