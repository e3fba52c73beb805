//! A trained model: a weight for every feature, for each problem.
//!
//! All peers have all weights. With two classes there is one problem, and a score above 0 speaks for the second class; with more there is one for
//! each class against the rest, and the highest score wins.

use super::figures::{Figures, best, chances};
use super::loss::Loss;
use super::settings::Settings;
use super::shard::{Shard, deal, labels};
use crate::Error;
use crate::training::{Keep, Metrics};
use hemiola::array::dist::{Labelled, Load, Save};
use hemiola::collective::{Algorithm, Collectives, Operator};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Weights and classes.
#[derive(Clone, Debug)]
pub struct Model {
    /// The labels of the classes, ascending.
    pub classes: Vec<f32>,
    /// What they are called, if labels are not numbers of the data but places here.
    pub names: Vec<String>,
    /// Problem after problem: a weight for every feature, and one for the bias.
    pub(super) weights: Arc<Vec<f64>>,
    /// What it was trained with.
    pub settings: Settings,
    /// What it takes to go on.
    pub(super) state: Option<State>,
    cluster: Cluster,
}

/// Where training is, besides the weights.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// This peer's own model, where it is another than that of all.
    pub(super) own: Arc<Vec<f64>>,
    /// Dual variables by row and problem.
    pub(super) duals: Arc<Vec<f64>>,
    pub(super) rows: u64,
    /// Adds up what peers have; `None` where `duals` has those of all peers already, and not of this one's rows alone.
    pub(super) collectives: Option<Collectives>,
}

/// What a model says of an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The label.
    pub label: f32,
    /// What it is called, if classes have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The score of the second class, or of each of more than two.
    pub scores: Vec<f64>,
    /// The chance of each class, by ascending label, if the model has chances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chances: Vec<f64>,
}

/// Figures of a model on examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Figures by name.
    pub figures: Metrics,
    /// How many examples there were.
    pub examples: u64,
    /// Features of theirs for which the model has no weights; they were left out.
    pub unknown_features: u64,
}

impl Model {
    /// A model with all weights 0. Where labels have names, those of classes are kept and counted anew.
    pub(super) fn start(
        cluster: &Cluster,
        mut classes: Vec<f32>,
        names: &[String],
        columns: u64,
        settings: &Settings,
    ) -> Self {
        let names: Vec<String> = classes.iter().filter_map(|label| names.get(*label as usize).cloned()).collect();
        if !names.is_empty() {
            classes = (0..classes.len()).map(|place| place as f32).collect();
        }
        let problems = if classes.len() == 2 { 1 } else { classes.len() };
        let weights = Arc::new(vec![0.0; problems * (columns as usize + 1)]);
        Self { classes, names, weights, settings: settings.clone(), state: None, cluster: cluster.clone() }
    }

    /// How many problems there are: one for two classes, or one for each of more.
    #[must_use]
    pub fn problems(&self) -> usize {
        if self.classes.len() == 2 { 1 } else { self.classes.len() }
    }

    /// Weights of a problem, that of the bias among them.
    pub(super) fn width(&self) -> usize {
        self.weights.len() / self.problems().max(1)
    }

    /// How many features have a weight.
    #[must_use]
    pub fn columns(&self) -> u64 {
        self.width().saturating_sub(1) as u64
    }

    /// The weights of features for a problem, without the bias.
    #[must_use]
    pub fn weights(&self, problem: usize) -> &[f64] {
        let width = self.width();
        &self.weights[problem * width..(problem + 1) * width - 1]
    }

    /// What is added to every score of a problem.
    #[must_use]
    pub fn intercept(&self, problem: usize) -> f64 {
        self.settings.bias * self.weights[(problem + 1) * self.width() - 1]
    }

