//! Open MPI's `mpirun`, versions 4 and 5.
//!
//! It assigns ranks but gives no address. On one host the rendezvous is a file in a folder
//! that only the user can enter. The name of the file is equal for all processes of one `mpirun`
//! and unique among all runs. Version 4.1 sets `PMIX_NAMESPACE` and `OMPI_MCA_ess_base_jobid` to
//! the same number, derived from the host and the process id of `mpirun`, which recur over time,
//! and a random `OMPI_MCA_orte_precondition_transports`, which does not. Version 5 has only the
//! namespace, which contains host and process id. With several hosts the user must set the
//! rendezvous.

use super::lookup::VariableLookup;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError, private_folder};
use crate::environment::{
    OMPI_JOB_ID, OMPI_LOCAL_RANK, OMPI_LOCAL_SIZE, OMPI_NAMESPACE, OMPI_RANK, OMPI_SIZE, OMPI_TRANSPORT_KEY, TMPDIR,
};
use hemiola_core::JobId;
use hemiola_net::Rendezvous;
use std::path::{Path, PathBuf};

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(rank) = lookup.number(OMPI_RANK)? else { return Ok(None) };
    let size = lookup.required_number(
        OMPI_SIZE,
        OMPI_RANK,
        "start the program with mpirun, or unset the rank to run as a single peer",
    )?;
    let local_size = lookup.number(OMPI_LOCAL_SIZE)?;
    let key = key(*lookup);
    let rendezvous = match &key {
        Some(key) if local_size == Some(size) => Ok(Rendezvous::File(folder(*lookup).join(key))),
        _ => Err(RankAssignmentError::NoRendezvous {
            launcher: LauncherKind::OpenMpi,
            size,
            situation: if local_size == Some(size) { "on one host" } else { "on several hosts" },
        }),
    };
    Ok(Some(LauncherAssignment {
        rank: (OMPI_RANK.name, rank),
        size: (OMPI_SIZE.name, size),
        local_rank: lookup.number(OMPI_LOCAL_RANK)?,
        local_size,
        cores: None,
        rendezvous,
        job: key,
        launcher: LauncherKind::OpenMpi,
    }))
}

/// Returns an identifier of this `mpirun` that is a valid file name.
fn key(lookup: VariableLookup<'_>) -> Option<String> {
    let name = lookup.text(OMPI_NAMESPACE).or_else(|| lookup.text(OMPI_JOB_ID))?;
    // Hashed, because other users may see the name, and Open MPI uses the number as a key.
    let random = lookup.text(OMPI_TRANSPORT_KEY).map(|random| format!("-{}", JobId::from_name(&random)));
    let random = random.unwrap_or_default();
    let fit = |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    Some(format!("mpirun-{name}{random}").chars().map(fit).collect())
}

/// Returns the user's folder for rendezvous files. [`prepare`](super::prepare) creates it and
/// checks that it is private.
fn folder(lookup: VariableLookup<'_>) -> PathBuf {
    let base = lookup.text(TMPDIR).unwrap_or_else(|| "/tmp".to_owned());
    private_folder::below(Path::new(&base))
}
