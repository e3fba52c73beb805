//! Preparation of LIBSVM text: weights of terms and scales of features.
//!
//! The rows are in memory already, sparse and distributed by rows. Values are changed in place:
//! zeros stay zeros, so no entry is added. **Invariant:** statistics are exact sums and counts over
//! the training rows, and norms of rows are sums in the order of their columns; the result has the
//! same bits on any number of peers.

use super::exact_moments::ExactMoments;
use super::fitted::{Preparation, SparseStatistics, inverse_document_frequency};
use super::options::{FeatureScaling, PreparationOptions};
use crate::Error;
use hemiola_array::DistArray;
use hemiola_array::dist::Storage;
use hemiola_array::sparse::SparseBlock;
use hemiola_cluster::{Cluster, Result};

/// *Collective.* Fits a preparation to the training rows, and prepares all rows in place.
pub(crate) fn fit_sparse(
    cluster: &Cluster,
    options: &PreparationOptions,
    features: &mut DistArray<f32, 2>,
    rows: usize,
    is_training: impl Fn(usize) -> bool,
) -> Result<Preparation> {
    let columns = features.shape().extent(1);
    let count = (0..rows).filter(|row| is_training(*row)).count() as u64;
    let mut statistics = SparseStatistics::default();
    if options.weighting.tfidf {
        statistics.frequencies = document_frequencies(cluster, features, columns, &is_training)?;
    }
    weight_terms(cluster, options, &statistics.frequencies, count, features)?;
    if options.scale != FeatureScaling::None {
        statistics.scales = scales(cluster, options.scale, features, count, &is_training)?;
        divide(features, &statistics.scales);
    }
    Ok(Preparation::new(options, count, Vec::new(), Some(statistics)))
}

/// *Collective.* Prepares rows in place by the statistics of a training set.
pub(crate) fn apply_sparse(
    cluster: &Cluster,
    preparation: &Preparation,
    features: &mut DistArray<f32, 2>,
) -> Result<()> {
    let Some(statistics) = &preparation.sparse else { return Ok(()) };
    weight_terms(cluster, &preparation.options, &statistics.frequencies, preparation.rows, features)?;
    divide(features, &statistics.scales);
    Ok(())
}

/// *Collective.* Returns the number of training rows with each feature.
fn document_frequencies(
    cluster: &Cluster,
    features: &DistArray<f32, 2>,
    columns: usize,
    is_training: &impl Fn(usize) -> bool,
) -> Result<Vec<u64>> {
    let mut counts = vec![0_u64; columns];
    features.for_each(|[row, column], value| counts[column] += u64::from(*value != 0.0 && is_training(row)));
    merged(cluster, counts, |count, more| *count += more)
}

/// *Collective.* Merges a vector of all peers, element by element.
fn merged<T: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + Sync + 'static>(
    cluster: &Cluster,
    mine: Vec<T>,
    add: impl Fn(&mut T, T),
) -> Result<Vec<T>> {
    let mut all = cluster.all_gather(mine)?.into_iter();
    let mut sums = all.next().unwrap_or_default();
    for of_peer in all {
        for (sum, more) in sums.iter_mut().zip(of_peer) {
            add(sum, more);
        }
    }
    Ok(sums)
}

/// *Collective.* Replaces counts by their weights.
fn weight_terms(
    cluster: &Cluster,
    options: &PreparationOptions,
    frequencies: &[u64],
    documents: u64,
    features: &mut DistArray<f32, 2>,
) -> Result<()> {
    let weighting = options.weighting;
    if !weighting.is_active() {
        return Ok(());
    }
    let inverse: Vec<f64> = frequencies.iter().map(|of| inverse_document_frequency(documents, *of)).collect();
    let mut negative = None;
    if let Storage::Sparse(blocks) = features.storage_mut() {
        for block in blocks {
            let rows = block.shape().extent(0);
            let mut squares = vec![0.0_f64; if weighting.tfidf { rows } else { 0 }];
            let weight = |[_, column]: [usize; 2], value: f32| {
                let local = if value == 0.0 { 0.0 } else { weighting.local(f64::from(value)) };
                if weighting.tfidf { local * inverse.get(column).copied().unwrap_or(0.0) } else { local }
            };
            for (key, value) in block.iter() {
                if *value < 0.0 {
                    negative = negative.or(Some((key[0], key[1])));
                }
                if weighting.tfidf {
                    squares[key[0]] += weight(key, *value).powi(2);
                }
            }
            let norm =
                |row: usize| squares.get(row).map_or(1.0, |square| if *square > 0.0 { square.sqrt() } else { 1.0 });
            replace(block, |key, value| (weight(key, value) / norm(key[0])) as f32);
        }
    }
    let found = cluster.all_gather(negative)?.into_iter().flatten().min();
    match found {
        Some((row, column)) => Err(Error::NegativeCount { row: row + 1, column: column + 1 }.into()),
        None => Ok(()),
    }
}

/// Replaces every value of a block by a function of its key and value.
fn replace(block: &mut SparseBlock<f32, 2>, new: impl Fn([usize; 2], f32) -> f32) {
    for position in 0..block.len() {
        let value = new(block.key(position), block.values()[position]);
        block.values_mut()[position] = value;
    }
}

/// *Collective.* Returns the divisor of each feature.
fn scales(
    cluster: &Cluster,
    scaling: FeatureScaling,
    features: &DistArray<f32, 2>,
    rows: u64,
    is_training: &impl Fn(usize) -> bool,
) -> Result<Vec<f64>> {
    let columns = features.shape().extent(1);
    let positive = |scale: f64| if scale > 0.0 && scale.is_finite() { scale } else { 1.0 };
    if scaling == FeatureScaling::Standard {
        crate::memory::ensure_available(512 * columns as u128, || format!("the statistics of {columns} features"))?;
        // Moments, extremes and number of nonzero values.
        let mut sums = vec![(ExactMoments::default(), f32::INFINITY, f32::NEG_INFINITY, 0_u64); columns];
        features.for_each(|[row, column], value| {
            if is_training(row) {
                let (moments, least, most, count) = &mut sums[column];
                moments.add(*value);
                (*least, *most, *count) = (least.min(*value), most.max(*value), *count + 1);
            }
        });
        let sums = merged(cluster, sums, |sum, more| {
            sum.0.merge(&more.0);
            (sum.1, sum.2, sum.3) = (sum.1.min(more.1), sum.2.max(more.2), sum.3 + more.3);
        })?;
        let scale = |(moments, least, most, count): &(ExactMoments, f32, f32, u64)| {
            let constant = *count == rows && least.total_cmp(most).is_eq();
            if constant { 1.0 } else { positive(moments.mean_and_variance(rows.max(1), 0, 0.0).1.sqrt()) }
        };
        return Ok(sums.iter().map(scale).collect());
    }
    let mut largest = vec![0.0_f32; columns];
    features.for_each(|[row, column], value| {
        if is_training(row) {
            largest[column] = largest[column].max(value.abs());
        }
    });
    let largest = merged(cluster, largest, |most, more| *most = most.max(more))?;
    Ok(largest.into_iter().map(|most| positive(f64::from(most))).collect())
}

/// Divides every value by the scale of its feature. Unknown features stay as they are.
fn divide(features: &mut DistArray<f32, 2>, scales: &[f64]) {
    if let (Storage::Sparse(blocks), false) = (features.storage_mut(), scales.is_empty()) {
        for block in blocks {
            replace(block, |[_, column], value| {
                scales.get(column).map_or(value, |scale| (f64::from(value) / scale) as f32)
            });
        }
    }
}
