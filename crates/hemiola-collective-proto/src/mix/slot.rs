//! Where one sender's values arrive.
//!
//! **Invariant:** a slot is [`State::Whole`] only if the footer and every piece carry the same version; what is read from it is then what was sent.

use crate::protocol::Element;

/// The receive slot of an edge.
#[derive(Clone, Debug)]
pub(super) struct Slot<T> {
    values: Vec<T>,
    /// The version of each piece, as it came in its header.
    headers: Vec<Option<u64>>,
    /// The version of the last NOTIFY.
    footer: Option<u64>,
    /// The last version that was reduced.
    read: Option<u64>,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing that has not been read.
    Empty,
    /// Some of a version, or parts of several.
    Torn,
    /// All of a version, not read yet.
    Whole(u64),
}

/// A piece that cannot belong to the values.
#[derive(Debug)]
pub(super) struct Misfit;

impl<T: Element> Slot<T> {
    pub(super) fn new(length: usize, pieces: usize) -> Self {
        Self { values: vec![T::zeroed(); length], headers: vec![None; pieces], footer: None, read: None }
    }

    pub(super) fn state(&self) -> State {
        let newest = self.headers.iter().copied().chain([self.footer]).max().flatten();
        match newest {
            None => State::Empty,
            newest if newest == self.read => State::Empty,
            Some(version) if self.footer == newest && self.headers.iter().all(|&header| header == newest) => {
                State::Whole(version)
            }
            Some(_) => State::Torn,
        }
    }

    /// Whether a message of this version would overwrite another that nobody has read.
    pub(super) fn would_overwrite(&self, version: u64) -> bool {
        let others = |held: &Option<u64>| held.is_some_and(|held| held != version && Some(held) != self.read);
        self.headers.iter().chain([&self.footer]).any(others)
    }

    pub(super) fn write(&mut self, version: u64, index: usize, piece: usize, bytes: &[u8]) -> Result<(), Misfit> {
        let start = index.checked_mul(piece).filter(|_| index < self.headers.len()).ok_or(Misfit)?;
        let end = (start + piece).min(self.values.len());
        let place = self.values.get_mut(start..end).ok_or(Misfit)?;
        if size_of_val(place) != bytes.len() {
            return Err(Misfit);
        }
        // What is late never replaces what is newer.
        if self.headers[index].is_none_or(|held| held <= version) {
            crate::protocol::replace(place, bytes);
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
    fn a_slot_is_whole_when_header_and_footer_agree_in_any_order() {
        let mut slot = Slot::<f32>::new(3, 2);
        assert_eq!(slot.state(), State::Empty);
        slot.notify(4);
        slot.write(4, 1, 2, &3.0_f32.to_le_bytes()).unwrap();
        assert_eq!(slot.state(), State::Torn);
        slot.write(4, 0, 2, bytemuck::cast_slice(&[1.0_f32, 2.0])).unwrap();
        assert_eq!((slot.state(), slot.values()), (State::Whole(4), &[1.0, 2.0, 3.0][..]));
        assert!(slot.would_overwrite(5) && !slot.would_overwrite(4));
        slot.mark_read(4);
        assert!(slot.state() == State::Empty && !slot.would_overwrite(5));
        slot.write(5, 1, 2, &9.0_f32.to_le_bytes()).unwrap();
        assert_eq!(slot.state(), State::Torn, "a piece of the next version makes it torn");
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let mut slot = Slot::<f32>::new(3, 2);
        assert!(slot.write(0, 2, 2, &[]).is_err());
        assert!(slot.write(0, 1, 2, &[0; 8]).is_err());
        assert!(slot.write(0, usize::MAX, 2, &[]).is_err());
        let mut empty = Slot::<f32>::new(0, 1);
        empty.write(0, 0, 2, &[]).unwrap();
        empty.notify(0);
        assert_eq!(empty.state(), State::Whole(0));
    }
}
