//! The numbers of a message: a vector of our own, or the bytes they came in, used where they lie.
//!
//! Rows of a table are most of what peers send each other, and copying them is most of the work. So a message that leaves hands its vector to the
//! network, and one that has come is read in the buffer it was received in. **Invariant:** shared bytes are aligned for the type and of a whole
//! number of cells, in this machine's order; what is not so is copied.

use crate::number::Cell;
use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

/// Numbers are copied behind what stands in front of them up to this size, and sent from where they are above it.
pub(crate) const COPIED_BYTES: usize = 4096;

/// Numbers, owned or shared.
#[derive(Clone)]
pub(crate) enum Values<T> {
    Own(Vec<T>),
    Shared(Bytes),
}

impl<T: Cell> Values<T> {
    /// The numbers that came in `bytes`, whose length is a multiple of theirs.
    pub(crate) fn from_wire(bytes: Bytes) -> Self {
        if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, T>(&bytes).is_ok() {
            Self::Shared(bytes)
        } else {
            Self::Own(bytes.chunks_exact(T::BYTES).map(T::read).collect())
        }
    }

    /// The numbers as they travel: at the end of `front`, or, if they are many, behind it.
    pub(crate) fn into_wire(self, front: &mut Vec<u8>) -> Bytes {
        if size_of_val(&self[..]) <= COPIED_BYTES || cfg!(target_endian = "big") {
            T::write(&self, front);
            return Bytes::new();
        }
        match self {
            Self::Own(values) => Bytes::from_owner(Raw(values)),
            Self::Shared(bytes) => bytes,
        }
    }

    /// Appends numbers.
    pub(crate) fn extend(&mut self, more: &[T]) {
        if let Self::Shared(_) = self {
            *self = Self::Own(self.to_vec());
        }
        if let Self::Own(values) = self {
            values.extend_from_slice(more);
        }
    }
}

/// A vector that bytes are borrowed from.
struct Raw<T>(Vec<T>);

impl<T: Cell> AsRef<[u8]> for Raw<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl<T: Cell> Deref for Values<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Own(values) => values,
            Self::Shared(bytes) => bytemuck::cast_slice(bytes),
        }
    }
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl<T: Cell> PartialEq for Values<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Cell> fmt::Debug for Values<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_wherever_they_lie() {
        for count in [0, 3, COPIED_BYTES] {
            let numbers: Vec<f32> = (0..count as u16).map(f32::from).collect();
            let mut bytes = vec![9; 8];
            let rest = Values::Own(numbers.clone()).into_wire(&mut bytes);
            assert_eq!(rest.is_empty(), count <= COPIED_BYTES / 4);
            bytes.extend_from_slice(&rest);
            let whole = Bytes::from(bytes);
            for shift in 0..4 {
                // Bytes at an address that does not fit are copied.
                let moved = Bytes::from([&vec![0; shift][..], &whole[8..]].concat()).slice(shift..);
                let mut values = Values::<f32>::from_wire(moved);
                assert_eq!(*values, *numbers);
                values.extend(&[5.0]);
                assert_eq!(values.len(), count + 1);
            }
        }
    }
}
