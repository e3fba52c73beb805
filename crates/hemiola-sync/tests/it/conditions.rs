//! Bad conditions in every mode: variables without a gradient, values that are not finite, fewer
//! examples than peers, strategies of other models and checkpoints of other versions.

use crate::linear_model::{MomentumKernel, built, train_on};
use crate::modes::{MODES, is_synchronous, mode};
use hemiola_array::files::OsFileSystem;
use hemiola_array::save::{Manifest, PartWriter};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_strategy::{ModelSpec, Strategy, StrategyBuilder};
use hemiola_sync::{GradientClip, ModelSync, PassKind, VariableId};
use std::path::Path;

const WEIGHTS: VariableId = VariableId::new(0);
const BIASES: VariableId = VariableId::new(1);

/// Trains `steps` steps of a model with the shapes of the linear one. `examples` and `weights` are
/// functions of the step and the rank; `None` is a step without a gradient of the weights. Returns
/// the values.
fn train(
    cluster: &Cluster,
    strategy: &Strategy,
    steps: u64,
    examples: impl Fn(u64, usize) -> u64,
    weights: impl Fn(u64, usize) -> Option<f32>,
) -> Result<Vec<Vec<f32>>> {
    let model = crate::linear_model::spec(cluster.size());
    let values = model.variables.iter().map(|variable| vec![0.5; variable.elements() as usize]).collect();
    let sync = ModelSync::builder(cluster, model, values, MomentumKernel).clip(None::<GradientClip>);
    let mut sync = sync.strategy(strategy.clone()).build()?;
    let me = cluster.rank().index();
    for step in 0..steps {
        let gradients = sync.begin_pass(PassKind::Step);
        let values = [WEIGHTS, BIASES].map(|variable| sync.next_values(variable, PassKind::Step).wait());
        let count = if sync.trains() { examples(step, me) } else { 0 };
        sync.forward_complete(PassKind::Step, count, 1.0, 0.1);
        if count > 0 {
            gradients.send(BIASES, vec![0.25 * count as f32; values[1].len()]);
            if let Some(number) = weights(step, me) {
                // Factors `[inputs, output gradients]` of one example, or the product.
                let factors = vec![number, number, number, 1.0, 1.0];
                let dense = vec![number; values[0].len()];
                gradients.send(WEIGHTS, if sync.structured()[WEIGHTS.index()] { factors } else { dense });
            }
        }
        sync.end_pass(PassKind::Step)?;
    }
    sync.wait()?;
    Ok([WEIGHTS, BIASES].map(|variable| sync.newest_values(variable).wait()).to_vec())
}

#[test]
fn a_variable_without_gradients_stays_as_it_is() {
    for name in MODES {
        let strategy = mode(name, 3);
        let all = standalone(3).run(|cluster| train(cluster, &strategy, 4, |_, _| 2, |_, _| None)).unwrap();
        for values in &all {
            // A block of one bit covers biases and weights: what a block rounds is fed back later.
            let tolerance = if name == "all-reduce one bit" { 0.05 } else { 1e-6 };
            assert!(values[0].iter().all(|value| (value - 0.5).abs() < tolerance), "{name}: {values:?}");
            assert!(values[1].iter().all(|value| *value < 0.45), "{name}: the biases learn: {values:?}");
        }
    }
}

#[test]
fn a_gradient_that_is_not_finite_names_the_variable_in_every_mode() {
    for name in MODES {
        let strategy = mode(name, 3);
        // Peer 0 trains in every mode.
        let weights = |step, rank| Some(if step == 1 && rank == 0 { f32::NAN } else { 0.1 });
        let error = standalone(3).run(|cluster| train(cluster, &strategy, 6, |_, _| 1, weights)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("step 2: the gradient of `weights` is not finite"), "{name}: {text}");
    }
}

