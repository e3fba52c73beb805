//! Saved models. A mutated manifest is committed again, so that its digest fits and the checks
//! behind the digest are reached.

use super::{FuzzTarget, PreparedTarget};
use hemiola::array::save::{Manifest, PartReader, PartWriter};
use hemiola::models::mf::MfModel;
use hemiola::models::prelude::*;
use hemiola::prelude::*;
use std::path::Path;

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "manifest", about: "manifests of saved models, digest and all", prepare: manifest },
    FuzzTarget { name: "save", about: "contents of manifests, with a digest that fits", prepare: save },
];

/// Trains a small model and saves it.
fn train(folder: &Path) -> hemiola::Result<()> {
    hemiola::standalone(1).workers(1).run(|cluster| {
        let all = cluster.from_fn([6, 5], |[user, item]| (user + item) as f32)?;
        let ratings = all.entries().filter(|[user, item], _| (user + item) % 3 > 0).materialize()?;
        let fit = MatrixFactorization::builder().rank(2).epochs(1).build()?.fit(cluster, &ratings)?;
        Ok(fit.model.save(cluster, folder)?)
    })?;
    Ok(())
}

fn loads(folder: &Path) -> bool {
    let load = |cluster: &Cluster| Ok(MfModel::load(cluster, folder)?.predict(cluster, &[[1, 2]])?);
    hemiola::standalone(1).workers(1).run(load).is_ok()
}

fn manifest() -> anyhow::Result<PreparedTarget> {
    let folder = tempfile::tempdir()?;
    let model = folder.path().join("model");
    train(&model)?;
    let path = model.join("manifest.json");
    let seeds = vec![std::fs::read(&path)?];
    // Without manifests of their own, older generations do not stand in for a damaged newest one.
    for generation in std::fs::read_dir(&model)? {
        let own = generation?.path().join("manifest.json");
        if own.exists() {
            std::fs::remove_file(own)?;
        }
    }
    Ok(PreparedTarget::new(seeds, move |input| {
        let _folder = &folder;
        std::fs::write(&path, input).expect("the temporary folder is writable");
        loads(&model)
    }))
}

fn save() -> anyhow::Result<PreparedTarget> {
    let folder = tempfile::tempdir()?;
    let (model, copy) = (folder.path().join("model"), folder.path().join("copy"));
    train(&model)?;
    // The parts of later saves are written below the folder that a first one has made.
    train(&copy)?;
    let reader = PartReader::open(&model)?;
    let Manifest { arrays, metadata } = reader.manifest();
    let seeds = vec![serde_json::to_vec_pretty(&(arrays, metadata))?];
    let parts = model.join("generation-1");
    anyhow::ensure!(parts.is_dir(), "the parts of a first save are in `{}`", parts.display());
    Ok(PreparedTarget::new(seeds, move |input| {
        let _folder = &folder;
        let Ok((arrays, metadata)) = serde_json::from_slice(input) else { return false };
        let manifest = Manifest { arrays, metadata };
        commit(&parts, &copy, &manifest).is_ok() && loads(&copy)
    }))
}

/// Saves the files of `parts` under another manifest.
pub(super) fn commit(parts: &Path, target: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let writer = PartWriter::begin(target)?;
    let generation = target.join(format!("generation-{}", writer.generation()));
    for part in std::fs::read_dir(parts)? {
        let part = part?;
        if part.file_name() != "manifest.json" {
            std::fs::copy(part.path(), generation.join(part.file_name()))?;
        }
    }
    Ok(writer.commit(manifest)?)
}
