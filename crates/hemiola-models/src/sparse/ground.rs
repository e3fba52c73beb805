//! What is trained on: this peer's rows, checked and cut for its workers, and the way to the others.

use super::design::Design;
use super::examples::Examples;
use super::field::Field;
use super::kernel::Value;
use super::loss::Loss;
use super::settings::{Lambda, Settings};
use super::solver::Solver;
use crate::Error;
use hemiola::collective::{Algorithm, Collectives};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Rows of this peer.
#[derive(Debug)]
pub(super) struct Ground<T> {
    pub(super) design: Design<T>,
    /// As in the data.
    pub(super) labels: Vec<f64>,
    pub(super) numbers: Vec<u64>,
    /// Of two classes, ascending.
    pub(super) classes: Option<[f32; 2]>,
    peers: Option<Collectives>,
}

impl<T: Value> Ground<T> {
    /// *Collective.* Checks examples.
    pub(super) fn new(cluster: &Cluster, examples: Examples<T>, loss: Loss) -> Result<Self> {
        let Examples { columns, target, numbers, .. } = examples;
        let design = Design::new(columns, cluster.workers());
        assert!(design.rows() == target.len() && target.len() == numbers.len(), "every row has a target and a number");
        let not_finite = target.iter().zip(&numbers).find(|(target, _)| !target.is_finite()).map(|(_, row)| *row);
        let mut labels = target.clone();
        labels.sort_by(f64::total_cmp);
        labels.dedup();
        // More than two are too many, whatever they are.
        labels.truncate(3);
        let found = cluster.all_gather((target.len() as u64, not_finite, labels))?;
        if let Some(row) = found.iter().find_map(|(_, row, _)| *row) {
            return Err(Error::NotFinite { what: "label", row: row + 1, column: None }.into());
        }
        if found.iter().all(|(rows, ..)| *rows == 0) {
            return Err(Error::NoExamples.into());
        }
        let classes = match loss {
            Loss::Squared => None,
            Loss::Logistic => {
                let mut all: Vec<f64> = found.into_iter().flat_map(|(_, _, labels)| labels).collect();
                all.sort_by(f64::total_cmp);
                all.dedup();
                match all[..] {
                    [only] => return Err(Error::OneClass { label: only.to_string() }.into()),
                    [first, second] => Some([first as f32, second as f32]),
                    _ => return Err(Error::NotTwoClasses.into()),
                }
            }
        };
        // The fastest by measured links would be another in another run, with other bits.
        let peers = if cluster.size() > 1 { Some(cluster.collectives()?.by(Algorithm::Ring)) } else { None };
        Ok(Self { design, labels: target, numbers, classes, peers })
    }

    /// The rows for which `keep` says so, by their numbers.
    pub(super) fn subset(&self, keep: impl Fn(u64) -> bool) -> Self {
        let keep: Vec<bool> = self.numbers.iter().map(|number| keep(*number)).collect();
        let kept = || keep.iter().copied();
        Self {
            design: self.design.subset(&keep),
            labels: self.labels.iter().zip(kept()).filter(|(_, keep)| *keep).map(|(label, _)| *label).collect(),
            numbers: self.numbers.iter().zip(kept()).filter(|(_, keep)| *keep).map(|(number, _)| *number).collect(),
            classes: self.classes,
            peers: self.peers.clone(),
        }
    }

    /// *Collective.* Has something done by all workers, standing by.
    pub(super) fn field<R>(
        &self,
        cluster: &Cluster,
        work: impl FnOnce(&mut Field<'_, '_, T>) -> Result<R>,
    ) -> Result<R> {
        cluster.crew(|crew| work(&mut Field::new(cluster, crew, &self.design, self.peers.as_ref())))
    }

    /// *Collective.* A solver without coefficients.
    pub(super) fn solver(&self, field: &mut Field<'_, '_, T>, settings: &Settings) -> Result<Solver> {
        let target = match self.classes {
            None => self.labels.clone(),
            Some([_, second]) => self.labels.iter().map(|label| f64::from(*label as f32 >= second)).collect(),
        };
        let solver = Solver::begin(field, settings.loss, target, settings.intercept, settings.standardize)?;
        Ok(solver.scheduled(settings.schedule, settings.seed))
    }

    /// What is predicted for rows, but for the intercept.
    pub(super) fn scores(&self, coefficients: &[(u32, f64)]) -> Vec<f64> {
        let columns: Vec<u32> = coefficients.iter().map(|(column, _)| *column).collect();
        let amounts: Vec<f64> = coefficients.iter().map(|(_, value)| *value).collect();
        let mut scores = vec![0.0; self.labels.len()];
        let (mut spare, parts) = (Vec::new(), self.design.parts_of(&mut scores));
        for (part, scores) in parts.into_iter().enumerate() {
            self.design.add((&columns, &amounts), part, &[], &mut spare, scores);
        }
        scores
    }
}

impl Solver {
    /// Intercept and coefficients of columns as they are in the data.
    pub(super) fn solution(&self) -> (f64, Vec<(u32, f64)>) {
        let found = self.coefficients.iter().zip(&self.scaling.scale).enumerate().filter(|(_, (b, _))| **b != 0.0);
        let coefficients = found.map(|(column, (b, scale))| (column as u32, b * scale)).collect();
        let intercept = self.margins.as_ref().map_or(-self.residual.shift, |margins| margins.intercept);
        (intercept, coefficients)
    }

    /// How much coefficients cost, as `lambda` says it.
    pub(super) fn lambda(&self, lambda: Lambda, ratio: f64) -> f64 {
        match lambda {
            Lambda::Value(value) => value,
            // Where nothing pulls, any penalty will do.
            Lambda::Share(share) => (share * self.largest() / ratio).max(f64::MIN_POSITIVE),
        }
    }
}
