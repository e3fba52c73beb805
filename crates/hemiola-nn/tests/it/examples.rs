//! The example `trainer` learns, and all peers know the same losses.

#[path = "../../examples/trainer.rs"]
#[allow(dead_code, reason = "the test does not call `main`")]
mod trainer;

#[test]
fn the_trainer_of_the_example_learns() {
    let losses = hemiola_cluster::standalone(4).run(trainer::train).unwrap();
    assert!(losses[0][3] < 0.5 * losses[0][0], "{losses:?}");
    assert!(losses.iter().all(|of_peer| *of_peer == losses[0]), "{losses:?}");
}
