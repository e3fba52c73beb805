//! The last words of a failing peer, left in a file for the launcher.
//!
//! When one peer fails, the others fail too, because they have lost it. The launcher sees several bad exit codes within
//! milliseconds and has to tell the culprit from the victims. So a peer whose run ends in an error writes
//! `status-<rank>.json` into `HEMIOLA_STATUS_DIR`, and says whether the fault is its own.
//!
//! Writing is atomic (a temporary name, then a rename); reading is tolerant: a file that is missing, torn or strange
//! means only that the peer left no word.

use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// No reason is longer than this; a longer file is not ours.
const LIMIT: u64 = 64 * 1024;

/// Whose fault the failure is, as the failing peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusKind {
    /// Its own.
    Failed,
    /// Another peer was lost.
    LostPeer,
}

/// Why a peer's run ended in an error.
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
    /// Who says so.
    pub rank: Rank,
    /// Whose fault it is.
    pub kind: StatusKind,
    /// The error, in one line.
    pub message: String,
}

impl StatusReport {
    /// Leaves the report in `folder`, which is what `HEMIOLA_STATUS_DIR` says.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let path = path(folder, self.rank);
        let draft = path.with_extension("draft");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, path)
    }

    /// What peer `rank` left in `folder`, if it did and it can be read.
    #[must_use]
    pub fn read(folder: &Path, rank: Rank) -> Option<Self> {
        let mut text = Vec::new();
        File::open(path(folder, rank)).ok()?.take(LIMIT).read_to_end(&mut text).ok()?;
        Self::parse(&text, rank)
    }

    /// Reads a report of peer `rank` from its JSON.
    pub(super) fn parse(text: &[u8], rank: Rank) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|report: &Self| report.rank == rank)
    }
}

/// The name of the file, which the remote script has to know too.
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
    fn a_torn_strange_or_foreign_file_is_no_word() {
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
