//! Effect of staleness on training, with the tendencies that Dai et al. report.

use hemiola_sim::staleness::learner::LearnerSettings;
use hemiola_sim::staleness::sweep::{slowdown, to_csv};
use hemiola_sim::staleness::{
    DelayDistribution, DelayedTraining, StalenessSweep, StudyModel, StudyOptimizer, SweepCell,
};

fn sweep(model: StudyModel, optimizer: StudyOptimizer, staleness: &[u32], workers: &[usize]) -> StalenessSweep {
    StalenessSweep {
        model,
        optimizer,
        delay: DelayDistribution::Uniform,
        staleness: staleness.to_vec(),
        workers: workers.to_vec(),
        learning_rates: Vec::new(),
        seeds: vec![1, 2, 3],
        target: None,
        max_batches: 8000,
        run_to_end: false,
    }
}

fn run(sweep: &StalenessSweep) -> Vec<SweepCell> {
    sweep.run(|_, _| {})
}

fn slowdown_of(cells: &[SweepCell], staleness: u32, workers: usize) -> f64 {
    let cell = cells.iter().find(|cell| (cell.staleness, cell.workers) == (staleness, workers)).unwrap();
    slowdown(cells, cell).unwrap_or_else(|| panic!("{cell:?} did not reach its target"))
}

#[test]
fn slowdown_grows_with_staleness_and_with_workers() {
    for delay in [DelayDistribution::Uniform, DelayDistribution::Geometric] {
        let sweep = StalenessSweep { delay, ..sweep(StudyModel::Mf, StudyOptimizer::Sgd, &[0, 16, 32], &[1, 4, 8]) };
        let cells = run(&sweep);
        for workers in [1, 4, 8] {
            let slowdowns: Vec<f64> = [0, 16, 32].map(|staleness| slowdown_of(&cells, staleness, workers)).to_vec();
            assert!(slowdowns.windows(2).all(|pair| pair[0] < pair[1]), "{delay:?}, {workers} workers: {slowdowns:?}");
        }
        for staleness in [16, 32] {
            let slowdowns: Vec<f64> = [1, 4, 8].map(|workers| slowdown_of(&cells, staleness, workers)).to_vec();
            assert!(
                slowdowns.windows(2).all(|pair| pair[0] < pair[1]),
                "{delay:?}, staleness {staleness}: {slowdowns:?}"
            );
        }
        let csv = to_csv(&sweep, &cells);
        assert_eq!(csv.lines().count(), 10);
        assert!(csv.lines().all(|line| line.split(',').count() == 13), "{csv}");
    }
}

#[test]
fn momentum_suffers_more_than_sgd_and_adagrad() {
    let slow = |optimizer| {
        let rates = vec![0.001, 0.01, 0.03, 0.1];
        let sweep = StalenessSweep {
            learning_rates: rates,
            max_batches: 2000,
            ..sweep(StudyModel::Mlp(1), optimizer, &[0, 16], &[8])
        };
        slowdown_of(&run(&sweep), 16, 8)
    };
    let (sgd, momentum, adagrad) =
        (slow(StudyOptimizer::Sgd), slow(StudyOptimizer::Momentum), slow(StudyOptimizer::Adagrad));
    assert!(momentum > 1.5 * sgd && momentum > 1.5 * adagrad, "{sgd} {momentum} {adagrad}");
}

#[test]
fn deeper_networks_are_slowed_down_more() {
    let slow = |model| {
        let seeds = (1..=6).collect();
        slowdown_of(&run(&StalenessSweep { seeds, ..sweep(model, StudyOptimizer::Sgd, &[0, 32], &[1]) }), 32, 1)
    };
    let (flat, deep) = (slow(StudyModel::Mlp(0)), slow(StudyModel::Mlp(3)));
    assert!(deep > flat, "{flat} {deep}");
}

#[test]
fn topic_models_tolerate_delays_up_to_an_epoch() {
    // Ten iterations are an epoch. Up to that delay, a word's last update has arrived when the word
    // is sampled again; beyond, it may not have.
    let sweep = StalenessSweep {
        run_to_end: true,
        max_batches: 2400,
        ..sweep(StudyModel::Lda, StudyOptimizer::Sgd, &[0, 10, 20, 30], &[8])
    };
    let cells = run(&sweep);
    let quality: Vec<f64> = cells.iter().map(|cell| cell.last().0).collect();
    let (within, beyond) = (quality[0] - quality[1], quality[1] - quality[3]);
    assert!(beyond / 20.0 > 1.2 * within / 10.0, "{quality:?}");
    assert!(quality.windows(2).all(|pair| pair[0] > pair[1]), "{quality:?}");
}

#[test]
fn without_staleness_one_worker_trains_serially() {
    for model in [StudyModel::Mf, StudyModel::Lda, StudyModel::Logistic, StudyModel::Mlp(2)] {
        let training = DelayedTraining {
            max_batches: 40,
            target: None,
            ..DelayedTraining::new(model, StudyOptimizer::Adam, 0, 1, 5)
        };
        let curve = training.run();
        assert_eq!(curve, training.run());
        let settings = LearnerSettings {
            seed: 5,
            workers: 1,
            optimizer: StudyOptimizer::Adam,
            learning_rate: training.learning_rate,
        };
        let mut learner = model.learner(&settings);
        let mut copy = learner.initial();
        for _ in 0..40 {
            match learner.update(0, &copy) {
                hemiola_sim::staleness::learner::ModelUpdate::Dense(change) => {
                    copy.iter_mut().zip(change).for_each(|(value, change)| *value += change);
                }
                hemiola_sim::staleness::learner::ModelUpdate::Sparse(changes) => {
                    for (place, change) in changes {
                        copy[place as usize] += change;
                    }
                }
            }
        }
        assert_eq!(curve.last().to_bits(), learner.evaluate(&copy).to_bits(), "{model:?}");
    }
}
