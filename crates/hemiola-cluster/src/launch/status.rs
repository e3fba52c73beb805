//! Status report of a failing peer, left in a file for the launcher.
//!
//! When one peer fails, the others fail too, because they have lost it. The launcher sees several
//! bad exit codes within milliseconds and has to distinguish the culprit from the victims. So a
//! peer whose run ends in an error writes `status-<rank>.json` into `HEMIOLA_STATUS_DIR`, and
//! states whether the failure is its own.
//!
//! Writing is atomic (a temporary name, then a rename). Reading is tolerant: a file that is
//! missing, torn or invalid counts as no report.

use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Maximum size of a report; a longer file is not a report.
const LIMIT: u64 = 64 * 1024;

/// Origin of a failure, as the failing peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusKind {
    /// The peer itself failed.
    Failed,
    /// Another peer was lost.
    LostPeer,
}

/// Reason why the run of a peer ended in an error.
///
/// ```
/// use hemiola_cluster::launch::{StatusKind, StatusReport};
/// use hemiola_core::Rank;
///
/// let folder = tempfile::tempdir()?;
/// let report = StatusReport { rank: Rank::new(1), kind: StatusKind::Failed, message: "disk full".into() };
/// report.write(folder.path())?;
/// assert_eq!(StatusReport::read(folder.path(), Rank::new(1)), Some(report));
/// assert_eq!(StatusReport::read(folder.path(), Rank::new(2)), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Rank of the reporting peer.
    pub rank: Rank,
    /// Origin of the failure.
    pub kind: StatusKind,
    /// Error message, in one line.
    pub message: String,
}

impl StatusReport {
    /// Writes the report into `folder`, which is the value of `HEMIOLA_STATUS_DIR`.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let path = path(folder, self.rank);
        let draft = path.with_extension("draft");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, path)
    }

    /// Reads the report of peer `rank` in `folder`, if there is a valid one.
    #[must_use]
    pub fn read(folder: &Path, rank: Rank) -> Option<Self> {
        let mut text = Vec::new();
        File::open(path(folder, rank)).ok()?.take(LIMIT).read_to_end(&mut text).ok()?;
        Self::parse(&text, rank)
    }

    /// Parses a report of peer `rank` from its JSON.
    pub(super) fn parse(text: &[u8], rank: Rank) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|report: &Self| report.rank == rank)
    }
}

/// Returns the name of the file, which the remote script must also know.
pub(super) fn file_name(rank: Rank) -> String {
    format!("status-{rank}.json")
}

fn path(folder: &Path, rank: Rank) -> PathBuf {
    folder.join(file_name(rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_as_documented() {
        let report = StatusReport { rank: Rank::new(1), kind: StatusKind::LostPeer, message: "lost peer 0".into() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(text, r#"{"rank":1,"kind":"lost-peer","message":"lost peer 0"}"#);
    }

    #[test]
    fn a_torn_invalid_or_foreign_file_is_no_report() {
        let folder = tempfile::tempdir().unwrap();
        let rank = Rank::new(1);
        let whole = r#"{"rank":1,"kind":"failed","message":"m"}"#;
        for text in ["", &whole[..20], "[]", "\u{0}", r#"{"rank":2,"kind":"failed","message":"m"}"#] {
            fs::write(path(folder.path(), rank), text).unwrap();
            assert_eq!(StatusReport::read(folder.path(), rank), None, "{text}");
        }
        fs::write(path(folder.path(), rank), whole).unwrap();
        assert!(StatusReport::read(folder.path(), rank).is_some());
    }

    #[test]
    fn no_draft_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let report = StatusReport { rank: Rank::ROOT, kind: StatusKind::Failed, message: String::new() };
        report.write(folder.path()).unwrap();
        report.write(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(report.write(Path::new("/no/such/folder")).is_err());
    }
}
