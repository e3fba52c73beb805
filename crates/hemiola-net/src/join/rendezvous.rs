//! Rendezvous of the peers: an address, or a file that contains one.
//!
//! A file serves launchers that assign ranks but no address, and local launches, where a port
//! chosen in advance could be taken by the time it is used: the root binds any free port and writes
//! it to the file. The file is readable by its owner only and also carries a fresh secret, so that
//! such jobs are protected from other users without any set-up. A job that meets at an address on
//! loopback and was given no secret exchanges one in such a file as well.

use crate::secret::Secret;
use hemiola_core::Env;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Rendezvous of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// Address `host:port` at which the root listens.
    Address(String),
    /// File on storage that all peers see; the root writes its address into it.
    File(PathBuf),
}

/// Error of parsing a rendezvous: a description of the expected text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct ParseRendezvousError(pub &'static str);

impl FromStr for Rendezvous {
    /// Description of the expected text.
    type Err = ParseRendezvousError;

    /// Parses `host:port` with brackets around an IPv6 address, or `file:/path`.
    fn from_str(text: &str) -> Result<Self, ParseRendezvousError> {
        if let Some(path) = text.strip_prefix("file:") {
            let path = PathBuf::from(path);
            // A relative path would depend on the working folder of each peer.
            let usable = path.is_absolute() && path.file_name().is_some();
            return if usable {
                Ok(Self::File(path))
            } else {
                Err(ParseRendezvousError("an absolute path after `file:`"))
            };
        }
        let parts = text.rsplit_once(':').filter(|(host, _)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            !host.is_empty() && (bracketed || !host.contains(':'))
        });
        match parts.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(1..)) => Ok(Self::Address(text.to_owned())),
            _ => Err(ParseRendezvousError("`host:port` (an IPv6 address in brackets) or `file:/path`")),
        }
    }
}

impl fmt::Display for Rendezvous {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => formatter.write_str(address),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

/// Content of a rendezvous file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RendezvousRecord {
    /// Address at which the root listens.
    pub(crate) address: String,
    /// Secret in hexadecimal; empty if the peers were given one.
    pub(crate) secret: String,
}

impl RendezvousRecord {
    /// Writes the file atomically: a reader sees all of it or none.
    pub(crate) fn write(&self, path: &Path, env: &dyn Env) -> io::Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut suffix = [0; 8];
        env.fill_random(&mut suffix);
        let draft = path.with_extension(format!("{:016x}.draft", u64::from_le_bytes(suffix)));
        let written = (|| {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            std::fs::rename(&draft, path)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&draft); // it may not even have been made
        }
        written
    }

    /// Reads the file; `None` if it does not exist yet.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the secret to use: the one in the file, or else the given one.
    pub(crate) fn secret(&self, given: &Secret) -> Secret {
        if self.secret.is_empty() { given.clone() } else { Secret::new(self.secret.as_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_files_are_distinguished() {
        assert_eq!("host:80".parse(), Ok(Rendezvous::Address("host:80".into())));
        assert_eq!("[::1]:80".parse(), Ok(Rendezvous::Address("[::1]:80".into())));
        assert_eq!("file:/a/b".parse(), Ok(Rendezvous::File("/a/b".into())));
        for wrong in ["host", "host:", ":80", "host:http", "host:70000", "host:0", "fe80::1:80", "file:name", "file:/"]
        {
            assert!(wrong.parse::<Rendezvous>().is_err(), "{wrong}");
        }
    }
}
