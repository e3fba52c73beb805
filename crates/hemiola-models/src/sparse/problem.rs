//! Training problem: this peer's validated rows, partitioned for its workers, and the communicator
//! to other peers.

use super::design::DesignMatrix;
use super::examples::SparseExamples;
use super::kernel::ColumnValue;
use super::loss::SparseLoss;
use super::row_reducer::RowReducer;
use super::settings::{Lambda, SparseSettings};
use super::solver::SparseSolver;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::CollectiveExt;
use hemiola_collective::{Algorithm, Communicator};

/// Validated training rows of this peer.
#[derive(Debug)]
pub(super) struct SparseProblem<T> {
    pub(super) design: DesignMatrix<T>,
    /// Labels as in the data.
    pub(super) labels: Vec<f64>,
    pub(super) numbers: Vec<usize>,
    /// Labels of the two classes, ascending; `None` for regression.
    pub(super) classes: Option<[f32; 2]>,
    peers: Option<Communicator>,
}

impl<T: ColumnValue> SparseProblem<T> {
    /// *Collective.* Validates and partitions the examples.
    pub(super) fn new(cluster: &Cluster, examples: SparseExamples<T>, loss: SparseLoss) -> Result<Self> {
        let SparseExamples { columns, target, numbers, .. } = examples;
        let design = DesignMatrix::new(columns, cluster.workers());
        assert!(
            design.rows() == target.len() && target.len() == numbers.len(),
            "every row needs a target and a number"
        );
        let not_finite = target.iter().zip(&numbers).find(|(target, _)| !target.is_finite()).map(|(_, row)| *row);
        let mut labels = target.clone();
        labels.sort_by(f64::total_cmp);
        labels.dedup();
        // Three labels suffice to reject more than two classes.
        labels.truncate(3);
        let found = cluster.all_gather((target.len(), not_finite, labels))?;
        if let Some(row) = found.iter().find_map(|(_, row, _)| *row) {
            return Err(Error::NotFinite { what: "label", row: row + 1, column: None }.into());
        }
        if found.iter().all(|(rows, ..)| *rows == 0) {
            return Err(Error::NoExamples.into());
        }
        let classes = match loss {
            SparseLoss::Squared => None,
            SparseLoss::Logistic => {
                let mut all: Vec<f64> = found.into_iter().flat_map(|(_, _, labels)| labels).collect();
                all.sort_by(f64::total_cmp);
                all.dedup();
                match all[..] {
                    [only] => return Err(Error::SingleClass { label: only.to_string() }.into()),
                    [first, second] => Some([first as f32, second as f32]),
                    _ => return Err(Error::NotBinary.into()),
                }
            }
        };
        // A measured choice of algorithm could differ between runs and change the bits.
        let peers =
            if cluster.size() > 1 { Some(cluster.communicator()?.with_algorithm(Algorithm::Ring)) } else { None };
        Ok(Self { design, labels: target, numbers, classes, peers })
    }

    /// Returns the rows selected by `keep`, by their numbers.
    pub(super) fn subset(&self, keep: impl Fn(usize) -> bool) -> Self {
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

    /// *Collective.* Runs `work` with a [`RowReducer`] on a worker team.
    pub(super) fn with_reducer<R>(
        &self,
        cluster: &Cluster,
        work: impl FnOnce(&mut RowReducer<'_, '_, T>) -> Result<R>,
    ) -> Result<R> {
        cluster.worker_team(|team| work(&mut RowReducer::new(cluster, team, &self.design, self.peers.as_ref())))
    }

    /// *Collective.* Creates a solver with all coefficients 0.
    pub(super) fn solver(
        &self,
        reducer: &mut RowReducer<'_, '_, T>,
        settings: &SparseSettings,
    ) -> Result<SparseSolver> {
        let target = match self.classes {
            None => self.labels.clone(),
            Some([_, second]) => self.labels.iter().map(|label| f64::from(*label as f32 >= second)).collect(),
        };
        let solver = SparseSolver::begin(reducer, settings.loss, target, settings.intercept, settings.standardize)?;
        Ok(solver.scheduled(settings.schedule, settings.seed))
    }

    /// Returns the scores of rows, without the intercept.
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

impl SparseSolver {
    /// Returns the intercept and the coefficients of the columns in the scale of the data.
    pub(super) fn solution(&self) -> (f64, Vec<(u32, f64)>) {
        let found = self.coefficients.iter().zip(&self.scaling.scale).enumerate().filter(|(_, (b, _))| **b != 0.0);
        let coefficients = found.map(|(column, (b, scale))| (column as u32, b * scale)).collect();
        let intercept = self.margins.as_ref().map_or(-self.residual.shift, |margins| margins.intercept);
        (intercept, coefficients)
    }

    /// Converts the `lambda` setting to a penalty.
    pub(super) fn lambda(&self, lambda: Lambda, l1_ratio: f64) -> f64 {
        match lambda {
            Lambda::Value(value) => value,
            // Where no column is correlated with the target, any penalty will do.
            Lambda::Share(share) => (share * self.max_l1() / l1_ratio).max(f64::MIN_POSITIVE),
        }
    }
}
