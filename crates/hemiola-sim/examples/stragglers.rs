//! A cluster in virtual time: does a staleness bound hide stragglers?
//!
//! Sixteen simulated peers train a matrix factorization on a parameter server. The arithmetic and
//! the protocol are real, time is not: one computation in twenty takes ten times as long. The same
//! seed gives the same run on every machine.
//!
//! `cargo run --release -p hemiola-sim --example stragglers`:
//! ```text
//! Bsp: 10.3 ms, rmse 0.390
//! Ssp(1): 5.7 ms, rmse 0.410
//! Ssp(4): 3.4 ms, rmse 0.445
//! ```

use hemiola_sim::ClusterSpec;
use hemiola_sim::cluster_spec::ComputeModel;
use hemiola_sim::workload::mf::{MfOutcome, MfWorkload};
use hemiola_tables_proto::Consistency;

#[expect(clippy::print_stdout, reason = "the output of the program")]
fn main() -> Result<(), String> {
    for consistency in [Consistency::Bsp, Consistency::Ssp(1), Consistency::Ssp(4)] {
        let outcome = train(consistency)?;
        let milliseconds = 1e3 * outcome.ended.end_time.secs();
        println!("{consistency:?}: {milliseconds:.1} ms, rmse {:.3}", outcome.rmse.1);
    }
    Ok(())
}

fn train(consistency: Consistency) -> Result<MfOutcome, String> {
    let mut cluster = ClusterSpec::new(16);
    cluster.compute.push(ComputeModel::Stragglers { probability: 0.05, factor: 10.0 });
    let workload = MfWorkload { users: 320, items: 200, clocks: 40, consistency, ..MfWorkload::default() };
    workload.run(&cluster, 1, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staleness_bound_hides_stragglers() {
        let [bsp, ssp] = [Consistency::Bsp, Consistency::Ssp(4)].map(|consistency| train(consistency).unwrap());
        assert!(ssp.ended.end_time < bsp.ended.end_time, "less waiting");
        assert!(bsp.rmse.1 < 0.8 * bsp.rmse.0 && ssp.rmse.1 < 0.8 * ssp.rmse.0, "{:?} {:?}", bsp.rmse, ssp.rmse);
        assert_eq!(train(Consistency::Bsp).unwrap().ended.digest, bsp.ended.digest, "a run repeats exactly");
    }
}
