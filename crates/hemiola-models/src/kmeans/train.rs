//! Epochs of k-means: Lloyd's algorithm, or mini-batches.
//!
//! Lloyd's algorithm keeps the sums of the rows assigned to the current centers: they are a function
//! of the centers, so a resumed run computes them anew and goes on with the same bits.

use super::KMeans;
use super::assignment::ClusterSums;
use super::centers::ClusterCenters;
use super::model::KMeansModel;
use super::seeding::first_centers;
use super::settings::KMeansSettings;
use crate::examples::{BlockedRows, FitRows, ValidationDraw, each_block, shuffled_rows};
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, EpochResult, Fit, FitOptions, Metrics, TargetMetric, TrainingAlgorithm, TrainingSpec,
    check_same_settings, digest, fit_loop,
};
use crate::{Error, Estimator};
use hemiola_array::DistArray;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::mix64;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl Estimator for KMeans {
    type Data = DistArray<f32, 2>;
    type Settings = KMeansSettings;
    type Model = KMeansModel;

    fn settings(&self) -> &KMeansSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        features: &DistArray<f32, 2>,
        validation: Option<&DistArray<f32, 2>>,
        options: FitOptions<'_>,
    ) -> Result<Fit<KMeansModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, KMeansModel::KIND, settings)?;
        let draw = ValidationDraw::new(settings.seed, settings.validation, validation.is_some());
        let (columns, clusters) = (features.shape().extent(1).max(1), settings.clusters as usize);
        // Centers, and sums of each worker on the way up the tree.
        ensure_available((8 * (4 + 8 * cluster.workers()) * clusters) as u128 * columns as u128, || {
            format!("{clusters} clusters of {columns} features")
        })?;
        let rows = draw.distribute(cluster, (features, None), validation.map(|features| (features, None)))?;
        let FitRows { train, validation: validation_rows, data } = rows;
        if train.examples < clusters {
            return Err(Error::TooManyClusters { clusters, rows: train.examples }.into());
        }
        let centers = if options.checkpoints.as_ref().is_some_and(crate::training::Checkpoints::resumes) {
            // Those of the checkpoint replace them.
            vec![0.0; clusters * columns]
        } else if let Some(centers) = &self.centers {
            let expected = "one row of features for each cluster";
            if centers.len() != clusters * columns {
                let found = format!("{} numbers", centers.len());
                return Err(Error::InvalidSetting { setting: "centers", found, expected }.into());
            }
            centers.clone()
        } else {
            let _scope = cluster.stop_request().accept();
            first_centers(cluster, &train, [clusters, columns], settings.seed)?
        };
        let model = KMeansModel {
            settings: settings.clone(),
            input: self.input.clone(),
            columns,
            centers: Arc::new(centers),
            visits: Arc::new(vec![0.0; clusters]),
        };
        let spec = TrainingSpec {
            model: KMeansModel::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            metric: TargetMetric::minimize("inertia"),
            data,
        };
        let training = KMeansTraining {
            cluster,
            settings,
            features,
            validation,
            rows: train,
            validation_rows,
            model,
            sums: None,
            progress: KMeansProgress { epoch: 0, movement: None },
        };
        fit_loop(cluster, training, spec, options)
    }
}

struct KMeansTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a KMeansSettings,
    features: &'a DistArray<f32, 2>,
    validation: Option<&'a DistArray<f32, 2>>,
    rows: BlockedRows,
    validation_rows: BlockedRows,
    model: KMeansModel,
    /// Sums of the rows assigned to the current centers, if they are known.
    sums: Option<ClusterSums>,
    progress: KMeansProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct KMeansProgress {
    epoch: u32,
    /// Movement of the centers in the last epoch, relative to their norm; of Lloyd's algorithm.
    movement: Option<f64>,
}

impl TrainingAlgorithm for KMeansTraining<'_> {
    type Model = KMeansModel;
    type State = KMeansProgress;

    fn model(&self) -> &KMeansModel {
        &self.model
    }

    fn state(&self) -> KMeansProgress {
        self.progress
    }

    fn resume(&mut self, model: KMeansModel, progress: KMeansProgress) {
        // The limits may have changed since the checkpoint.
        self.model = KMeansModel { settings: self.settings.clone(), ..model };
        self.progress = progress;
        self.sums = None;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        let inertia = if self.settings.batch_size == 0 { self.lloyd()? } else { self.mini_batches()? };
        if !inertia.is_finite() {
            return Err(Error::NonFiniteObjective.into());
        }
        self.progress.epoch += 1;
        let duration = self.cluster.env().now() - start;
        let count = self.rows.examples;
        let distance = (inertia / count as f64).sqrt();
        let mut train: Metrics = [("inertia".to_owned(), inertia), ("distance".to_owned(), distance)].into();
        train.extend(self.progress.movement.map(|movement| ("movement".to_owned(), movement)));
        Ok(EpochResult::new(inertia, train, duration, count as u64))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        if self.validation_rows.examples == 0 {
            return Ok(None);
        }
        Ok(Some(self.model.metrics(self.cluster, &self.validation_rows)?))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        Ok([digest(self.features)?, self.validation.map_or(Ok(0), digest)?])
    }

    fn finished(&self) -> Option<&'static str> {
        self.progress.movement.filter(|movement| *movement <= self.settings.tolerance).map(|_| "converged")
    }

    /// The order of all sums is that of the blocks.
    fn same_bits(&self, _before: &ClusterInfo, _now: &ClusterInfo) -> bool {
        true
    }

    fn explanation(&self) -> Option<String> {
        let (clusters, columns) = (self.model.clusters(), self.model.columns);
        let step = match self.settings.batch_size {
            0 => "each epoch".to_owned(),
            rows => format!("each mini-batch of about {rows} rows"),
        };
        Some(format!(
            "{} blocks of rows on {} peers, summed in the order of one tree; in {step} a peer sends {} numbers",
            self.rows.total_blocks(),
            self.cluster.size(),
            clusters * (columns + 1)
        ))
    }
}

