//! Histories of training runs, which checkpoints keep and `--resume` reads. A mutated history is
//! committed with a digest that fits, and a run resumes from it.

use super::saves::commit;
use super::{FuzzTarget, PreparedTarget};
use hemiola::array::save::{Manifest, PartReader};
use hemiola::models::prelude::*;
use hemiola::nn::data::ImageDataset;
use hemiola::nn::data::synthetic::SyntheticImages;
use hemiola::nn::models::{Device, MlpConfig};
use hemiola::nn::training::NetFit;
use hemiola::nn::{Optimizer, Trainer};
use hemiola::prelude::*;
use std::path::{Path, PathBuf};

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "journal", about: "history of a model's training run", prepare: journal },
    FuzzTarget { name: "net-journal", about: "history of a net's training run", prepare: net_journal },
];

/// Key of the history in a manifest.
const HISTORY: &str = "training";

/// Creates a target that resumes a run from its input. `train` trains up to an epoch into a folder,
/// from the start or resumed; `save` is the place of the saved arrays below the folder.
fn of_history(
    save: &'static str,
    train: impl Fn(&Path, u32, bool) -> hemiola::Result<()> + 'static,
) -> anyhow::Result<PreparedTarget> {
    let lab = tempfile::tempdir()?;
    let (original, copy) = (lab.path().join("original"), lab.path().join("copy"));
    for folder in [&original, &copy] {
        train(folder, 2, false)?;
    }
    let saved = original.join(save);
    let Manifest { arrays, metadata } = PartReader::open(&saved)?.manifest().clone();
    let history = serde_json::to_string(&metadata[HISTORY])?;
    let seeds = [
        history.clone(),
        history.replace("\"seconds\":", "\"seconds\":-1"),
        history.replace("\"evaluation_seconds\":", "\"evaluation_seconds\":9e307"),
        history.replace("\"best_index\":", "\"best_index\":9"),
        history.replace("\"epoch\":", "\"epoch\":4"),
    ];
    let parts = newest_generation(&saved)?;
    let seeds = seeds.into_iter().map(String::into_bytes).collect();
    Ok(PreparedTarget::new(seeds, move |input| {
        let _lab = &lab;
        let Ok(history) = serde_json::from_slice(input) else { return false };
        let mut metadata = metadata.clone();
        metadata.insert(HISTORY.to_owned(), history);
        let manifest = Manifest { arrays: arrays.clone(), metadata };
        commit(&parts, &copy.join(save), &manifest).is_ok() && train(&copy, 3, true).is_ok()
    }))
}

/// Returns the folder of the last generation of a save.
fn newest_generation(save: &Path) -> anyhow::Result<PathBuf> {
    let folders = std::fs::read_dir(save)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    let newest = folders.into_iter().filter(|path| path.is_dir()).max();
    newest.ok_or_else(|| anyhow::anyhow!("the save `{}` has no generation", save.display()))
}

fn journal() -> anyhow::Result<PreparedTarget> {
    of_history("", |folder, epochs, resume| {
        hemiola::standalone(1).workers(1).run(|cluster| {
            let all = cluster.from_fn([6, 5], |[user, item]| (user + item) as f32)?;
            let ratings = all.entries().filter(|[user, item], _| (user + item) % 3 > 0).materialize()?;
            let options = FitOptions::new().with_checkpoints(Checkpoints::new(folder).resume(resume));
            let estimator = MatrixFactorization::builder().rank(2).epochs(epochs).build()?;
            estimator.fit_with(cluster, &ratings, None, options)?;
            Ok(())
        })?;
        Ok(())
    })
}

fn net_journal() -> anyhow::Result<PreparedTarget> {
    let examples = SyntheticImages { shape: [1, 2, 2], classes: 2, examples: 8, seed: 3 }.dataset();
    of_history("net", move |folder, epochs, resume| {
        hemiola::standalone(1).workers(1).run(|cluster| Ok(train_net(cluster, &examples, folder, epochs, resume)?))?;
        Ok(())
    })
}

/// Trains a small net.
fn train_net(
    cluster: &Cluster,
    examples: &ImageDataset,
    folder: &Path,
    epochs: u32,
    resume: bool,
) -> hemiola::cluster::Result<()> {
    let device = Device::flex();
    let config = MlpConfig { inputs: 4, hidden: vec![2], classes: 2, seed: 1 };
    let trainer = Trainer::builder(cluster, config.init(&device.clone().autodiff()), Optimizer::adam(0.01));
    let options = FitOptions::new().with_checkpoints(Checkpoints::new(folder).resume(resume));
    NetFit::new(examples, &device).batch_size(8).epochs(epochs).fit_with(trainer, options).map(drop)
}
