//! Matrix factorization by hand-written rotation: as good as the loop, and reproducible.

use hemiola::array::synthetic::SyntheticMf;
use hemiola::schedule::{JobAssignment, RotationBarrier};
use hemiola_models::MatrixFactorization;
use hemiola_models::mf::rotation::RotationSettings;
use hemiola_models::mf::{MfLoss, data};

/// Predictions, and the loss per entry in the last rotation.
fn rotated(peers: usize, workers: usize, rounds: RotationSettings) -> (Vec<u32>, f64) {
    let all = hemiola::standalone(peers).workers(workers).run(|cluster| {
        let ratings = data::synthetic(cluster, &SyntheticMf::new(60, 40, 1200, 4, 3).noise(0.1))?;
        let rotated = MatrixFactorization::builder().rank(8).build()?.fit_rotating(cluster, &ratings, rounds)?;
        assert_eq!(rotated.turns.len(), rounds.rotations as usize);
        let pairs: Vec<[u64; 2]> = (0..40).map(|item| [item, item]).collect();
        let bits = rotated.model.predict(cluster, &pairs)?.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        Ok((bits, rotated.trace.points.last().map_or(f64::NAN, |last| last.objective)))
    });
    let all = all.unwrap();
    assert!(all.iter().all(|other| *other == all[0]), "all peers have the same model");
    all.into_iter().next().unwrap()
}

#[test]
fn rotation_matches_the_loop_and_is_bit_identical_on_any_number_of_peers() {
    let rounds = RotationSettings { rotations: 15, ..RotationSettings::default() };
    let (bits, cost) = rotated(1, 4, rounds);
    // The loop over ratings reaches about the same loss in as many epochs.
    let looped = hemiola::standalone(1).workers(4).run(|cluster| {
        let ratings = data::synthetic(cluster, &SyntheticMf::new(60, 40, 1200, 4, 3).noise(0.1))?;
        let trained =
            MatrixFactorization::builder().rank(8).epochs(15).validation(0.0).build()?.fit(cluster, &ratings)?;
        Ok(trained.report.progress.last().map_or(f64::NAN, |last| last.train["rmse"].powi(2)))
    });
    let looped = looped.unwrap()[0];
    assert!(cost < 1.3 * looped, "{cost} by rotation, {looped} by the loop");
    assert_eq!(rotated(2, 2, rounds), (bits.clone(), cost));
    assert_eq!(rotated(4, 1, rounds), (bits.clone(), cost));
    let micro = RotationSettings { synchronize: RotationBarrier::PerStep, ..rounds };
    assert_eq!(rotated(2, 2, micro), (bits, cost));
}

#[test]
fn round_robin_assignment_trains_and_events_are_rejected() {
    let rounds = RotationSettings { rotations: 15, deal: JobAssignment::RoundRobin, ..RotationSettings::default() };
    assert!(rotated(1, 2, rounds).1 < 0.5);
    let refused = hemiola::standalone(1).run(|cluster| {
        let ratings = data::synthetic(cluster, &SyntheticMf::new(20, 20, 100, 4, 3))?;
        let model = MatrixFactorization::builder().loss(MfLoss::OneClass).build()?;
        Ok(model.fit_rotating(cluster, &ratings, rounds).unwrap_err().to_string())
    });
    assert!(refused.unwrap()[0].contains("not by rotation"));
}
