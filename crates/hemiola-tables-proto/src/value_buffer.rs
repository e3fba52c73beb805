//! Values of a message: an owned vector, or the received bytes, used without a copy.
//!
//! Rows are most of the traffic between peers, and copying them is most of the work. An outgoing
//! message hands its vector to the network; an incoming message is read in its receive buffer.
//! **Invariant:** shared bytes are aligned for the type, hold a whole number of cells, and are in
//! native byte order. Other bytes are copied.

use crate::dtype::StorageType;
use bytes::Bytes;
use std::fmt;
use std::ops::Deref;

/// Values up to this size are copied behind the message header; larger ones are sent from their own
/// buffer.
pub(crate) const COPIED_BYTES: usize = 4096;

/// Owned or shared values of one message.
#[derive(Clone)]
pub(crate) enum ValueBuffer<T> {
    Own(Vec<T>),
    Shared(Bytes),
}

impl<T: StorageType> ValueBuffer<T> {
    /// Takes values from received `bytes`, whose length is a multiple of the cell size.
    pub(crate) fn from_wire(bytes: Bytes) -> Self {
        if cfg!(target_endian = "little") && bytemuck::try_cast_slice::<u8, T>(&bytes).is_ok() {
            Self::Shared(bytes)
        } else {
            Self::Own(bytes.chunks_exact(T::BYTES).map(T::read_le).collect())
        }
    }

    /// Encodes the values: appended to `front` if they are small, otherwise returned as separate
    /// bytes.
    pub(crate) fn into_wire(self, front: &mut Vec<u8>) -> Bytes {
        if size_of_val(&self[..]) <= COPIED_BYTES || cfg!(target_endian = "big") {
            T::write_le(&self, front);
            return Bytes::new();
        }
        match self {
            Self::Own(values) => Bytes::from_owner(VecOwner(values)),
            Self::Shared(bytes) => bytes,
        }
    }

    /// Appends values; shared bytes are copied first.
    pub(crate) fn extend(&mut self, more: &[T]) {
        if let Self::Shared(_) = self {
            *self = Self::Own(self.to_vec());
        }
        if let Self::Own(values) = self {
            values.extend_from_slice(more);
        }
    }
}

/// Owner of a vector that is lent out as bytes.
struct VecOwner<T>(Vec<T>);

impl<T: StorageType> AsRef<[u8]> for VecOwner<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl<T: StorageType> Deref for ValueBuffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Own(values) => values,
            Self::Shared(bytes) => bytemuck::cast_slice(bytes),
        }
    }
}

impl<T> Default for ValueBuffer<T> {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl<T: StorageType> PartialEq for ValueBuffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: StorageType> fmt::Debug for ValueBuffer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_and_shared_values_are_equal() {
        for count in [0, 3, COPIED_BYTES] {
            let numbers: Vec<f32> = (0..count as u16).map(f32::from).collect();
            let mut bytes = vec![9; 8];
            let rest = ValueBuffer::Own(numbers.clone()).into_wire(&mut bytes);
            assert_eq!(rest.is_empty(), count <= COPIED_BYTES / 4);
            bytes.extend_from_slice(&rest);
            let whole = Bytes::from(bytes);
            for shift in 0..4 {
                // Bytes at a misaligned address are copied.
                let moved = Bytes::from([&vec![0; shift][..], &whole[8..]].concat()).slice(shift..);
                let mut values = ValueBuffer::<f32>::from_wire(moved);
                assert_eq!(*values, *numbers);
                values.extend(&[5.0]);
                assert_eq!(values.len(), count + 1);
            }
        }
    }
}
