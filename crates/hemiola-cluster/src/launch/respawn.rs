//! Programs that start their own peers.

use super::{Launcher, Output};
use crate::environment::ProcessEnvironment;
use crate::error::{Error, Result};
use crate::rank_assignment::RankAssignment;
use hemiola_core::ErrorKind;
use std::process::ExitCode;

/// Starts this program, with the same arguments, as `peers` local peers and supervises them.
///
/// In the process that a user started, it returns when all peers have ended, with the exit code to
/// end with: that of the [`JobOutcome`](super::JobOutcome), or 3 if the job succeeded but output of
/// the peers was lost, for instance because of a full disk. In a peer, started by any launcher, it
/// returns `None` at once, and the program continues. Call it before anything else.
///
/// ```no_run
/// # // Not run: it would start the test program again.
/// use std::process::ExitCode;
/// fn main() -> hemiola_cluster::Result<ExitCode> {
///     if let Some(code) = hemiola_cluster::launch::respawn(4)? {
///         return Ok(code);
///     }
///     hemiola_cluster::run(|cluster| cluster.barrier())?;
///     Ok(ExitCode::SUCCESS)
/// }
/// ```
pub fn respawn(peers: usize) -> Result<Option<ExitCode>> {
    respawn_with(|launcher| launcher.peers(peers))
}

/// Respawns like [`respawn`], with a launcher that `configure` derives from the default one.
pub fn respawn_with(configure: impl FnOnce(Launcher) -> Launcher) -> Result<Option<ExitCode>> {
    let assignment = RankAssignment::detect(&ProcessEnvironment).map_err(Error::RankAssignment)?;
    if assignment.is_some() {
        return Ok(None);
    }
    let program = std::env::current_exe()?;
    let arguments = std::env::args_os().skip(1);
    let outcome = configure(Launcher::new(program, arguments)).run(Output::standard(&ProcessEnvironment))?;
    let code = match outcome.code() {
        0 if outcome.output_lost => ErrorKind::External.exit_code(),
        code => code,
    };
    Ok(Some(ExitCode::from(code)))
}
