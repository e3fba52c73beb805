//! Receive slot of one edge.
//!
//! **Invariant:** a slot is [`SlotState::Complete`] only if the footer and every piece carry the
//! same version; its values are then those that were sent.

use crate::protocol::CollectiveElement;

/// Receive slot of an edge.
#[derive(Clone, Debug)]
pub(super) struct ReceiveSlot<T> {
    values: Vec<T>,
    /// Version of each piece, from its header.
    headers: Vec<Option<u64>>,
    /// Version of the last NOTIFY.
    footer: Option<u64>,
    /// Last version that was reduced.
    read: Option<u64>,
}

/// State of the values in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// The slot has no unread values.
    Empty,
    /// Part of a version, or parts of several versions.
    Torn,
    /// All pieces of an unread version.
    Complete(u64),
}

/// Error: a piece whose index or length does not fit the values.
#[derive(Debug)]
pub(super) struct PieceMismatch;

impl<T: CollectiveElement> ReceiveSlot<T> {
    pub(super) fn new(length: usize, pieces: usize) -> Self {
        Self { values: vec![T::zeroed(); length], headers: vec![None; pieces], footer: None, read: None }
    }

    pub(super) fn state(&self) -> SlotState {
        let newest = self.headers.iter().copied().chain([self.footer]).max().flatten();
        match newest {
            None => SlotState::Empty,
            newest if newest == self.read => SlotState::Empty,
            Some(version) if self.footer == newest && self.headers.iter().all(|&header| header == newest) => {
                SlotState::Complete(version)
            }
            Some(_) => SlotState::Torn,
        }
    }

    /// Returns true if a message of this version would overwrite an unread version.
    pub(super) fn would_overwrite(&self, version: u64) -> bool {
        let others = |version_there: &Option<u64>| {
            version_there.is_some_and(|there| there != version && Some(there) != self.read)
        };
        self.headers.iter().chain([&self.footer]).any(others)
    }

    pub(super) fn write(
        &mut self,
        version: u64,
        index: usize,
        piece: usize,
        bytes: &[u8],
    ) -> Result<(), PieceMismatch> {
        let start = index.checked_mul(piece).filter(|_| index < self.headers.len()).ok_or(PieceMismatch)?;
        let end = (start + piece).min(self.values.len());
        let destination = self.values.get_mut(start..end).ok_or(PieceMismatch)?;
        if size_of_val(destination) != bytes.len() {
            return Err(PieceMismatch);
        }
        // A late piece never replaces a newer one.
        if self.headers[index].is_none_or(|present| present <= version) {
            crate::protocol::replace(destination, bytes);
            self.headers[index] = Some(version);
        }
        Ok(())
    }

    pub(super) fn notify(&mut self, version: u64) {
        self.footer = self.footer.max(Some(version));
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }

    pub(super) fn mark_read(&mut self, version: u64) {
        self.read = Some(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_complete_when_headers_and_footer_agree_in_any_order() {
        let mut slot = ReceiveSlot::<f32>::new(3, 2);
        assert_eq!(slot.state(), SlotState::Empty);
        slot.notify(4);
        slot.write(4, 1, 2, &3.0_f32.to_le_bytes()).unwrap();
        assert_eq!(slot.state(), SlotState::Torn);
        slot.write(4, 0, 2, bytemuck::cast_slice(&[1.0_f32, 2.0])).unwrap();
        assert_eq!((slot.state(), slot.values()), (SlotState::Complete(4), &[1.0, 2.0, 3.0][..]));
        assert!(slot.would_overwrite(5) && !slot.would_overwrite(4));
        slot.mark_read(4);
        assert!(slot.state() == SlotState::Empty && !slot.would_overwrite(5));
        slot.write(5, 1, 2, &9.0_f32.to_le_bytes()).unwrap();
        assert_eq!(slot.state(), SlotState::Torn, "a piece of the next version makes it torn");
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let mut slot = ReceiveSlot::<f32>::new(3, 2);
        assert!(slot.write(0, 2, 2, &[]).is_err());
        assert!(slot.write(0, 1, 2, &[0; 8]).is_err());
        assert!(slot.write(0, usize::MAX, 2, &[]).is_err());
        let mut empty = ReceiveSlot::<f32>::new(0, 1);
        empty.write(0, 0, 2, &[]).unwrap();
        empty.notify(0);
        assert_eq!(empty.state(), SlotState::Complete(0));
    }
}
