//! Tags of calls and the sequence in which a peer takes them.
//!
//! **Invariant:** every peer makes the same calls in the same order, so counting gives a call the
//! same [`Tag`] on all peers without communication. A call of several stages takes the tags of all
//! its stages when it begins, since a later tag must not depend on the time at which an earlier
//! stage ends.

use super::Tag;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sequence of the tags of a communicator on one peer.
#[derive(Debug)]
pub struct TagSequence {
    first: u64,
    next: AtomicU64,
}

impl TagSequence {
    /// Creates the sequence that starts with this tag.
    #[must_use]
    pub const fn starting_at(first: u64) -> Self {
        Self { first, next: AtomicU64::new(first) }
    }

    /// Takes the next `count` tags.
    pub fn take(&self, count: u64) -> TagRange {
        // Relaxed: calls of one peer are sequential, whichever threads make them.
        let next = self.next.fetch_add(count, Ordering::Relaxed);
        TagRange { next, end: next + count }
    }

    /// Takes the tag of a call of one stage.
    pub fn take_one(&self) -> Tag {
        Tag::new(self.take(1).next)
    }

    /// Number of tags taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed) - self.first
    }
}

/// Consecutive tags of the stages of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRange {
    next: u64,
    end: u64,
}

impl Iterator for TagRange {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        let tag = self.next;
        (tag < self.end).then(|| {
            self.next += 1;
            Tag::new(tag)
        })
    }
}
