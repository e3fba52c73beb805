//! Models on standalone clusters: `estimator` tests the contract of all families, `mf`,
//! `one_class`, `fold` and `ranking` matrix factorization, `linear` linear classifiers, `sparse`
//! and `schedule` sparse regression, `fm` factorization machines, `ridge`, `softmax` and `kmeans` the models of those names, `bpr` ranking, `lda` and `topics` topic models, `resume` checkpoints,
//! `preparation` categories, missing values, scales and weights of terms, `stopping` requests to stop within an epoch, `weights` weights of examples, `selection` cross-validation and search, `python` the Python snippets of the guide.

mod bpr;
mod estimator;
mod fm;
mod fold;
mod kmeans;
mod lda;
mod linear;
mod mf;
mod one_class;
mod preparation;
mod python;
mod ranking;
mod resume;
mod ridge;
mod schedule;
mod selection;
mod softmax;
mod sparse;
mod stopping;
mod topics;
mod weights;

use hemiola_array::ArrayExt as _;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::prelude::*;

/// Folder of the newest generation of a save.
fn newest_generation(folder: &std::path::Path) -> std::path::PathBuf {
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    folder.join(format!("generation-{}", manifest["generation"]))
}

/// Examples with the nonzero cells of a matrix as features.
fn labelled(
    cluster: &Cluster,
    shape: [usize; 2],
    cell: impl Fn([usize; 2]) -> f32 + Sync,
    label: impl Fn(usize) -> f32 + Sync,
) -> Result<LabelledData> {
    let features = cluster.from_fn(shape, cell)?.entries().filter(|_, value| *value != 0.0).materialize()?;
    Ok(LabelledData { features, labels: cluster.from_fn([shape[0]], |[row]| label(row))? })
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Trains in several runs, each resumed from the checkpoint of the one before, and returns the bits
/// of the model. A run is given by the number of epochs in all, of peers, and of workers.
fn resumed_bits<E: Estimator, B: Send>(
    data: impl Fn(&Cluster) -> Result<E::Data> + Sync,
    estimator: &(impl Fn(u32) -> E + Sync),
    runs: &[(u32, usize, usize)],
    bits: impl Fn(&E::Model) -> B + Sync,
) -> B {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let mut last = None;
    for (run, (epochs, peers, workers)) in runs.iter().enumerate() {
        let trained = hemiola_cluster::standalone(*peers).workers(*workers).run(|cluster| {
            let checkpoints = Checkpoints::new(&folder).resume(run > 0);
            let options = FitOptions::new().with_checkpoints(checkpoints);
            let fit = estimator(*epochs).fit_with(cluster, &data(cluster)?, None, options)?;
            let loaded = E::Model::load(cluster, &folder)?;
            Ok((bits(&fit.model), bits(&loaded)))
        });
        last = trained.unwrap().into_iter().next();
    }
    last.unwrap().0
}
