//! Where the peers of a job meet, as variables say it.

use super::lookup::Lookup;
use super::{PlacementError, private_folder};
use crate::variables::RENDEZVOUS;
use hemiola_net::{NotARendezvous, Rendezvous};

/// What `HEMIOLA_RENDEZVOUS` says, if it is set.
pub(super) fn given(lookup: &Lookup<'_>) -> Result<Option<Rendezvous>, PlacementError> {
    let parse = |value: String| match value.parse() {
        Ok(rendezvous) => Ok(rendezvous),
        Err(NotARendezvous(expected)) => Err(PlacementError::Unreadable { variable: RENDEZVOUS.name, value, expected }),
    };
    lookup.text(RENDEZVOUS).map(parse).transpose()
}

/// Makes the folder of a rendezvous file if it is missing, and refuses one that others can write. Every peer calls
/// this before it looks at the file; an address needs nothing.
pub(crate) fn prepare(rendezvous: &Rendezvous) -> Result<(), PlacementError> {
    match rendezvous {
        Rendezvous::File(path) => path.parent().map_or(Ok(()), private_folder::ensure),
        Rendezvous::Address(_) => Ok(()),
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