impl KMeansTraining<'_> {
    fn shape(&self) -> [usize; 2] {
        [self.model.clusters(), self.model.columns]
    }

    /// *Collective.* Assigns all rows to the current centers.
    fn assign(&self) -> Result<ClusterSums> {
        let centers = ClusterCenters::new(&self.model.centers, self.model.columns);
        let all = |index: usize| 0..self.rows.blocks[index].len();
        ClusterSums::of(self.cluster, &self.rows, &centers, self.shape(), all)
    }

    /// *Collective.* Moves centers to the means of their rows and assigns all rows anew; returns the
    /// inertia.
    fn lloyd(&mut self) -> Result<f64> {
        let [clusters, columns] = self.shape();
        let mut sums = match self.sums.take() {
            Some(sums) => sums,
            None => self.assign()?,
        };
        let before = ClusterCenters::new(&self.model.centers, columns);
        sums.fill_empty(self.cluster, &self.rows, &before, columns)?;
        let mut moved = Vec::clone(&self.model.centers);
        let (mut movement, mut norm) = (0.0, 0.0);
        for cluster in (0..clusters).filter(|cluster| sums.counts[*cluster] > 0.0) {
            let own = cluster * columns..(cluster + 1) * columns;
            for (center, sum) in moved[own.clone()].iter_mut().zip(&sums.rows[own]) {
                let mean = sum / sums.counts[cluster];
                movement += (mean - *center).powi(2);
                norm += mean * mean;
                *center = mean;
            }
        }
        self.model.centers = Arc::new(moved);
        self.progress.movement =
            Some(if movement > 0.0 { (movement / norm.max(f64::MIN_POSITIVE)).sqrt() } else { 0.0 });
        Ok(self.sums.insert(self.assign()?).inertia)
    }

    /// *Collective.* Visits all rows in random mini-batches; returns the inertia of the rows at their
    /// visit.
    fn mini_batches(&mut self) -> Result<f64> {
        let [clusters, columns] = self.shape();
        let batches = self.rows.examples.div_ceil(self.settings.batch_size as usize);
        let seed = mix64(self.settings.seed ^ (u64::from(self.progress.epoch) << 32));
        let first = self.rows.own_blocks().start;
        let order: Vec<Vec<u32>> = each_block(self.cluster, &self.rows.blocks, |index| {
            shuffled_rows(self.rows.blocks[index].len(), seed.wrapping_add((first + index) as u64), 0)
        })?;
        let mut visited = vec![0.0; clusters];
        let mut inertia = 0.0;
        for batch in 0..batches {
            let centers = ClusterCenters::new(&self.model.centers, columns);
            // Each block gives its share of the batch.
            let select = |index: usize| {
                let order = &order[index];
                let share = |batch: usize| batch * order.len() / batches;
                order[share(batch)..share(batch + 1)].iter().map(|row| *row as usize)
            };
            let sums = ClusterSums::of(self.cluster, &self.rows, &centers, self.shape(), select)?;
            let (moved, visits) = (Arc::make_mut(&mut self.model.centers), Arc::make_mut(&mut self.model.visits));
            for cluster in (0..clusters).filter(|cluster| sums.counts[*cluster] > 0.0) {
                visited[cluster] += sums.counts[cluster];
                visits[cluster] += sums.counts[cluster];
                let own = cluster * columns..(cluster + 1) * columns;
                for (center, sum) in moved[own.clone()].iter_mut().zip(&sums.rows[own]) {
                    *center += (sum - sums.counts[cluster] * *center) / visits[cluster];
                }
            }
            inertia += sums.inertia;
        }
        self.refill(&visited)?;
        Ok(inertia)
    }

    /// *Collective.* Gives each cluster without a row in the epoch the row farthest from its center.
    fn refill(&mut self, visited: &[f64]) -> Result<()> {
        let columns = self.model.columns;
        let lost: Vec<usize> = (0..visited.len()).filter(|cluster| visited[*cluster] == 0.0).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let mut sums = self.assign()?;
        for cluster in &lost {
            // Without any row of its own, the sums are those of the row that it gets.
            sums.counts[*cluster] = 0.0;
            sums.rows[cluster * columns..(cluster + 1) * columns].fill(0.0);
        }
        let centers = ClusterCenters::new(&self.model.centers, columns);
        sums.fill_empty(self.cluster, &self.rows, &centers, columns)?;
        let (moved, visits) = (Arc::make_mut(&mut self.model.centers), Arc::make_mut(&mut self.model.visits));
        for cluster in lost.into_iter().filter(|cluster| sums.counts[*cluster] > 0.0) {
            let own = cluster * columns..(cluster + 1) * columns;
            moved[own.clone()].copy_from_slice(&sums.rows[own]);
            visits[cluster] = 1.0;
        }
        Ok(())
    }
}
