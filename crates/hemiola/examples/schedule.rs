//! Scheduled model parallelism: the temperatures of a rod, several points at a time.
//!
//! A program proposes jobs (points), says which of them interfere, computes one, and applies the
//! results. The scheduler never updates neighbours concurrently, and prefers points that changed.
//!
//! `cargo run --release --example schedule`:
//! ```text
//! 2.4 points at a time, temperatures [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
//! ```

use hemiola::cluster::{Result, WorkerTeam};
use hemiola::prelude::*;
use hemiola::schedule::order::{CoordinateOrder as _, PriorityOrder};
use hemiola::schedule::{DynamicProgram, DynamicScheduler, JobCandidate, RoundResults, ScheduleRequest};

/// Temperatures of the inner points of a rod and of its two ends.
type Rod = Vec<f64>;

/// Gauss-Seidel iteration: a point becomes the mean of its neighbours.
struct HeatProgram(PriorityOrder);

impl DynamicProgram for HeatProgram {
    type Job = usize;
    type Partial = f64;
    type State = Rod;

    fn schedule(&self, request: &ScheduleRequest, _: &Rod, candidates: &mut Vec<JobCandidate<usize>>) {
        self.0.propose(request, candidates);
    }

    fn coupling(&self, a: &usize, b: &usize, _: &Rod) -> f64 {
        f64::from(a.abs_diff(*b) <= 1)
    }

    fn update(&self, point: &usize, rod: &Rod) -> f64 {
        f64::midpoint(rod[*point], rod[point + 2])
    }

    fn aggregate(&mut self, round: &RoundResults<'_, usize, f64>, rod: &mut Rod, _: &mut WorkerTeam<'_>) -> Result<()> {
        for (index, point) in round.jobs.iter().enumerate() {
            let mean = round.partials(index).next().copied().unwrap_or_default(); // equal on all peers
            self.0.record_change(*point, mean - rod[point + 1]);
            rod[point + 1] = mean;
        }
        Ok(())
    }
}

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let mut rod = vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0];
        let mut program = HeatProgram(PriorityOrder::new(7, 1, Seed(5)));
        let scheduler = DynamicScheduler::new(cluster).concurrent(3).callback_every(1000);
        let counts = scheduler.run(&mut program, &mut rod, |_, _, _| Ok(std::ops::ControlFlow::Break(())))?.counts;
        let rate = counts.jobs as f64 / counts.rounds as f64;
        cluster.println(format_args!("{rate:.1} points at a time, temperatures {rod:.1?}"));
        Ok(())
    })
}