    /// *Collective.* What the model says of all examples, by row, the same on every peer. Features without a weight are left out; how many is returned.
    pub fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<(Vec<Prediction>, u64)> {
        let (rows, problems) = (features.shape().extent(0) as usize, self.problems());
        let mut scores = vec![0.0; rows * problems];
        let mut unknown = 0_u64;
        features.for_each(|[row, column], value| {
            unknown += u64::from(column >= self.columns());
            if column < self.columns() {
                for (problem, score) in scores[row as usize * problems..][..problems].iter_mut().enumerate() {
                    *score += self.weights[problem * self.width() + column as usize] * f64::from(*value);
                }
            }
        });
        cluster.collectives()?.by(Algorithm::Ring).all_reduce(&mut scores, Operator::Sum)?;
        let unknown = cluster.all_gather(unknown)?.into_iter().sum();
        let predicted = scores.chunks_exact(problems).map(|products| {
            let score = |(problem, product): (usize, &f64)| product + self.intercept(problem);
            let scores: Vec<f64> = products.iter().enumerate().map(score).collect();
            let chances = if self.settings.loss.has_chances() { chances(&scores).collect() } else { Vec::new() };
            let class = best(&scores) as usize;
            Prediction { label: self.classes[class], name: self.names.get(class).cloned(), scores, chances }
        });
        Ok((predicted.collect(), unknown))
    }

    /// *Collective.* Figures on examples. A label that was not trained on is an error of the model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &Labelled) -> Result<Evaluation> {
        let labels = labels(examples)?;
        if labels.is_empty() {
            return Err(Error::NoExamples.into());
        }
        let dealt = deal(cluster, examples, &labels, &self.classes, (self.columns(), 0), |_| false)?;
        let (examples, figures) = self.figures(cluster, &dealt.shards)?;
        Ok(Evaluation { figures, examples, unknown_features: dealt.left_out })
    }

    /// *Collective.* Figures on examples that were dealt out, and how many they are.
    pub(super) fn figures(&self, cluster: &Cluster, shards: &[Shard]) -> Result<(u64, Metrics)> {
        let counted = cluster.each_worker(|worker| {
            let mut figures = Figures::with_scores();
            let mut scores = vec![0.0; self.problems()];
            for shard in shards.iter().skip(worker.index()).step_by(worker.count()) {
                for place in 0..shard.len() {
                    self.scores(shard, place, &mut scores);
                    figures.add(&scores, shard.classes[place]);
                }
            }
            figures
        })?;
        Figures::settle(&counted, cluster, self.settings.loss.has_chances())
    }

    /// The scores of an example, problem by problem.
    pub(super) fn scores(&self, shard: &Shard, place: usize, scores: &mut [f64]) {
        let (row, width) = (shard.row(place), self.width());
        for (score, weights) in scores.iter_mut().zip(self.weights.chunks_exact(width)) {
            *score = row.dot(weights) + self.settings.bias * weights[width - 1];
        }
    }

    /// *Collective.* Saves it in a folder, where nothing but an older save may be.
    pub fn save(&self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let mut save = Save::begin(cluster, folder)?;
        Self { state: None, ..self.clone() }.put(&mut save, "")?;
        save.note("model", &self.settings.loss.kind());
        save.commit()
    }

    /// *Collective.* Loads what [`save`](Self::save) or a training wrote, on any number of peers.
    pub fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        Load::steady(cluster, folder, |load| {
            let kind: String = load.note("model")?.ok_or_else(|| missing("note `model`"))?;
            if kind != Loss::Hinge.kind() && kind != Loss::Logistic.kind() {
                return Err(Error::NotThisModel { problem: format!("it is of a model `{kind}`") }.into());
            }
            Self::weights_of(load, "")
        })
    }

    /// *Collective.* What it takes to predict.
    fn weights_of(load: &Load, prefix: &str) -> Result<Self> {
        let array = load.get::<f64, 2>(&format!("{prefix}weights"))?;
        let weights = values(&array)?;
        let classes: Vec<f32> = load.note("classes")?.ok_or_else(|| missing("note `classes`"))?;
        // Models of before had numbers alone.
        let names: Vec<String> = load.note("class names")?.unwrap_or_default();
        let settings = load.note("settings")?.ok_or_else(|| missing("note `settings`"))?;
        let model = Self {
            classes,
            names,
            weights: Arc::new(weights),
            settings,
            state: None,
            cluster: array.cluster().clone(),
        };
        let [problems, width] = array.shape().extents();
        if !model.names.is_empty() && model.names.len() != model.classes.len() {
            let problem = format!("it has {} names for {} classes", model.names.len(), model.classes.len());
            return Err(Error::NotThisModel { problem }.into());
        }
        if model.classes.len() < 2 || problems != model.problems() as u64 || width == 0 {
            let problem = format!("it has weights for {problems} problems and {} classes", model.classes.len());
            return Err(Error::NotThisModel { problem }.into());
        }
        Ok(model)
    }
}

