//! Kubernetes indexed jobs.
//!
//! The completion index is the rank. The number of completions is not told to the pod, so the manifest must set
//! `HEMIOLA_SIZE`. Pod names are `<job>-<index>`, from which the root's name follows.

use super::lookup::Lookup;
use super::{Answer, Origin, PlacementError};
use crate::variables::{HOSTNAME, JOB_COMPLETION_INDEX, SIZE, TORCH_WORLD_SIZE};
use hemiola_net::Rendezvous;

/// Where the root listens unless `HEMIOLA_RENDEZVOUS` says otherwise.
const PORT: u16 = 29_400;

pub(super) fn detect(lookup: &Lookup<'_>) -> Result<Option<Answer>, PlacementError> {
    let Some(rank) = lookup.number(JOB_COMPLETION_INDEX)? else { return Ok(None) };
    let size = match (lookup.number(SIZE)?, lookup.number(TORCH_WORLD_SIZE)?) {
        (Some(size), _) => (SIZE.name, size),
        (None, Some(size)) => (TORCH_WORLD_SIZE.name, size),
        (None, None) => {
            return Err(lookup.missing(
                SIZE,
                JOB_COMPLETION_INDEX,
                "set it to the job's completions; for pods that work alone set `HEMIOLA_RANK=0` and `HEMIOLA_SIZE=1`",
            ));
        }
    };
    let job = lookup.text(HOSTNAME).and_then(|name| Some(name.strip_suffix(&format!("-{rank}"))?.to_owned()));
    let rendezvous = match &job {
        Some(job) => Ok(Rendezvous::Address(format!("{job}-0:{PORT}"))),
        None => Err(PlacementError::NoRendezvous {
            launcher: Origin::Kubernetes,
            size: size.1,
            where_they_are: "whose `HOSTNAME` is not `<job>-<index>`",
        }),
    };
    Ok(Some(Answer {
        rank: (JOB_COMPLETION_INDEX.name, rank),
        size,
        local_rank: None,
        rendezvous,
        job: None, // the name of a job returns each time it is submitted
        origin: Origin::Kubernetes,
    }))
}
