//! Properties of examples without a serial reference.

use super::programs::{compression, estimator, gossip, strategy};
use crate::with_watchdog;
use hemiola::collective::{Compression, Topology};
use hemiola::models::prelude::*;
use hemiola::strategy::{LinkSpec, ResourceSpec, StrategyBuilder};

#[test]
fn error_feedback_makes_the_mean_of_compressed_sums_precise() {
    let top_k = Compression::TopK { keep: 500 };
    let measure = |cluster: &hemiola::Cluster| {
        let [plain, top_k] = [Compression::Plain, top_k].map(|method| compression::measure(cluster, method));
        Ok((plain?, top_k?))
    };
    let (plain, top_k) = with_watchdog(|| hemiola::standalone(2).run(measure)).unwrap().remove(0);
    assert!(plain.iter().all(|error| *error < 1e-6), "{plain:?}");
    let [first, last] = [top_k[0], top_k[compression::STEPS - 1]];
    assert!(first > 0.01 && last < 0.7 * first, "{first}, then {last}");
}

#[test]
fn gossip_keeps_the_mean_and_a_larger_spectral_gap_is_faster() {
    let average = |cluster: &hemiola::Cluster| {
        let [ring, complete] = [Topology::Ring, Topology::Complete].map(|graph| gossip::average(cluster, &graph, 6));
        Ok((ring?, complete?))
    };
    let (ring, complete) = with_watchdog(|| hemiola::standalone(8).workers(1).run(average)).unwrap().remove(0);
    for models in [&ring, &complete] {
        assert!((models.iter().sum::<f64>() / 8.0 - 3.5).abs() < 1e-9, "{models:?}");
    }
    let spread = |models: &[f64]| models.iter().fold(0.0, |most: f64, model| most.max((model - 3.5).abs()));
    assert!(spread(&complete) < 1e-9 && spread(&ring) > 0.1, "{ring:?} {complete:?}");
}

#[test]
fn the_cheapest_strategy_is_no_dearer_than_the_others() {
    let cluster = ResourceSpec::uniform(4, LinkSpec::bits(1e9, 1e-4));
    let costs = strategy::compare(&strategy::model().unwrap(), &cluster).unwrap();
    let (last, cheapest) = costs[costs.len() - 1];
    assert_eq!(last, StrategyBuilder::Cheapest);
    assert!(costs.iter().all(|(_, seconds)| *seconds >= cheapest), "{costs:?}");
}

#[test]
fn a_loaded_model_predicts_as_the_trained_one() {
    let folder = tempfile::tempdir().unwrap();
    let pairs: Vec<[usize; 2]> = (0..50).map(|at| [at * 3, at]).collect();
    let train = |cluster: &hemiola::Cluster| {
        let (fit, loaded) = estimator::train(cluster, &folder.path().join("model"))?;
        let [before, after] = [&fit.model, &loaded].map(|model| model.predict(cluster, &pairs));
        let (before, after) = (before?, after?);
        let error = |(pair, value): (&[usize; 2], &f32)| (estimator::rating(*pair) - value).abs();
        let mean = pairs.iter().zip(&after).map(error).sum::<f32>() / 50.0;
        Ok((before == after, mean))
    };
    let (equal, mean) = with_watchdog(|| hemiola::standalone(2).workers(2).run(train)).unwrap().remove(0);
    assert!(equal && mean < 0.3, "mean error {mean}");
}
