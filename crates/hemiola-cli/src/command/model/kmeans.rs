//! `hemiola train kmeans`: clusters of rows.

use super::example_training::{ExampleArgs, ExampleJob, LabelKind, invalid_settings};
use super::progress::MetricColumns;
use super::train_defaults::TrainDefaults;
use clap::Args;
use hemiola_models::kmeans::KMeansModel;
use hemiola_models::{Estimator as _, KMeans};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Eight clusters, and the cluster of each row:
    hemiola train kmeans --data rows.csv --clusters 8 --output model
    hemiola predict --model model --data rows.csv

  A column that is no coordinate, and mini-batches for many rows:
    hemiola train kmeans --data rows.csv --clusters 100 --ignore id --batch-size 4096

A line of data is a row of separated values, all of whose columns are coordinates unless --ignore or --label leaves them out, or features in \
LIBSVM format (`1 3:0.5 7:1`), whose label is ignored. Columns should be of similar scale. docs/guides/cluster-rows.md describes the \
mathematics.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train kmeans`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::KMEANS.complete(argument)))]
pub(crate) struct TrainKMeans {
    /// Number of clusters.
    #[arg(long, short = 'k', visible_aliases = ["n-clusters", "k"], value_name = "N", default_value = "8")]
    clusters: u32,

    /// Rows of each step of mini-batch k-means; 0 for Lloyd's algorithm.
    #[arg(long, value_name = "N", required = false)]
    batch_size: u32,

    /// Stop when the movement of the centers is this fraction of their norm; 0 stops when no center
    /// moves.
    #[arg(long, visible_alias = "tol", value_name = "X", required = false, help_heading = "Stopping")]
    tolerance: f64,

    #[command(flatten)]
    examples: ExampleArgs,
}

impl TrainKMeans {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let clusters = KMeans::builder(self.clusters)
            .batch_size(self.batch_size)
            .seed(self.examples.common.seed)
            .validation(self.examples.drawn_share())
            .tolerance(self.tolerance)
            .limits(self.examples.common.limits())
            .build()
            .map_err(invalid_settings)?;
        let job = ExampleJob {
            kind: KMeansModel::KIND,
            labels: LabelKind::Ignored,
            detect_zero_based: false,
            columns: MetricColumns::new("distance", "rows").converging("movement", self.tolerance),
            limits: &clusters.settings().limits,
            weight: None,
            tuning: None,
            run: &|run| {
                let (cluster, sets) = (run.cluster, run.sets);
                let validation = sets.validation.as_ref().map(|examples| &examples.features);
                let clusters = clusters.clone().with_input(sets.schema.clone());
                run.fit(|options| Ok(clusters.fit_with(cluster, &sets.train.features, validation, options)?.report))
            },
        };
        self.examples.execute(&job, clusters.settings())
    }
}
