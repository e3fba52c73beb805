//! Waits for other peers: each has a reason in stall reports, a deadline, and bounds the peer that
//! waits.

use crate::linear_model::MomentumKernel;
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ClusterEvent, Deadlines, Observer};
use hemiola_strategy::{ModelSpec, StrategyBuilder, VariableSpec};
use hemiola_sync::{ModelSync, PassKind, VariableId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const WEIGHTS: usize = 4;

fn model(cluster: &Cluster) -> Result<ModelSync<MomentumKernel>> {
    let spec = ModelSpec::new(vec![VariableSpec::dense("weights", [WEIGHTS])]).map_err(hemiola_sync::Error::from)?;
    ModelSync::builder(cluster, spec, vec![vec![1.0; WEIGHTS]], MomentumKernel)
        .strategy(StrategyBuilder::AllReduce { chunk: None })
        .build()
}

/// Takes a step whose gradient is zero; waits for the values before it if `reads`.
fn step(sync: &mut ModelSync<MomentumKernel>, reads: bool) -> Result<()> {
    if reads {
        let _values = sync.next_values(VariableId::new(0), PassKind::Step).wait();
    }
    sync.forward_complete(PassKind::Step, 1, 0.0, 0.1);
    sync.end_pass(PassKind::Step)
}

/// Stall reports as text.
#[derive(Debug, Default)]
struct StallRecorder(Mutex<Vec<String>>);

impl Observer for StallRecorder {
    fn observe(&self, event: &ClusterEvent) {
        if let ClusterEvent::Stalled(stall) = event {
            self.0.lock().push(stall.to_string());
        }
    }
}

/// Runs `program` on peer 0, while peer 1 builds the model and takes no step. Returns the error of
/// peer 0 and the stall reports.
fn beside_a_stuck_peer(program: impl Fn(&mut ModelSync<MomentumKernel>) -> Result<()> + Sync) -> (Error, Vec<String>) {
    let mut deadlines = Deadlines::default();
    deadlines.silence = Duration::from_secs(2);
    deadlines.stall = Duration::from_millis(400);
    deadlines.wait = Duration::from_secs(2);
    let (recorder, done) = (Arc::new(StallRecorder::default()), AtomicBool::new(false));
    let outcome = standalone(2).deadlines(deadlines).observer(recorder.clone()).run(|cluster| {
        let mut sync = model(cluster)?;
        if cluster.is_root() {
            let outcome = program(&mut sync);
            done.store(true, Ordering::SeqCst);
            return outcome;
        }
        // A peer that computed would put the deadline of the other off.
        while !done.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(())
    });
    let stalls = recorder.0.lock().clone();
    (outcome.unwrap_err(), stalls)
}

#[test]
fn a_wait_for_the_end_of_all_steps_is_reported_and_ends_at_its_deadline() {
    let (error, stalls) = beside_a_stuck_peer(|sync| {
        step(sync, true)?;
        sync.wait()
    });
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    // The wait itself, or the collective that it waits for.
    assert!(error.to_string().contains("the synchronization of all steps"), "{error}");
    assert!(stalls.iter().any(|stall| stall.contains("waits for the synchronization of all steps")), "{stalls:?}");
}

#[test]
fn a_forward_pass_without_values_is_reported_and_ends_at_its_deadline() {
    let (error, stalls) = beside_a_stuck_peer(|sync| {
        step(sync, true)?;
        step(sync, true)
    });
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("the values of a step"), "{error}");
    assert!(stalls.iter().any(|stall| stall.contains("waits for the values of a step")), "{stalls:?}");
}

#[test]
fn a_peer_that_reads_no_values_is_at_most_a_step_ahead() {
    const STEPS: usize = 200;
    let ended = [AtomicUsize::new(0), AtomicUsize::new(0)];
    standalone(2)
        .run(|cluster| {
            let mut sync = model(cluster)?;
            let [ahead, behind] = &ended;
            for number in 0..STEPS {
                if cluster.is_root() {
                    step(&mut sync, false)?;
                    ahead.store(number + 1, Ordering::SeqCst);
                    continue;
                }
                if number == 0 {
                    // The other peer has begun, and gets the time to run away.
                    while ahead.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    for _ in 0..1000 {
                        std::thread::yield_now();
                    }
                }
                let lead = ahead.load(Ordering::SeqCst).saturating_sub(behind.load(Ordering::SeqCst));
                assert!(lead <= 2, "{lead} steps of gradients wait in memory");
                step(&mut sync, true)?;
                behind.store(number + 1, Ordering::SeqCst);
            }
            sync.wait()
        })
        .unwrap();
}
