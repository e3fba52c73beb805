//! Variables of Hemiola itself: `HEMIOLA_RANK` enables them, and then requires a size and a
//! rendezvous.

use super::lookup::VariableLookup;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError};
use crate::environment::{LOCAL_RANK, RANK, RENDEZVOUS, SIZE};

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(rank) = lookup.number(RANK)? else { return Ok(None) };
    let size = lookup.required_number(SIZE, RANK, "set it to the number of peers, or unset both for a single peer")?;
    Ok(Some(LauncherAssignment {
        rank: (RANK.name, rank),
        size: (SIZE.name, size),
        local_rank: lookup.number(LOCAL_RANK)?,
        local_size: None, // `hemiola run` sets the number of workers itself
        cores: None,
        // Evaluated only if `HEMIOLA_RENDEZVOUS` is not set.
        rendezvous: Err(lookup.missing(
            RENDEZVOUS,
            RANK,
            "set it to `host:port` or `file:/path`, the same on all peers",
        )),
        job: None,
        launcher: LauncherKind::Hemiola,
    }))
}
