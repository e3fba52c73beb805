//! An estimator: fit a ready-made model, save it, load it and predict.
//!
//! All model families of `hemiola::models` have this interface: matrix factorization, linear
//! classifiers, sparse regression and topic models. Training divides the data among the workers of
//! all peers. A saved model is loaded on any number of peers.
//!
//! `cargo run --release --example estimator`:
//! ```text
//! trained for 30 epochs
//! user 3 rates item 4 with 4.0, the model predicts 4.0
//! ```

use hemiola::Result;
use hemiola::models::mf::MfModel;
use hemiola::models::prelude::*;
use hemiola::prelude::*;
use std::path::Path;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let (fit, loaded) = train(cluster, &std::env::temp_dir().join("hemiola-estimator"))?;
        cluster.println(format_args!("trained for {} epochs", fit.report.progress.len()));
        let (rating, prediction) = (rating([3, 4]), loaded.predict(cluster, &[[3, 4]])?[0]);
        cluster.println(format_args!("user 3 rates item 4 with {rating:.1}, the model predicts {prediction:.1}"));
        Ok(())
    })
}

/// True rating of an item by a user.
pub(crate) fn rating([user, item]: [usize; 2]) -> f32 {
    3.0 + ((user % 7) * (item % 5)) as f32 / 12.0
}

/// Fits a model to two thirds of all ratings. Returns it as trained, and as loaded from the folder.
pub(crate) fn train(cluster: &Cluster, folder: &Path) -> Result<(Fit<MfModel>, MfModel)> {
    let all = cluster.from_fn([200, 100], rating)?;
    let known = all.entries().filter(|[user, item], _| (user * 7 + item) % 3 > 0).materialize()?;
    let estimator = MatrixFactorization::builder().rank(4).epochs(30).build()?;
    let fit = estimator.fit(cluster, &known)?;
    fit.model.save(cluster, folder)?;
    let loaded = MfModel::load(cluster, folder)?;
    Ok((fit, loaded))
}
