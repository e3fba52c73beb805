//! Why a job did not come together.

use crate::frame::FrameError;
use crate::join::handshake::Refusal;
use crate::join::wire::WireError;
use crate::tls::TlsError;
use hemiola_core::{ErrorKind, Rank};
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why peers could not meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// An address other machines can reach, and nothing to keep strangers out.
    #[error(
        "refusing to listen on {address}, which other machines can reach, without a secret: set `HEMIOLA_SECRET` to the \
         same value on every peer"
    )]
    PublicWithoutSecret {
        /// The address.
        address: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The name of the meeting point means nothing here.
    #[error("cannot find the meeting point `{address}`: {reason}")]
    Resolve {
        /// The address as given.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The rendezvous file cannot be used.
    #[error("cannot use the rendezvous file `{}`: {reason}", path.display())]
    RendezvousFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Nobody listens at the meeting point.
    #[error("peer {rank} cannot reach {whom} at {address} after {:.1} s: {reason}", waited.as_secs_f64())]
    Unreachable {
        /// This peer.
        rank: Rank,
        /// Who should be there: "the root" or a peer.
        whom: String,
        /// Where.
        address: String,
        /// How long it was tried.
        waited: Duration,
        /// The last error.
        reason: String,
    },
    /// The other side would not have us.
    #[error("peer {rank} was refused by {address}: {refusal}")]
    Refused {
        /// This peer.
        rank: Rank,
        /// Who refused.
        address: String,
        /// Why.
        refusal: Refusal,
    },
    /// Not all ranks came.
    #[error("waited {:.1} s for {}{}", waited.as_secs_f64(), listed(missing), turned_away(refused))]
    Missing {
        /// Ranks nobody claimed.
        missing: Vec<Rank>,
        /// Who was turned away, and why.
        refused: Vec<(String, Refusal)>,
        /// How long the root waited.
        waited: Duration,
    },
    /// A peer that had joined is gone before the job began.
    #[error("peer {rank} at {address} went away while the job came together: {reason}")]
    Gone {
        /// Which.
        rank: Rank,
        /// Where it was.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// The root called it off.
    #[error("the root called the job off: {reason}")]
    CalledOff {
        /// Why.
        reason: String,
    },
    /// The conversation with another peer broke off.
    #[error("joining broke off with {address}: {error}")]
    Wire {
        /// The other side.
        address: String,
        /// How it broke off.
        error: WireError,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The system gave no socket or poller.
    #[error("cannot set up the connections: {0}")]
    Io(#[from] io::Error),
}

impl JoinError {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::PublicWithoutSecret { .. } | Self::Resolve { .. } | Self::Refused { .. } | Self::Tls(_) => {
                ErrorKind::Usage
            }
            Self::Wire {
                error: WireError::Frame(FrameError::Version { .. } | FrameError::WrongJob { .. }), ..
            } => ErrorKind::Usage,
            _ => ErrorKind::World,
        }
    }
}

fn listed(ranks: &[Rank]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if ranks.len() > SHOWN { format!(" and {} more", ranks.len() - SHOWN) } else { String::new() };
    let peers = if ranks.len() == 1 { "peer" } else { "peers" };
    format!("{peers} {}{more}", shown.join(", "))
}

fn turned_away(refused: &[(String, Refusal)]) -> String {
    let mut text = String::new();
    for (from, refusal) in refused {
        let _ = write!(text, "; turned away {from}: {refusal}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_named_with_those_turned_away() {
        let error = JoinError::Missing {
            missing: vec![Rank::new(2)],
            refused: vec![("127.0.0.1:9".into(), Refusal::WrongSize { ours: 3, theirs: 4 })],
            waited: Duration::from_mins(1),
        };
        assert_eq!(
            error.to_string(),
            "waited 60.0 s for peer 2; turned away 127.0.0.1:9: it expects a job of 4 peers, this job has 3"
        );
    }
}
