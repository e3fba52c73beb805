//! What staleness does to learning, in the directions that the study of Dai et al. reports.

use hemiola_sim::study::learner::Settings;
use hemiola_sim::study::sweep::{slow_down, to_csv};
use hemiola_sim::study::{Cell, Delay, Model, Optimizer, Sweep, Training};

fn sweep(model: Model, optimizer: Optimizer, staleness: &[u32], workers: &[usize]) -> Sweep {
    Sweep {
        model,
        optimizer,
        delay: Delay::Uniform,
        staleness: staleness.to_vec(),
        workers: workers.to_vec(),
        rates: Vec::new(),
        seeds: vec![1, 2, 3],
        target: None,
        most_batches: 8000,
        to_the_end: false,
    }
}

fn run(sweep: &Sweep) -> Vec<Cell> {
    sweep.run(|_, _| {})
}

fn of(cells: &[Cell], staleness: u32, workers: usize) -> f64 {
    let cell = cells.iter().find(|cell| (cell.staleness, cell.workers) == (staleness, workers)).unwrap();
    slow_down(cells, cell).unwrap_or_else(|| panic!("{cell:?} did not reach its target"))
}

#[test]
fn slow_down_grows_with_staleness_and_with_workers() {
    for delay in [Delay::Uniform, Delay::Geometric] {
        let sweep = Sweep { delay, ..sweep(Model::Mf, Optimizer::Sgd, &[0, 16, 32], &[1, 4, 8]) };
        let cells = run(&sweep);
        for workers in [1, 4, 8] {
            let downs: Vec<f64> = [0, 16, 32].map(|staleness| of(&cells, staleness, workers)).to_vec();
            assert!(downs.windows(2).all(|pair| pair[0] < pair[1]), "{delay:?}, {workers} workers: {downs:?}");
        }
        for staleness in [16, 32] {
            let downs: Vec<f64> = [1, 4, 8].map(|workers| of(&cells, staleness, workers)).to_vec();
            assert!(downs.windows(2).all(|pair| pair[0] < pair[1]), "{delay:?}, staleness {staleness}: {downs:?}");
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
        let sweep = Sweep { rates, most_batches: 2000, ..sweep(Model::Mlp(1), optimizer, &[0, 16], &[8]) };
        of(&run(&sweep), 16, 8)
    };
    let (sgd, momentum, adagrad) = (slow(Optimizer::Sgd), slow(Optimizer::Momentum), slow(Optimizer::Adagrad));
    assert!(momentum > 1.5 * sgd && momentum > 1.5 * adagrad, "{sgd} {momentum} {adagrad}");
}

#[test]
fn deeper_networks_are_slowed_down_more_than_shallow_ones() {
    let slow = |model| {
        let seeds = (1..=6).collect();
        of(&run(&Sweep { seeds, ..sweep(model, Optimizer::Sgd, &[0, 32], &[1]) }), 32, 1)
    };
    let (flat, deep) = (slow(Model::Mlp(0)), slow(Model::Mlp(3)));
    assert!(deep > flat, "{flat} {deep}");
}

#[test]
fn topics_stand_delays_up_to_a_pass_and_not_beyond() {
    // Ten iterations are a pass. Up to there a word's last change has come when the word is sampled again; beyond, it may not have.
    let sweep =
        Sweep { to_the_end: true, most_batches: 2400, ..sweep(Model::Lda, Optimizer::Sgd, &[0, 10, 20, 30], &[8]) };
    let cells = run(&sweep);
    let quality: Vec<f64> = cells.iter().map(|cell| cell.last().0).collect();
    let (within, beyond) = (quality[0] - quality[1], quality[1] - quality[3]);
    assert!(beyond / 20.0 > 1.2 * within / 10.0, "{quality:?}");
    assert!(quality.windows(2).all(|pair| pair[0] > pair[1]), "{quality:?}");
}

#[test]
fn without_staleness_one_worker_learns_serially_and_repeats() {
    for model in [Model::Mf, Model::Lda, Model::Logistic, Model::Mlp(2)] {
        let training = Training { most_batches: 40, target: None, ..Training::new(model, Optimizer::Adam, 0, 1, 5) };
        let course = training.run();
        assert_eq!(course, training.run());
        let settings = Settings { seed: 5, workers: 1, optimizer: Optimizer::Adam, rate: training.rate };
        let mut learner = model.learner(&settings);
        let mut copy = learner.initial();
        for _ in 0..40 {
            match learner.update(0, &copy) {
                hemiola_sim::study::learner::Change::Dense(change) => {
                    copy.iter_mut().zip(change).for_each(|(value, change)| *value += change);
                }
                hemiola_sim::study::learner::Change::Sparse(changes) => {
                    for (place, change) in changes {
                        copy[place as usize] += change;
                    }
                }
            }
        }
        assert_eq!(course.last().to_bits(), learner.quality(&copy).to_bits(), "{model:?}");
    }
}