fn missing(what: &str) -> Error {
    Error::NotThisModel { problem: format!("it has no {what}") }
}

/// *Collective.* All cells, row by row, on every peer.
fn values(array: &DistArray<f64, 2>) -> Result<Vec<f64>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}

impl Keep for Model {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let Self { classes, names, weights, settings, state, cluster } = self;
        let (problems, width) = (self.problems() as u64, self.width() as u64);
        let named = |name: &str| format!("{prefix}{name}");
        let cell = |[problem, column]: [u64; 2]| weights[(problem * width + column) as usize];
        save.put(&named("weights"), &cluster.from_fn([problems, width], cell)?)?;
        if let Some(State { own, duals, rows, collectives }) = state {
            let gathered = match collectives {
                None => duals.clone(),
                Some(collectives) => {
                    // A row is 0 on all peers but one.
                    let mut all = Vec::clone(duals);
                    collectives.all_reduce(&mut all, Operator::Sum)?;
                    Arc::new(all)
                }
            };
            let cell = |[row, problem]: [u64; 2]| gathered[(row * problems + problem) as usize];
            save.put(&named("duals"), &cluster.from_fn([*rows, problems], cell)?)?;
            if cluster.size() > 1 {
                let models = cluster.collectives()?.all_gather(own)?;
                let cell = |[peer, place]: [u64; 2]| models[peer as usize * own.len() + place as usize];
                save.put(&named("peers"), &cluster.from_fn([cluster.size() as u64, own.len() as u64], cell)?)?;
            }
        }
        save.note("classes", classes);
        if !names.is_empty() {
            save.note("class names", names);
        }
        save.note("settings", settings);
        Ok(())
    }

    fn get(load: &Load, prefix: &str) -> Result<Self> {
        let mut model = Self::weights_of(load, prefix)?;
        let (named, cluster) = (|name: &str| format!("{prefix}{name}"), &model.cluster);
        let has = |wanted: &str| load.names().any(|name| name == wanted);
        if !has(&named("duals")) {
            return Err(missing("dual variables: it was saved to be used, not to be trained").into());
        }
        let duals = load.get::<f64, 2>(&named("duals"))?;
        let rows = duals.shape().extent(0);
        let mut own = model.weights.clone();
        if has(&named("peers")) {
            let peers = load.get::<f64, 2>(&named("peers"))?;
            let [count, length] = peers.shape().extents();
            // Another number of peers starts from what all had agreed on.
            if count == cluster.size() as u64 && length == own.len() as u64 {
                let all = values(&peers)?;
                own = Arc::new(all[cluster.rank().index() * own.len()..][..own.len()].to_vec());
            }
        }
        model.state = Some(State { own, duals: Arc::new(values(&duals)?), rows, collectives: None });
        Ok(model)
    }

    fn bytes(&self) -> u64 {
        let of_state = self.state.as_ref().map_or(0, |state| state.duals.len() + state.own.len() * self.cluster.size());
        ((self.weights.len() + of_state) * size_of::<f64>()) as u64
    }
}
