//! A trained model: an intercept and the coefficients that are not 0.
//!
//! All peers have all of it. Coefficients are those of the columns as they are in the data, whatever was centred and scaled to find them.

use super::examples::deal;
use super::figures;
use super::loss::{Loss, sigmoid};
use super::settings::Settings;
use crate::Error;
use crate::training::{Keep, Metrics};
use hemiola::array::dist::{Labelled, Load, Save};
use hemiola::collective::{Algorithm, Operator};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// An intercept and coefficients.
#[derive(Clone, Debug)]
pub struct Model {
    /// What is predicted where all features are 0; for two classes the logarithm of odds.
    pub intercept: f64,
    /// Column and value of each coefficient that is not 0, by column.
    pub coefficients: Vec<(u32, f64)>,
    /// How much coefficients cost.
    pub lambda: f64,
    /// How many columns there were.
    pub columns: u64,
    /// The labels of two classes, ascending.
    pub classes: Option<[f32; 2]>,
    /// What it was trained with.
    pub settings: Settings,
    pub(super) names: Option<Arc<Vec<String>>>,
    pub(super) cluster: Cluster,
}

/// What a model says of an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The quantity, or the label of the likelier class.
    pub value: f64,
    /// The chance of the second class, where there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// Figures of a model on examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Figures by name.
    pub figures: Metrics,
    /// How many examples there were.
    pub examples: u64,
    /// Features of theirs that the model does not know; they were left out.
    pub unknown_features: u64,
}

impl Model {
    /// Name and value of each coefficient that is not 0. Columns without names go by their number, from 1.
    pub fn named(&self) -> impl Iterator<Item = (String, f64)> {
        self.coefficients.iter().map(|(column, value)| (self.name(*column), *value))
    }

    /// The name of a column.
    #[must_use]
    pub fn name(&self, column: u32) -> String {
        let name = self.names.as_ref().and_then(|names| names.get(column as usize));
        name.map_or_else(|| (u64::from(column) + 1).to_string(), Clone::clone)
    }

    /// *Collective.* What the model says of all examples, by row, the same on every peer. Features it does not know are left out; how many is returned.
    pub fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<(Vec<Prediction>, u64)> {
        let mut scores = vec![0.0; features.shape().extent(0) as usize];
        let mut unknown = 0_u64;
        features.for_each(|[row, column], value| {
            unknown += u64::from(column >= self.columns);
            if let Ok(place) = self.coefficients.binary_search_by_key(&column, |(column, _)| u64::from(*column)) {
                scores[row as usize] += self.coefficients[place].1 * f64::from(*value);
            }
        });
        cluster.collectives()?.by(Algorithm::Ring).all_reduce(&mut scores, Operator::Sum)?;
        let unknown = cluster.all_gather(unknown)?.into_iter().sum();
        let predict = |score: f64| match self.classes {
            None => Prediction { value: score + self.intercept, chance: None },
            Some(classes) => {
                let score = score + self.intercept;
                Prediction { value: f64::from(classes[usize::from(score > 0.0)]), chance: Some(sigmoid(score)) }
            }
        };
        Ok((scores.into_iter().map(predict).collect(), unknown))
    }

    /// *Collective.* Figures on examples. A label that was not trained on is an error of the model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &Labelled) -> Result<Evaluation> {
        let (dealt, unknown_features) = deal(cluster, examples, self.columns)?;
        let columns: Vec<u32> = self.coefficients.iter().map(|(column, _)| *column).collect();
        let amounts: Vec<f64> = self.coefficients.iter().map(|(_, value)| *value).collect();
        let design = super::design::Design::new(dealt.columns, 1);
        let mut scores = vec![self.intercept; dealt.target.len()];
        design.add((&columns, &amounts), 0, &[], &mut Vec::new(), &mut scores);
        let (examples, figures) = figures::of(cluster, self.classes, &dealt.target, &scores)?;
        if examples == 0 {
            return Err(Error::NoExamples.into());
        }
        Ok(Evaluation { figures, examples, unknown_features })
    }

    /// *Collective.* Saves it in a folder, where nothing but an older save may be.
    pub fn save(&self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let mut save = Save::begin(cluster, folder)?;
        self.put(&mut save, "")?;
        save.note("model", &self.settings.kind());
        save.commit()
    }

    /// *Collective.* Loads what [`save`](Self::save) or a training wrote, on any number of peers.
    pub fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        Load::steady(cluster, folder, |load| {
            let kind: String = load.note("model")?.ok_or_else(|| missing("note `model`"))?;
            if ![Loss::Squared, Loss::Logistic].into_iter().any(|loss| Settings::kinds(loss).contains(&kind.as_str())) {
                return Err(Error::NotThisModel { problem: format!("it is of a model `{kind}`") }.into());
            }
            Self::get(load, "")
        })
    }
}

fn missing(what: &str) -> Error {
    Error::NotThisModel { problem: format!("it has no {what}") }
}

impl Keep for Model {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let mut all = vec![0.0; self.columns as usize + 1];
        for (column, value) in &self.coefficients {
            all[*column as usize] = *value;
        }
        all[self.columns as usize] = self.intercept;
        let array = self.cluster.from_fn([self.columns + 1], |[place]| all[place as usize])?;
        save.put(&format!("{prefix}coefficients"), &array)?;
        save.note(&format!("{prefix}lambda"), &self.lambda);
        save.note("classes", &self.classes);
        save.note("names", &self.names.as_deref());
        save.note("settings", &self.settings);
        Ok(())
    }

    fn get(load: &Load, prefix: &str) -> Result<Self> {
        let array = load.get::<f64, 1>(&format!("{prefix}coefficients"))?;
        let mut all: Vec<f64> = array.collect()?.into_iter().map(|(_, value)| value).collect();
        let intercept = all.pop().ok_or_else(|| missing("coefficients"))?;
        let coefficients = all.iter().enumerate().filter(|(_, value)| **value != 0.0);
        Ok(Self {
            intercept,
            coefficients: coefficients.map(|(column, value)| (column as u32, *value)).collect(),
            lambda: load.note(&format!("{prefix}lambda"))?.ok_or_else(|| missing("note `lambda`"))?,
            columns: all.len() as u64,
            classes: load.note("classes")?.ok_or_else(|| missing("note `classes`"))?,
            settings: load.note("settings")?.ok_or_else(|| missing("note `settings`"))?,
            names: load.note::<Option<Vec<String>>>("names")?.flatten().map(Arc::new),
            cluster: array.cluster().clone(),
        })
    }

    fn bytes(&self) -> u64 {
        (self.columns + 1) * size_of::<f64>() as u64
    }
}