#[test]
fn a_batch_smaller_than_the_number_of_peers_is_that_of_the_peers_with_examples() {
    for name in MODES.into_iter().filter(|name| is_synchronous(name)) {
        let strategy = mode(name, 3);
        // One example in each step, on one of the peers that train.
        let trainers = strategy.replicas.len() as u64;
        let examples = |step: u64, rank: usize| u64::from(step % trainers == rank as u64);
        let found = standalone(3).run(|cluster| train(cluster, &strategy, 4, examples, |_, _| Some(0.1))).unwrap();
        let one = StrategyBuilder::Balanced.build(&crate::linear_model::spec(1), &one_peer()).unwrap();
        let alone = standalone(1).run(|cluster| train(cluster, &one, 4, |_, _| 1, |_, _| Some(0.1))).unwrap();
        let tolerance = if name == "all-reduce one bit" { 0.05 } else { 1e-6 };
        for (found, expected) in found.iter().flat_map(|peer| peer.iter().flatten().zip(alone[0].iter().flatten())) {
            assert!((found - expected).abs() < tolerance, "{name}: {found} instead of {expected}");
        }
    }
    // A step without any example is an error where steps are those of all peers.
    let strategy = mode("two-level", 3);
    let error = standalone(3).run(|cluster| train(cluster, &strategy, 1, |_, _| 0, |_, _| None)).unwrap_err();
    assert!(error.to_string().contains("step 1: no peer has an example"), "{error}");
}

fn one_peer() -> hemiola_strategy::ResourceSpec {
    hemiola_strategy::ResourceSpec::uniform(1, hemiola_strategy::LinkSpec::bits(1e9, 1e-4))
}

#[test]
fn a_strategy_of_another_model_or_cluster_is_refused_with_the_variable() {
    for name in MODES {
        let mut strategy = mode(name, 3);
        strategy.plans[1].shape = vec![7];
        let error = standalone(3).run(|cluster| train(cluster, &strategy, 1, |_, _| 1, |_, _| None)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("biases: the strategy was made for the shape [7], and the model has [2]"), "{text}");
        let strategy = mode(name, 3);
        let error = standalone(2).run(|cluster| train(cluster, &strategy, 1, |_, _| 1, |_, _| None)).unwrap_err();
        assert!(error.to_string().contains("it was made for 3 peers, and the cluster has 2"), "{name}: {error}");
    }
}

#[test]
fn checkpoints_of_another_version_or_model_are_refused() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("net");
    train_on(2, built(StrategyBuilder::Balanced), &folder, false, 3);
    let resume = |folder: &Path, model: &ModelSpec, strategy: Option<Strategy>| {
        standalone(2).run(|cluster| {
            let values = model.variables.iter().map(|variable| vec![0.5; variable.elements() as usize]).collect();
            let sync = ModelSync::builder(cluster, model.clone(), values, MomentumKernel);
            let mut sync = sync.resume(Some(folder.to_owned()));
            if let Some(strategy) = &strategy {
                sync = sync.strategy(strategy.clone());
            }
            sync.build().map(|sync| sync.steps())
        })
    };
    let model = crate::linear_model::spec(2);
    assert_eq!(resume(&folder, &model, None).unwrap(), [3, 3]);
    // Strategies in checkpoints of earlier versions have no routes and shares; nor have those of this
    // version that use none.
    let text = mode("balanced", 2).to_json();
    assert!(!text.contains("route") && !text.contains("proxies") && !text.contains("shares"), "{text}");
    let error = resume(&folder, &model, Some(mode("two-level", 3))).unwrap_err().to_string();
    assert!(error.contains("it was made for 3 peers, and the cluster has 2"), "{error}");
    let mut other = model.clone();
    other.variables[1].name = "offsets".into();
    let error = resume(&folder, &other, None).unwrap_err().to_string();
    assert!(error.contains("made with another model") && error.contains("offsets"), "{error}");
    // An edited manifest is noticed, and one of another format is refused with both numbers.
    let manifest = folder.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("biases", "offsets")).unwrap();
    assert_eq!(resume(&folder, &model, None).unwrap(), [3, 3], "the copy before it is used, with a warning");
    let newer = lab.path().join("newer");
    let saving = PartWriter::begin_on(&OsFileSystem::shared(), &newer).unwrap();
    let mut manifest = Manifest::default();
    let note = serde_json::json!({ "format": 9, "step": 3, "optimizer": "momentum", "variables": model });
    manifest.metadata.insert("net".to_owned(), note);
    saving.commit(&manifest).unwrap();
    let error = resume(&newer, &model, None).unwrap_err().to_string();
    assert!(error.contains("it has format 9, and this version reads format 1"), "{error}");
}
