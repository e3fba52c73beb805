//! Key column: the index of every entry along one dimension.
//!
//! **Invariant:** a column of a finished block is narrow (32 bits) exactly if the extent of its
//! dimension allows it, so all blocks of an array agree. The shape is unknown while a block is
//! built: a column starts narrow and widens when the first large key arrives.

/// Keys of all entries along one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyColumn {
    /// All keys fit in 32 bits.
    Narrow(Vec<u32>),
    /// Some keys may need 64 bits.
    Wide(Vec<u64>),
}

/// Slice of a key column.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeySlice<'a> {
    Narrow(&'a [u32]),
    Wide(&'a [u64]),
}

impl KeyColumn {
    /// Creates an empty column with room for `capacity` keys.
    #[must_use]
    pub fn with_capacity(narrow: bool, capacity: usize) -> Self {
        if narrow { Self::Narrow(Vec::with_capacity(capacity)) } else { Self::Wide(Vec::with_capacity(capacity)) }
    }

    /// Number of keys in the column.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Narrow(keys) => keys.len(),
            Self::Wide(keys) => keys.len(),
        }
    }

    /// Returns true if the column has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key of the entry at a position.
    ///
    /// # Panics
    /// Panics if there is no such entry.
    #[must_use]
    #[inline]
    pub fn get(&self, position: usize) -> u64 {
        match self {
            Self::Narrow(keys) => u64::from(keys[position]),
            Self::Wide(keys) => keys[position],
        }
    }

    /// Keys as stored, if in 32 bits.
    #[must_use]
    pub fn as_narrow(&self) -> Option<&[u32]> {
        match self {
            Self::Narrow(keys) => Some(keys),
            Self::Wide(_) => None,
        }
    }

    /// Keys as stored, if in 64 bits.
    #[must_use]
    pub fn as_wide(&self) -> Option<&[u64]> {
        match self {
            Self::Narrow(_) => None,
            Self::Wide(keys) => Some(keys),
        }
    }

    /// Appends a key, widening the column if necessary.
    #[inline]
    pub fn push(&mut self, key: u64) {
        match self {
            Self::Narrow(keys) => match u32::try_from(key) {
                Ok(key) => keys.push(key),
                Err(_) => self.widen().push(key),
            },
            Self::Wide(keys) => keys.push(key),
        }
    }

    /// Appends a key `count` times.
    pub(crate) fn push_repeated(&mut self, key: u64, count: usize) {
        if u32::try_from(key).is_err() {
            self.widen();
        }
        match self {
            Self::Narrow(keys) => keys.resize(keys.len() + count, key as u32),
            Self::Wide(keys) => keys.resize(keys.len() + count, key),
        }
    }

    /// Appends keys of 32 bits.
    pub(crate) fn push_narrow(&mut self, more: &[u32]) {
        match self {
            Self::Narrow(keys) => keys.extend_from_slice(more),
            Self::Wide(keys) => keys.extend(more.iter().map(|&key| u64::from(key))),
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut Vec<u64> {
        if let Self::Narrow(keys) = self {
            let mut wide = Vec::with_capacity(keys.capacity());
            wide.extend(keys.iter().map(|&key| u64::from(key)));
            *self = Self::Wide(wide);
        }
        match self {
            Self::Wide(keys) => keys,
            Self::Narrow(_) => unreachable!("the column was widened above"),
        }
    }

    /// Appends all keys of another column.
    pub(crate) fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Narrow(keys), Self::Narrow(more)) => keys.extend_from_slice(more),
            (Self::Wide(keys), Self::Wide(more)) => keys.extend_from_slice(more),
            (Self::Wide(keys), Self::Narrow(more)) => keys.extend(more.iter().map(|&key| u64::from(key))),
            (mine @ Self::Narrow(_), Self::Wide(more)) => more.iter().for_each(|&key| mine.push(key)),
        }
    }

    /// Clears a narrow column. Returns true if it is narrow and has room for `capacity` keys.
    pub(super) fn clear_narrow(&mut self, capacity: usize) -> bool {
        match self {
            Self::Narrow(keys) => {
                keys.clear();
                keys.capacity() >= capacity
            }
            Self::Wide(_) => false,
        }
    }

    /// Slice of the column.
    pub(super) fn slice(&self, positions: std::ops::Range<usize>) -> KeySlice<'_> {
        match self {
            Self::Narrow(keys) => KeySlice::Narrow(&keys[positions]),
            Self::Wide(keys) => KeySlice::Wide(&keys[positions]),
        }
    }

    /// Appends the keys at ascending `positions` of a batch. Returns the largest of them.
    pub(super) fn push_selected(&mut self, batch: KeySlice<'_>, positions: &[u32]) -> u64 {
        let (Some(&first), Some(&last)) = (positions.first(), positions.last()) else { return 0 };
        let is_run = (last - first) as usize == positions.len() - 1;
        match (&mut *self, batch) {
            (Self::Narrow(keys), KeySlice::Narrow(more)) if is_run => {
                let run = &more[first as usize..=last as usize];
                keys.extend_from_slice(run);
                u64::from(run.iter().copied().max().unwrap_or(0))
            }
            (Self::Narrow(keys), KeySlice::Narrow(more)) => {
                keys.extend(positions.iter().map(|&position| more[position as usize]));
                u64::from(keys[keys.len() - positions.len()..].iter().copied().max().unwrap_or(0))
            }
            (Self::Wide(keys), KeySlice::Wide(more)) => {
                keys.extend(positions.iter().map(|&position| more[position as usize]));
                keys[keys.len() - positions.len()..].iter().copied().max().unwrap_or(0)
            }
            (Self::Wide(keys), KeySlice::Narrow(more)) => {
                keys.extend(positions.iter().map(|&position| u64::from(more[position as usize])));
                keys[keys.len() - positions.len()..].iter().copied().max().unwrap_or(0)
            }
            (Self::Narrow(_), KeySlice::Wide(more)) => {
                let keys = positions.iter().map(|&position| more[position as usize]);
                keys.inspect(|&key| self.push(key)).max().unwrap_or(0)
            }
        }
    }

    /// Clears the flag of every entry whose key differs from the key before it. `same[0]` belongs
    /// to the entry at `start`, which must not be the first.
    pub(super) fn compare_with_previous(&self, start: usize, same: &mut [bool]) {
        fn compare<K: PartialEq>(keys: &[K], same: &mut [bool]) {
            for (same, pair) in same.iter_mut().zip(keys.array_windows::<2>()) {
                *same &= pair[0] == pair[1];
            }
        }
        match self {
            Self::Narrow(keys) => compare(&keys[start - 1..], same),
            Self::Wide(keys) => compare(&keys[start - 1..], same),
        }
    }

    /// Returns true if the keys at `positions` ascend.
    pub(super) fn is_sorted(&self, positions: std::ops::Range<usize>) -> bool {
        match self {
            Self::Narrow(keys) => keys[positions].is_sorted(),
            Self::Wide(keys) => keys[positions].is_sorted(),
        }
    }

    /// Smallest and largest key.
    pub(crate) fn min_max(&self) -> Option<(u64, u64)> {
        fn of<K: Ord + Copy + Into<u64>>(keys: &[K]) -> Option<(u64, u64)> {
            Some((keys.iter().copied().min()?.into(), keys.iter().copied().max()?.into()))
        }
        match self {
            Self::Narrow(keys) => of(keys),
            Self::Wide(keys) => of(keys),
        }
    }

    /// Adds `base` to every key.
    pub(crate) fn shift(&mut self, base: u64, largest: u64) {
        if u32::try_from(largest).is_err() {
            self.widen();
        }
        match self {
            Self::Narrow(keys) => keys.iter_mut().for_each(|key| *key += base as u32),
            Self::Wide(keys) => keys.iter_mut().for_each(|key| *key += base),
        }
    }

    /// Appends the lowest `bits` bits of the keys at `positions` to packed keys.
    pub(super) fn pack_low(&self, positions: std::ops::Range<usize>, bits: u32, packed: &mut [u64]) {
        let mask = 1_u64.unbounded_shl(bits).wrapping_sub(1);
        match self {
            Self::Narrow(keys) => {
                for (packed, &key) in packed.iter_mut().zip(&keys[positions]) {
                    *packed = packed.unbounded_shl(bits) | u64::from(key) & mask;
                }
            }
            Self::Wide(keys) => {
                for (packed, &key) in packed.iter_mut().zip(&keys[positions]) {
                    *packed = packed.unbounded_shl(bits) | key & mask;
                }
            }
        }
    }

    /// Overwrites keys from `start` on with keys that fit the column.
    pub(super) fn overwrite(&mut self, start: usize, new: impl Iterator<Item = u64>) {
        match self {
            Self::Narrow(keys) => keys[start..].iter_mut().zip(new).for_each(|(key, new)| *key = new as u32),
            Self::Wide(keys) => keys[start..].iter_mut().zip(new).for_each(|(key, new)| *key = new),
        }
    }

    /// Overwrites a key with one that fits the column.
    #[inline]
    pub(crate) fn set(&mut self, position: usize, key: u64) {
        match self {
            Self::Narrow(keys) => keys[position] = key as u32,
            Self::Wide(keys) => keys[position] = key,
        }
    }

    #[inline]
    pub(crate) fn swap(&mut self, left: usize, right: usize) {
        match self {
            Self::Narrow(keys) => keys.swap(left, right),
            Self::Wide(keys) => keys.swap(left, right),
        }
    }

    /// Keeps the keys for which `keep` returns true, called in order.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut() -> bool) {
        match self {
            Self::Narrow(keys) => keys.retain(|_| keep()),
            Self::Wide(keys) => keys.retain(|_| keep()),
        }
    }

    pub(crate) fn shrink(&mut self) {
        match self {
            Self::Narrow(keys) => keys.shrink_to_fit(),
            Self::Wide(keys) => keys.shrink_to_fit(),
        }
    }

    /// First position in `positions` whose key is not below `bound`; the keys there must ascend.
    pub(crate) fn lower_bound(&self, positions: std::ops::Range<usize>, bound: u64) -> usize {
        positions.start
            + match self {
                Self::Narrow(keys) => keys[positions].partition_point(|&key| u64::from(key) < bound),
                Self::Wide(keys) => keys[positions].partition_point(|&key| key < bound),
            }
    }

    /// Allocated memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Narrow(keys) => keys.capacity() * 4,
            Self::Wide(keys) => keys.capacity() * 8,
        }
    }

    /// Iterates over all keys in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.len()).map(|position| self.get(position))
    }
}
