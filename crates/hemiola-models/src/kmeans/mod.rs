//! K-means: clusters of rows around their means.
//!
//! ```text
//! objective = Σ_rows min_j |x - c_j|²        the inertia of scikit-learn
//! ```
//!
//! **First centers** are rows, drawn by greedy k-means++ (Arthur and Vassilvitskii 2007): each further
//! center is a row drawn with a chance proportional to its squared distance from the nearest one so
//! far, the best of `2 + ln k` draws.
//!
//! **Optimization.** Lloyd's algorithm (1982): an epoch moves every center to the mean of its rows,
//! and assigns all rows anew. The objective never increases; training has converged when the centers
//! stop moving. With [`batch_size`](KMeansBuilder::batch_size), mini-batches move the centers
//! (Sculley 2010): an epoch visits every row once, in random order, and the step of a center is
//! divided by the number of rows it has had; this suits many rows, and the objective of an epoch is
//! then that of the rows at their visit. A cluster that has lost all its rows gets the row that is
//! farthest from its center. The result is a local minimum that depends on the seed.
//!
//! **Parallel execution.** Rows are distributed over peers in fixed blocks, and sums over rows are
//! taken in the order of one fixed tree over the blocks. **The model has the same bits on any number
//! of peers and workers.** Each pass, or mini-batch, exchanges one number per cluster and column.
//!
//! ```
//! use hemiola::prelude::*;
//! use hemiola_models::prelude::*;
//!
//! hemiola::standalone(2).workers(1).run(|cluster| {
//!     // Three groups, around (0, 0), (10, 10) and (20, 20).
//!     let value = |[row, column]: [usize; 2]| (10 * (row % 3)) as f32 + ((row + column) % 5) as f32 / 5.0;
//!     let rows = cluster.from_fn([60, 2], value)?;
//!     let model = KMeans::builder(3).build()?.fit(cluster, &rows)?.model;
//!     let clusters = model.predict(cluster, &rows)?;
//!     assert!((3..60).all(|row| clusters[row].cluster == clusters[row % 3].cluster));
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `clusters` | | number of clusters, at most the number of rows |
//! | `batch_size` | 0 | rows per mini-batch; 0 for Lloyd's algorithm |
//! | `tolerance` | 1e-6 | relative movement of the centers at which training stops |
//! | `validation` | 0 | fraction held out for the inertia of rows not trained on |
//!
//! Columns should be of similar scale, since distances add their squares.
//!
//! | file | concept |
//! |---|---|
//! | `settings` | settings and their builder |
//! | `centers` | centers, and the nearest one of a row |
//! | `seeding` | k-means++ |
//! | `assignment` | sums of the rows of each cluster; rows for empty clusters |
//! | `train` | epochs |
//! | `model` | the trained model: prediction and saving |

mod assignment;
mod centers;
mod model;
mod seeding;
mod settings;
mod train;

use crate::input::InputSchema;
pub use model::{KMeansModel, KMeansPrediction};
pub use settings::{KMeansBuilder, KMeansSettings};

/// K-means estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct KMeans {
    settings: KMeansSettings,
    input: Option<InputSchema>,
    /// First centers, row by row, if they are given.
    centers: Option<Vec<f64>>,
}

impl KMeans {
    /// Returns a builder with default settings.
    pub fn builder(clusters: u32) -> KMeansBuilder {
        KMeansBuilder::new(clusters)
    }

    /// Sets the layout of the files that the data are read from. The model keeps it, so that new
    /// files are read alike.
    #[must_use]
    pub fn with_input(mut self, schema: Option<InputSchema>) -> Self {
        self.input = schema;
        self
    }

    /// Sets the first centers, one row of features after another. Without them, they are drawn by
    /// k-means++ (in parallel, as k-means||).
    #[must_use]
    pub fn with_centers(mut self, centers: Vec<f64>) -> Self {
        self.centers = Some(centers);
        self
    }
}
