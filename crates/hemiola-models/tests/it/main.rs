//! Models on standalone clusters: `estimator` tests the contract of all families, `mf`,
//! `one_class`, `fold` and `ranking` matrix factorization, `linear` linear classifiers, `sparse`
//! and `schedule` sparse regression, `lda` and `topics` topic models, `resume` checkpoints,
//! `python` the Python snippets of the guide.

mod estimator;
mod fold;
mod lda;
mod linear;
mod mf;
mod one_class;
mod python;
mod ranking;
mod resume;
mod schedule;
mod sparse;
mod topics;

/// Folder of the newest generation of a save.
fn newest_generation(folder: &std::path::Path) -> std::path::PathBuf {
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    folder.join(format!("generation-{}", manifest["generation"]))
}
