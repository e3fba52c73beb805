//! Execution of a program on one peer, from its first line to its end.

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::worker_pool::panic_message;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs a program on the cluster that the environment describes: one peer with one worker per core,
/// unless a launcher (`hemiola run`, torchrun, Open MPI, Slurm, Kubernetes) or a `HEMIOLA_*`
/// variable says otherwise.
///
/// Every peer runs the same `program`. When it returns, the peer waits until the others have ended
/// too. When it fails or panics on one peer, the others end with an error that names that peer.
///
/// ```
/// hemiola_cluster::run(|cluster| {
///     cluster.println(format_args!("{} peers with {} workers", cluster.size(), cluster.workers()));
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub fn run<T>(program: impl FnOnce(&Cluster) -> Result<T>) -> Result<T> {
    Cluster::builder().from_environment()?.run(program)
}

/// Runs `program` on `cluster` and leaves the cluster in any case.
pub(crate) fn run_on<T, E>(cluster: &Cluster, program: impl FnOnce(&Cluster) -> Result<T, E>) -> Result<T, E>
where
    E: From<Error> + Display,
{
    // Unwind safety: after a panic the cluster is only closed.
    match catch_unwind(AssertUnwindSafe(|| program(cluster))) {
        Ok(Ok(value)) => {
            cluster.leave()?;
            Ok(value)
        }
        Ok(Err(error)) => {
            cluster.fail(&error.to_string());
            Err(error)
        }
        Err(panic) => {
            cluster.fail(&format!("it panicked: {}", panic_message(&*panic)));
            resume_unwind(panic)
        }
    }
}
