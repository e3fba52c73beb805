//! Agreement on errors: a failure on one peer becomes the identical error on every peer.
//!
//! The name follows `MPI_Comm_agree`.

use crate::Result;
use hemiola_cluster::Cluster;

/// *Collective.* Returns each peer's own value if all peers have one. Otherwise every peer returns
/// the error of the lowest rank that has one.
pub(crate) fn agree<T>(cluster: &Cluster, local: Result<T>) -> hemiola_cluster::Result<T> {
    let (value, error) = match local {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    };
    agree_on_error(cluster, error)?;
    Ok(value.expect("a peer without a value sent its error"))
}

/// *Collective.* Returns the error of the lowest rank that has one.
fn agree_on_error(cluster: &Cluster, error: Option<crate::Error>) -> hemiola_cluster::Result<()> {
    let first = cluster.all_gather(error)?.into_iter().flatten().next();
    first.map_or(Ok(()), |error| Err(error.into()))
}

impl From<crate::Error> for hemiola_cluster::Error {
    fn from(error: crate::Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}
