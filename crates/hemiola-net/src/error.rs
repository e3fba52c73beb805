//! Errors of joining a job.

use crate::join::handshake::JoinRefusal;
use crate::join::handshake_stream::HandshakeError;
use crate::secret::MIN_SECRET_BYTES;
use crate::tls::TlsError;
use hemiola_core::{ErrorKind, Rank, printable, printable_lines};
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Error of joining a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// There is no secret to authenticate peers, and none can be exchanged privately.
    #[error(
        "refusing to {action} {address}, which others can reach, without a secret: set `HEMIOLA_SECRET` to the same \
         random text on every peer, for example the output of `openssl rand -hex 32`"
    )]
    NoSecret {
        /// Intended action: `listen on` or `connect to`.
        action: &'static str,
        /// Address that was to be used.
        address: String,
    },
    /// The secret is easy to guess.
    #[error(
        "a secret of {bytes} bytes can be guessed: set `HEMIOLA_SECRET` to at least {MIN_SECRET_BYTES} random bytes, \
         for example the output of `openssl rand -hex 32`"
    )]
    ShortSecret {
        /// Number of bytes in the secret.
        bytes: usize,
    },
    /// The peers cannot exchange a secret in a file.
    #[error(
        "cannot take the secret of the job from `{}`: {reason}; if the peers run as different users or in different \
         containers, set `HEMIOLA_SECRET` to the same random text on every peer", path.display()
    )]
    SecretFile {
        /// Path of the file.
        path: PathBuf,
        /// Error text of the operating system, or a description.
        reason: String,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// Address that was to be bound.
        address: String,
        /// Error text of the operating system.
        reason: String,
    },
    /// The host name of the rendezvous cannot be resolved.
    #[error("cannot resolve the rendezvous `{address}`: {reason}")]
    Resolve {
        /// Address as given by the user.
        address: String,
        /// Error text of the operating system.
        reason: String,
    },
    /// The rendezvous file cannot be used.
    #[error("cannot use the rendezvous file `{}`: {reason}", path.display())]
    RendezvousFile {
        /// Path of the rendezvous file.
        path: PathBuf,
        /// Error text of the operating system.
        reason: String,
    },
    /// No peer listens at the address.
    #[error("peer {rank} cannot reach {target} at {address} after {:.1} s: {reason}", waited.as_secs_f64())]
    Unreachable {
        /// Rank of this peer.
        rank: Rank,
        /// Intended peer: "the root" or "peer N".
        target: String,
        /// Address of the intended peer.
        address: String,
        /// Time spent on connection attempts.
        waited: Duration,
        /// Error of the last attempt.
        reason: String,
    },
    /// The other side refused the connection.
    #[error("peer {rank} was refused by {address}: {refusal}")]
    Refused {
        /// Rank of this peer.
        rank: Rank,
        /// Address of the refusing peer.
        address: String,
        /// Reason for the refusal.
        refusal: JoinRefusal,
    },
    /// Some ranks did not join before the deadline.
    #[error("waited {:.1} s for {}{}", waited.as_secs_f64(), list_ranks(missing), describe_refusals(refused))]
    Missing {
        /// Ranks that did not join.
        missing: Vec<Rank>,
        /// Addresses of refused connections, with the reasons.
        refused: Vec<(String, JoinRefusal)>,
        /// Time that the root waited.
        waited: Duration,
    },
    /// A peer that had joined was lost before the job started.
    #[error("peer {rank} at {} was lost while the job was joining: {}", printable(address), printable_lines(reason))]
    Gone {
        /// Rank of the lost peer.
        rank: Rank,
        /// Address of the lost peer.
        address: String,
        /// Description of the failure.
        reason: String,
    },
    /// The root aborted the job.
    #[error("the root aborted the job: {}", printable_lines(reason))]
    Aborted {
        /// Reason given by the root.
        reason: String,
    },
    /// The handshake with another peer failed.
    #[error("the handshake with {address} failed: {error}")]
    Handshake {
        /// Address of the other side.
        address: String,
        /// Error of the handshake.
        error: HandshakeError,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The operating system could not start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The operating system could not create a socket or poller.
    #[error("cannot set up the connections: {0}")]
    Io(#[from] io::Error),
}

impl JoinError {
    /// Returns the party that has to act on the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            // A refusal that describes a broken protocol is the result of damaged bytes.
            Self::Refused { refusal: JoinRefusal::Protocol { .. }, .. } => ErrorKind::External,
            Self::NoSecret { .. }
            | Self::ShortSecret { .. }
            | Self::Resolve { .. }
            | Self::Refused { .. }
            | Self::Tls(_) => ErrorKind::Usage,
            _ => ErrorKind::External,
        }
    }
}

fn list_ranks(ranks: &[Rank]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if ranks.len() > SHOWN { format!(" and {} more", ranks.len() - SHOWN) } else { String::new() };
    let peers = if ranks.len() == 1 { "peer" } else { "peers" };
    format!("{peers} {}{more}", shown.join(", "))
}

fn describe_refusals(refused: &[(String, JoinRefusal)]) -> String {
    let mut text = String::new();
    for (from, refusal) in refused {
        let _ = write!(text, "; refused {from}: {refusal}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_named_with_refused_connections() {
        let error = JoinError::Missing {
            missing: vec![Rank::new(2)],
            refused: vec![("127.0.0.1:9".into(), JoinRefusal::WrongSize { ours: 3, theirs: 4 })],
            waited: Duration::from_mins(1),
        };
        assert_eq!(
            error.to_string(),
            "waited 60.0 s for peer 2; refused 127.0.0.1:9: it expects a job of 4 peers, this job has 3"
        );
    }
}
