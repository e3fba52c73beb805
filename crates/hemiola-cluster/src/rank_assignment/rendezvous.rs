//! Rendezvous of a job, as set by environment variables.

use super::lookup::VariableLookup;
use super::{RankAssignmentError, private_folder};
use crate::environment::RENDEZVOUS;
use hemiola_net::{ParseRendezvousError, Rendezvous};

/// Returns the value of `HEMIOLA_RENDEZVOUS`, if it is set.
pub(super) fn given(lookup: &VariableLookup<'_>) -> Result<Option<Rendezvous>, RankAssignmentError> {
    let parse = |value: String| match value.parse() {
        Ok(rendezvous) => Ok(rendezvous),
        Err(ParseRendezvousError(expected)) => {
            Err(RankAssignmentError::Unreadable { variable: RENDEZVOUS.name, value, expected })
        }
    };
    lookup.text(RENDEZVOUS).map(parse).transpose()
}

/// Creates the folder of a rendezvous file if it is missing, and refuses one that others can write.
/// Every peer calls this before it reads the file; an address needs no preparation.
pub(crate) fn prepare(rendezvous: &Rendezvous) -> Result<(), RankAssignmentError> {
    match rendezvous {
        Rendezvous::File(path) => path.parent().map_or(Ok(()), private_folder::ensure),
        Rendezvous::Address(_) => Ok(()),
    }
}

/// Joins host and port, with brackets around an IPv6 address.
pub(crate) fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
