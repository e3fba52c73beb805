//! Matrix factorization by hand-written rotation: as good as the loop, repeatable, whatever its shape.

use hemiola::array::synthetic::Mf;
use hemiola::schedule::{Deal, Synchronize};
use hemiola_models::MatrixFactorization;
use hemiola_models::mf::rotation::Rounds;
use hemiola_models::mf::{Loss, data};

/// Predictions, and what entries cost in the last rotation.
fn rotated(peers: usize, workers: usize, rounds: Rounds) -> (Vec<u32>, f64) {
    let all = hemiola::standalone(peers).workers(workers).run(|cluster| {
        let ratings = data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3).noise(0.1))?;
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
fn it_learns_as_the_loop_does_with_the_same_bits_on_any_number_of_peers() {
    let rounds = Rounds { rotations: 15, ..Rounds::default() };
    let (bits, cost) = rotated(1, 4, rounds);
    // The loop over ratings comes to about the same in as many epochs.
    let looped = hemiola::standalone(1).workers(4).run(|cluster| {
        let ratings = data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3).noise(0.1))?;
        let trained = MatrixFactorization::builder().rank(8).epochs(15).valid(0.0).build()?.fit(cluster, &ratings)?;
        Ok(trained.report.progress.last().map_or(f64::NAN, |last| last.train["rmse"].powi(2)))
    });
    let looped = looped.unwrap()[0];
    assert!(cost < 1.3 * looped, "{cost} by rotation, {looped} by the loop");
    assert_eq!(rotated(2, 2, rounds), (bits.clone(), cost));
    assert_eq!(rotated(4, 1, rounds), (bits.clone(), cost));
    let micro = Rounds { synchronize: Synchronize::Micro, ..rounds };
    assert_eq!(rotated(2, 2, micro), (bits, cost));
}

#[test]
fn dealing_by_turns_learns_too_and_events_are_refused() {
    let rounds = Rounds { rotations: 15, deal: Deal::ByTurns, ..Rounds::default() };
    assert!(rotated(1, 2, rounds).1 < 0.5);
    let refused = hemiola::standalone(1).run(|cluster| {
        let ratings = data::made_up(cluster, &Mf::new(20, 20, 100, 4, 3))?;
        let model = MatrixFactorization::builder().loss(Loss::OneClass).build()?;
        Ok(model.fit_rotating(cluster, &ratings, rounds).unwrap_err().to_string())
    });
    assert!(refused.unwrap()[0].contains("not by rotation"));
}
