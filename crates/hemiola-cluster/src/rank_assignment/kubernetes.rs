//! Kubernetes indexed jobs.
//!
//! The completion index is the rank. A pod does not know the number of completions, so the manifest
//! must set `HEMIOLA_SIZE`. Pod names are `<job>-<index>`, from which the root's name follows.

use super::lookup::VariableLookup;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError};
use crate::environment::{HOSTNAME, JOB_COMPLETION_INDEX, SIZE, TORCH_WORLD_SIZE};
use hemiola_net::Rendezvous;

/// Port at which the root listens unless `HEMIOLA_RENDEZVOUS` is set.
const PORT: u16 = 29_400;

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(rank) = lookup.number(JOB_COMPLETION_INDEX)? else { return Ok(None) };
    let size = match (lookup.number(SIZE)?, lookup.number(TORCH_WORLD_SIZE)?) {
        (Some(size), _) => (SIZE.name, size),
        (None, Some(size)) => (TORCH_WORLD_SIZE.name, size),
        (None, None) => {
            return Err(lookup.missing(
                SIZE,
                JOB_COMPLETION_INDEX,
                "set it to the job's completions; for independent pods set `HEMIOLA_RANK=0` and `HEMIOLA_SIZE=1`",
            ));
        }
    };
    let job = lookup.text(HOSTNAME).and_then(|name| Some(name.strip_suffix(&format!("-{rank}"))?.to_owned()));
    let rendezvous = match &job {
        Some(job) => Ok(Rendezvous::Address(format!("{job}-0:{PORT}"))),
        None => Err(RankAssignmentError::NoRendezvous {
            launcher: LauncherKind::Kubernetes,
            size: size.1,
            situation: "whose `HOSTNAME` is not `<job>-<index>`",
        }),
    };
    Ok(Some(LauncherAssignment {
        rank: (JOB_COMPLETION_INDEX.name, rank),
        size,
        local_rank: None,
        local_size: None,
        cores: None,
        rendezvous,
        job: None, // each submission of a job has the same name
        launcher: LauncherKind::Kubernetes,
    }))
}
