//! Error lines that several peers print alike.
//!
//! If a data file is damaged, every peer says so. The lines of the first peer are passed on; the
//! same lines of other peers are dropped, and one line at the end names these peers.
//!
//! A peer that loses another one to its error reports the loss, with that error in it. Such reports
//! wait until all peers have ended: then the error itself has been printed, unless the lost peer was
//! killed before it could.
//!
//! **Invariant:** a line is dropped only if another peer has printed the same one, and only if it
//! starts with a label of errors of Hemiola programs. Lines in logs are never dropped.

use hemiola_core::Rank;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Starts of lines that are compared.
const LABELS: [&[u8]; 2] = [ERROR, b"hint: "];
/// Label of errors. Hints follow them and are not counted.
const ERROR: &[u8] = b"hemiola: ";
/// Start of a report of a lost peer.
const LOSS: &[u8] = b"hemiola: lost peer ";
/// Maximum number of different lines that are remembered; further ones are all printed.
const CAPACITY: usize = 256;

/// Lines so far, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct RepeatedErrors {
    lines: Vec<RepeatedLine>,
    /// Reports of lost peers that wait for the end.
    losses: Vec<(Rank, Vec<u8>)>,
}

/// Repeated errors, shared by the relay threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedRepeatedErrors(Arc<Mutex<RepeatedErrors>>);

impl SharedRepeatedErrors {
    /// Locks the errors. A panic of another thread leaves whole lines.
    pub(super) fn lock(&self) -> MutexGuard<'_, RepeatedErrors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Line, and the peers that have printed it, the first one first.
#[derive(Debug)]
struct RepeatedLine {
    text: Vec<u8>,
    ranks: Vec<Rank>,
}

impl RepeatedErrors {
    /// Returns whether a line of stderr is printed.
    pub(super) fn admits(&mut self, rank: Rank, line: &[u8]) -> bool {
        if !LABELS.iter().any(|label| line.starts_with(label)) {
            return true;
        }
        if line.starts_with(LOSS) && self.losses.len() < CAPACITY {
            self.losses.push((rank, line.to_vec()));
            return false;
        }
        match self.lines.iter_mut().find(|known| known.text == line) {
            Some(known) if known.ranks.contains(&rank) => known.ranks[0] == rank,
            Some(known) => {
                known.ranks.push(rank);
                false
            }
            None => {
                if self.lines.len() < CAPACITY {
                    self.lines.push(RepeatedLine { text: line.to_vec(), ranks: vec![rank] });
                }
                true
            }
        }
    }

    /// Assigns the reports of lost peers to the errors that caused them; returns the others, one for
    /// each lost peer, with the ranks that report it. Called when all peers have ended.
    pub(super) fn unexplained_losses(&mut self) -> Vec<String> {
        let mut others: Vec<RepeatedLine> = Vec::new();
        for (rank, text) in std::mem::take(&mut self.losses) {
            let causes = self.lines.iter_mut().filter(|known| known.text.starts_with(ERROR));
            if let Some(cause) = causes.into_iter().find(|known| contains(&text, &known.text[ERROR.len()..])) {
                if !cause.ranks.contains(&rank) {
                    cause.ranks.push(rank);
                }
                continue;
            }
            // The rest of the report depends on the time.
            match others.iter_mut().find(|other| lost_rank(&other.text) == lost_rank(&text)) {
                Some(other) => other.ranks.push(rank),
                None => others.push(RepeatedLine { text, ranks: vec![rank] }),
            }
        }
        others
            .into_iter()
            .map(|RepeatedLine { text, ranks }| {
                let text = String::from_utf8_lossy(&text[ERROR.len()..]).into_owned();
                format!("{}: {text}", named(ranks))
            })
            .collect()
    }

    /// Returns true if there is an error that all of `peers` peers have printed.
    pub(super) fn are_common_to(&self, peers: usize) -> bool {
        peers > 1 && self.errors().any(|line| line.ranks.len() == peers)
    }

