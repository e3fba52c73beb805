//! Our own variables: `HEMIOLA_RANK` says that they are meant, the size and the meeting place must then be there too.

use super::lookup::Lookup;
use super::{Answer, Origin, PlacementError};
use crate::variables::{LOCAL_RANK, RANK, RENDEZVOUS, SIZE};

pub(super) fn detect(lookup: &Lookup<'_>) -> Result<Option<Answer>, PlacementError> {
    let Some(rank) = lookup.number(RANK)? else { return Ok(None) };
    let size = lookup.required_number(SIZE, RANK, "set it to the number of peers, or unset both for a single peer")?;
    Ok(Some(Answer {
        rank: (RANK.name, rank),
        size: (SIZE.name, size),
        local_rank: lookup.number(LOCAL_RANK)?,
        // If it were set, this would not be asked.
        rendezvous: Err(lookup.missing(
            RENDEZVOUS,
            RANK,
            "set it to `host:port` or `file:/path`, the same on all peers",
        )),
        job: None,
        origin: Origin::Hemiola,
    }))
}
