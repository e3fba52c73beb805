//! A program that starts its own peers.

use super::{Launcher, Output};
use crate::error::{Error, Result};
use crate::placement::Placement;
use crate::variables::ProcessVariables;
use hemiola_core::ErrorKind;
use std::process::ExitCode;

/// Starts this very program, with the same arguments, as `peers` local peers and watches over them.
///
/// In the process that a person started, it returns when all peers have ended, with the exit code to end with: that of the
/// [`Outcome`](super::Outcome), or 3 if all went well but lines of the peers were lost, because of a full disk, say. In a
/// peer (whoever started it), it returns `None` at once, and the program goes on. Call it before anything else.
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

/// The same with a launcher as `arrange` makes it of one that starts this program with the same arguments.
pub fn respawn_with(arrange: impl FnOnce(Launcher) -> Launcher) -> Result<Option<ExitCode>> {
    let placement = Placement::detect(&ProcessVariables).map_err(Error::Placement)?;
    if placement.is_some() {
        return Ok(None);
    }
    let program = std::env::current_exe()?;
    let arguments = std::env::args_os().skip(1);
    let outcome = arrange(Launcher::new(program, arguments)).run(Output::standard(&ProcessVariables))?;
    let code = match outcome.code() {
        0 if outcome.output_lost => ErrorKind::World.exit_code(),
        code => code,
    };
    Ok(Some(ExitCode::from(code)))
}