    /// Describes the dropped lines of peers, for errors that not all of `peers` peers have printed.
    pub(super) fn summary(&self, peers: usize) -> Vec<String> {
        let partial = self.errors().filter(|line| (2..peers).contains(&line.ranks.len()));
        partial
            .map(|line| {
                let text = String::from_utf8_lossy(&line.text[ERROR.len()..]).into_owned();
                format!("also on {}: {text}", named(line.ranks[1..].to_vec()))
            })
            .collect()
    }

    fn errors(&self) -> impl Iterator<Item = &RepeatedLine> {
        self.lines.iter().filter(|line| line.text.starts_with(ERROR))
    }
}

/// Formats ranks: `peer 1`, `peers 0, 2 and 3`.
fn named(mut ranks: Vec<Rank>) -> String {
    ranks.sort_unstable();
    let names: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("peers {} and {last}", others.join(", ")),
        _ => format!("peer {}", names.join("")),
    }
}

/// Returns the rank in a report of a lost peer.
fn lost_rank(report: &[u8]) -> &[u8] {
    let rest = report.strip_prefix(LOSS).unwrap_or_default();
    rest.split(|byte| *byte == b' ').next().unwrap_or_default()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(lines: &[(u32, &str)]) -> (Vec<bool>, RepeatedErrors) {
        let mut errors = RepeatedErrors::default();
        (lines.iter().map(|(rank, line)| errors.admits(Rank::new(*rank), line.as_bytes())).collect(), errors)
    }

    #[test]
    fn an_error_of_all_peers_is_printed_once() {
        let (shown, errors) =
            printed(&[(1, "hemiola: no"), (1, "hint: do"), (0, "hemiola: no"), (2, "hemiola: no"), (0, "hint: do")]);
        assert_eq!(shown, [true, true, false, false, false]);
        assert!(errors.are_common_to(3) && !errors.are_common_to(4));
        assert!(errors.summary(3).is_empty());
        assert_eq!(errors.summary(4), ["also on peers 0 and 2: no"]);
    }

    #[test]
    fn other_lines_and_repetitions_of_one_peer_are_printed() {
        let (shown, errors) = printed(&[(0, "loss 1"), (1, "loss 1"), (0, "hemiola: slow"), (0, "hemiola: slow")]);
        assert_eq!(shown, [true; 4]);
        assert!(errors.summary(2).is_empty() && !errors.are_common_to(2));
        assert!(!printed(&[(0, "hemiola: alone")]).1.are_common_to(1), "a single peer needs no summary");
    }

    #[test]
    fn the_loss_of_a_peer_to_an_error_is_that_error() {
        let loss = "hemiola: lost peer 1 at here: its program failed: no file; last sign of life 0.0 s before";
        let (shown, mut errors) = printed(&[(2, loss), (1, "hemiola: no file"), (0, "hemiola: no file"), (3, loss)]);
        assert_eq!(shown, [false, true, false, false]);
        assert!(errors.unexplained_losses().is_empty());
        assert!(errors.are_common_to(4));
    }

    #[test]
    fn the_loss_of_a_killed_peer_is_reported_once() {
        let loss =
            |seconds: &str| format!("hemiola: lost peer 2 at here: closed; last sign of life {seconds} s before");
        let (first, second) = (loss("0.1"), loss("0.2"));
        let (shown, mut errors) = printed(&[(1, &first), (0, &second)]);
        assert_eq!(shown, [false, false]);
        let reports = errors.unexplained_losses();
        assert_eq!(reports, [format!("peers 0 and 1: {}", first.strip_prefix("hemiola: ").unwrap())]);
        assert!(!errors.are_common_to(3) && errors.summary(3).is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let mut errors = RepeatedErrors::default();
        for number in 0..2 * CAPACITY {
            assert!(errors.admits(Rank::ROOT, format!("hemiola: {number}").as_bytes()));
        }
        assert_eq!(errors.lines.len(), CAPACITY);
    }
}
