//! Execution of a program, with the errors of all layers as [`Error`].

use crate::cluster::Standalone;
use crate::{Cluster, Error, Result};

/// Runs a program on the cluster that the environment describes: one peer with one worker per core,
/// unless a launcher (`hemiola run`, torchrun, Open MPI, Slurm, Kubernetes) or a `HEMIOLA_*`
/// variable says otherwise.
///
/// `?` returns errors of Hemiola and common errors of the standard library from `program`; see
/// [`Error`] for others.
///
/// Every peer runs the same `program`. When it returns, the peer waits until the others have ended
/// too. When it fails or panics on one peer, the others end with an error that names that peer.
///
/// ```
/// hemiola::run(|cluster| {
///     cluster.println(format_args!("{} peers with {} workers", cluster.size(), cluster.workers()));
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
pub fn run<T>(program: impl FnOnce(&Cluster) -> Result<T>) -> Result<T> {
    Cluster::builder().from_environment()?.run(program)
}

/// Creates a cluster of `peers` threads in this process, with one worker each by default.
///
/// A program runs as on real peers and gives the same results. Any number of clusters can live in
/// one process.
///
/// ```
/// let ranks = hemiola::standalone(4).run(|cluster| Ok(cluster.rank().index()))?;
/// assert_eq!(ranks, [0, 1, 2, 3]);
/// # Ok::<(), hemiola::Error>(())
/// ```
pub fn standalone(peers: usize) -> Standalone<Error> {
    Standalone::new(peers)
}
