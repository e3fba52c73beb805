//! Where the peers of a job meet.

use super::lookup::Lookup;
use super::{PlacementError, private_folder};
use crate::variables::RENDEZVOUS;
use std::fmt;
use std::path::PathBuf;

/// A place all peers know before they know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rendezvous {
    /// A job of one peer meets nobody.
    Alone,
    /// The root listens here: `host:port`, with brackets around an IPv6 address.
    Address(String),
    /// The root listens on a port of its choice on loopback and writes into this file where. All peers share a host.
    File(PathBuf),
}

impl Rendezvous {
    /// What `HEMIOLA_RENDEZVOUS` says, if it is set.
    pub(super) fn given(lookup: &Lookup<'_>) -> Result<Option<Self>, PlacementError> {
        lookup.text(RENDEZVOUS).map(|value| Self::parse(&value)).transpose()
    }

    /// Reads the form that [`Display`](fmt::Display) writes.
    fn parse(value: &str) -> Result<Self, PlacementError> {
        let unreadable =
            |expected| PlacementError::Unreadable { variable: RENDEZVOUS.name, value: value.to_owned(), expected };
        if let Some(path) = value.strip_prefix("file:") {
            let path = PathBuf::from(path);
            // A relative path would depend on each peer's working folder.
            return if path.is_absolute() && path.file_name().is_some() {
                Ok(Self::File(path))
            } else {
                Err(unreadable("an absolute path after `file:`"))
            };
        }
        let port = value.rsplit_once(':').filter(|(host, _)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            !host.is_empty() && (bracketed || !host.contains(':'))
        });
        match port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(port)) if port > 0 => Ok(Self::Address(value.to_owned())),
            _ => Err(unreadable("`host:port` (an IPv6 address in brackets) or `file:/path`")),
        }
    }

    /// Makes the folder of a [`File`](Self::File) if it is missing, and refuses one that others can write. Every peer
    /// calls this before it looks at the file; the other kinds need nothing.
    pub fn prepare(&self) -> Result<(), PlacementError> {
        match self {
            Self::File(path) => path.parent().map_or(Ok(()), private_folder::ensure),
            Self::Alone | Self::Address(_) => Ok(()),
        }
    }
}

impl fmt::Display for Rendezvous {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => formatter.write_str("nowhere"),
            Self::Address(address) => formatter.write_str(address),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
