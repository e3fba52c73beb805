//! A pool: every job once, heaviest first, the same hands every time.

use hemiola_cluster::standalone;
use hemiola_schedule::{Deal, pool};

#[test]
fn every_job_is_done_once_and_the_heaviest_of_a_queue_first() {
    for workers in 1..=4 {
        for how in [Deal::HeavyFirst, Deal::ByTurns] {
            let done = standalone(1).workers(workers).run(|cluster| {
                let mut jobs: Vec<(u64, u32)> = (0..50).map(|job| (1000 / (1 + job * 7 % 50), 0)).collect();
                let weights: Vec<u64> = jobs.iter().map(|job| job.0).collect();
                let mut own = vec![Vec::new(); workers];
                pool::run(cluster, &mut jobs, &weights, how, &mut own, |job, own| {
                    job.1 += 1;
                    own.push(job.0);
                })?;
                assert!(jobs.iter().all(|job| job.1 == 1));
                Ok(own)
            });
            let hands = done.unwrap().remove(0);
            if how == Deal::HeavyFirst {
                assert!(hands.iter().all(|hand| hand.is_sorted_by(|a, b| a >= b)), "{hands:?}");
            }
        }
    }
}

#[test]
fn a_job_that_panics_is_named() {
    let told = standalone(1).workers(2).run(|cluster| {
        let mut jobs: Vec<u32> = (0..10).collect();
        let error = pool::run(cluster, &mut jobs, &[1; 10], Deal::HeavyFirst, &mut [(), ()], |job, ()| {
            assert_ne!(*job, 7, "no data");
        });
        Ok(error.unwrap_err().to_string())
    });
    let told = told.unwrap().remove(0);
    assert!(told.contains("job 7 panicked") && told.contains("no data"), "{told}");
}
