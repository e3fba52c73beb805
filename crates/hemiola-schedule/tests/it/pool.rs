//! A pool: every job once, heaviest first, with a reproducible assignment.

use hemiola_cluster::standalone;
use hemiola_schedule::{JobAssignment, pool};

#[test]
fn every_job_runs_once_and_the_heaviest_of_a_queue_first() {
    for workers in 1..=4 {
        for how in [JobAssignment::HeaviestFirst, JobAssignment::RoundRobin] {
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
            let assigned = done.unwrap().remove(0);
            if how == JobAssignment::HeaviestFirst {
                assert!(assigned.iter().all(|jobs| jobs.is_sorted_by(|a, b| a >= b)), "{assigned:?}");
            }
        }
    }
}

#[test]
fn a_job_that_panics_is_named() {
    let message = standalone(1).workers(2).run(|cluster| {
        let mut jobs: Vec<u32> = (0..10).collect();
        let error = pool::run(cluster, &mut jobs, &[1; 10], JobAssignment::HeaviestFirst, &mut [(), ()], |job, ()| {
            assert_ne!(*job, 7, "no data");
        });
        Ok(error.unwrap_err().to_string())
    });
    let message = message.unwrap().remove(0);
    assert!(message.contains("job 7 panicked") && message.contains("no data"), "{message}");
}
