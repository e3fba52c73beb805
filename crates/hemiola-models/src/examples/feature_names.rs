//! Names of features, for models that list their coefficients.

use hemiola_array::DistArray;
use std::sync::Arc;

/// Returns the names of the first `columns` features, where the data have some. A column without a
/// name has its number, counted from 1.
pub(crate) fn feature_names(features: &DistArray<f32, 2>, columns: usize) -> Option<Arc<Vec<String>>> {
    features.names(1).map(|names| {
        let name = |column: usize| {
            names.name_lossy(column as u32).map_or_else(|| (column + 1).to_string(), std::borrow::Cow::into_owned)
        };
        Arc::new((0..columns).map(name).collect())
    })
}
