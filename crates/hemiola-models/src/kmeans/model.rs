//! Trained k-means: prediction, evaluation and saving.

use super::centers::ClusterCenters;
use super::settings::KMeansSettings;
use crate::estimator::required;
use crate::examples::{BlockedRows, ExampleEvaluation, row_values};
use crate::input::InputSchema;
use crate::linear::count_beyond;
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::sync::Arc;

/// Trained k-means, replicated on all peers.
#[derive(Clone, Debug)]
pub struct KMeansModel {
    /// Settings of the training.
    pub settings: KMeansSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    pub(super) columns: usize,
    /// Coordinates of the centers, cluster by cluster.
    pub(super) centers: Arc<Vec<f64>>,
    /// Number of training rows that have moved each center; of mini-batch k-means.
    pub(super) visits: Arc<Vec<f64>>,
}

/// Cluster of one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KMeansPrediction {
    /// Number of the cluster, counted from 0.
    pub cluster: u32,
    /// Distance from its center.
    pub distance: f64,
}

impl KMeansModel {
    /// Kind of the model in saves and reports.
    pub const KIND: &'static str = "kmeans";

    /// Returns the number of clusters.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.centers.len() / self.columns
    }

    /// Returns the number of features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the center of a cluster.
    ///
    /// # Panics
    /// If the model has no such cluster.
    #[must_use]
    pub fn center(&self, cluster: usize) -> &[f64] {
        &self.centers[cluster * self.columns..][..self.columns]
    }

    /// *Collective.* Returns the number of feature values unknown to the model, which predictions
    /// drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.columns)
    }

    /// *Collective.* Evaluates the model on rows: `inertia`, the sum of their squared distances, and
    /// `distance`, the root of its mean.
    pub fn evaluate(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<ExampleEvaluation> {
        let rows = features.shape().extent(0);
        let split = BlockedRows::distribute(cluster, features, None, rows, self.columns, |_| false)?;
        if split.train.examples == 0 {
            return Err(Error::NoExamples.into());
        }
        let metrics = self.metrics(cluster, &split.train)?;
        let (examples, unknown_features) = (split.train.examples as u64, split.dropped);
        Ok(ExampleEvaluation { metrics, examples, unknown_features, confusion: None })
    }

    pub(super) fn metrics(&self, cluster: &Cluster, rows: &BlockedRows) -> Result<Metrics> {
        let shape = [self.clusters(), self.columns];
        let centers = ClusterCenters::new(&self.centers, self.columns);
        let all = |index: usize| 0..rows.blocks[index].len();
        let inertia = super::assignment::ClusterSums::of(cluster, rows, &centers, shape, all)?.inertia;
        let distance = (inertia / rows.examples as f64).sqrt();
        Ok([("inertia".to_owned(), inertia), ("distance".to_owned(), distance)].into())
    }
}

impl Predictor for KMeansModel {
    type Input = DistArray<f32, 2>;
    type Prediction = KMeansPrediction;
    const KINDS: &'static [&'static str] = &[Self::KIND];

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    /// *Collective.* Returns the cluster of each row, equal on every peer. Unknown feature values
    /// are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<KMeansPrediction>> {
        let centers = ClusterCenters::new(&self.centers, self.columns);
        let found = row_values(cluster, features, self.columns, 2, |block, row, found| {
            let nearest = centers.nearest(block, row, &mut Vec::new());
            found.copy_from_slice(&[nearest.cluster as f64, nearest.square.sqrt()]);
        })?;
        let predict = |found: &[f64; 2]| KMeansPrediction { cluster: found[0] as u32, distance: found[1] };
        Ok(found.as_chunks::<2>().0.iter().map(predict).collect())
    }
}

impl Checkpointable for KMeansModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { settings, input, columns, centers, visits } = self;
        save.put_values(&format!("{prefix}centers"), [self.clusters(), *columns], centers)?;
        save.put_values(&format!("{prefix}visits"), [visits.len()], visits)?;
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let centers = load.values::<f64, 2>(&format!("{prefix}centers"))?;
        let visits = load.values::<f64, 1>(&format!("{prefix}visits"))?;
        let [clusters, columns] = centers.extents;
        let settings: KMeansSettings = required(load, "settings")?;
        if clusters != settings.clusters as usize || columns == 0 || visits.extents != [clusters] {
            let problem = format!("it has {clusters} centers of {columns} columns, not {}", settings.clusters);
            return Err(Error::InvalidSave { problem }.into());
        }
        Ok(Self {
            settings,
            input: InputSchema::get(load)?,
            columns,
            centers: Arc::new(centers.values),
            visits: Arc::new(visits.values),
        })
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        ((self.centers.len() + self.visits.len()) * size_of::<f64>()) as u64
    }
}
