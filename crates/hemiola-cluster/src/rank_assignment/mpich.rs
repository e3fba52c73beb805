//! MPICH's `mpiexec` (Hydra), and launchers that set the same variables of the process management
//! interface (PMI): Intel MPI, Cray PALS, Flux.
//!
//! They assign ranks but give neither an address nor a name of the run. On one host the rendezvous
//! is a file in a folder that only the user can enter. Its name comes from the process that started
//! all peers of the host, see [`process_tree`]. With several hosts the user must set the rendezvous.
//!
//! Slurm's `srun` may set `PMI_RANK`, too, and describes its steps better. Within an allocation,
//! `mpiexec` uses `srun` to start one process per host, whose Slurm variables the peers inherit. So
//! in a step of Slurm only peers with `MPI_LOCALNRANKS`, which `srun` never sets, belong to `mpiexec`.

use super::lookup::VariableLookup;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError, private_folder, process_tree};
use crate::environment::{MPICH_LOCAL_RANK, MPICH_LOCAL_SIZE, MPICH_RANK, MPICH_SIZE, SLURM_STEP_ID, TMPDIR};
use hemiola_net::Rendezvous;
use std::path::Path;

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(rank) = lookup.number(MPICH_RANK)? else { return Ok(None) };
    let local_size = lookup.number(MPICH_LOCAL_SIZE)?;
    if local_size.is_none() && lookup.text(SLURM_STEP_ID).is_some() {
        return Ok(None);
    }
    let size = lookup.required_number(
        MPICH_SIZE,
        MPICH_RANK,
        "start the program with mpiexec, or unset the rank to run as a single peer",
    )?;
    let key = process_tree::starter_without(MPICH_RANK.name).map(|starter| format!("mpiexec-{starter}"));
    let rendezvous = match &key {
        Some(key) if local_size == Some(size) => {
            let temporary = lookup.text(TMPDIR).unwrap_or_else(|| "/tmp".to_owned());
            Ok(Rendezvous::File(private_folder::below(Path::new(&temporary)).join(key)))
        }
        _ => Err(RankAssignmentError::NoRendezvous {
            launcher: LauncherKind::Mpich,
            size,
            situation: match local_size {
                Some(local) if local == size => "on one host",
                Some(_) => "on several hosts",
                None => "on hosts that it does not name",
            },
        }),
    };
    Ok(Some(LauncherAssignment {
        rank: (MPICH_RANK.name, rank),
        size: (MPICH_SIZE.name, size),
        local_rank: lookup.number(MPICH_LOCAL_RANK)?,
        local_size,
        cores: None,
        rendezvous,
        // The starter of another host is another process.
        job: key.filter(|_| local_size == Some(size)),
        launcher: LauncherKind::Mpich,
    }))
}
