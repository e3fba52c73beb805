//! Dictionary encoding: strings become dense indices, and the strings are kept.
//!
//! String ids in a file (`user-8f31`, `the`) are encoded as indices, so that arrays can be indexed
//! by them; results are written with the strings again. **Invariant:** the index of a name is its
//! rank by first appearance in (file, offset) order, for any number of byte ranges, workers or
//! peers. Each range indexes its own names by first appearance. Merging the dictionaries *in range
//! order* keeps that order, because a name's first range comes before all its other ranges.
//!
//! Sorted order was rejected: it needs all names before the first index, so entries could not be
//! stored as indices while reading. First appearance also gives neighbouring indices to names that
//! occur together, which helps caches. A hash of the name was rejected: extents would be 2^64 and
//! names could collide.
//!
//! The names lie in one byte arena; an entry costs its bytes plus about 14. Names are bytes, not
//! text: the original ids come out unchanged, in any encoding.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::fmt;
use std::hash::Hasher;

/// Dictionary of names, indexed from 0 in the order of their first appearance.
///
/// ```
/// use hemiola_array::Dictionary;
/// let mut first = Dictionary::new();
/// assert_eq!([first.intern(b"b"), first.intern(b"a"), first.intern(b"b")], [0, 1, 0]);
/// let mut second = Dictionary::new();
/// second.intern(b"c");
/// second.intern(b"a");
/// assert_eq!(first.merge(&second), [2, 1]); // new indices of the names of `second`
/// assert_eq!(first.name(2), Some(&b"c"[..]));
/// ```
#[derive(Clone, Default)]
pub struct Dictionary {
    arena: Vec<u8>,
    /// End offset of each name in the arena.
    ends: Vec<u64>,
    indices: HashTable<u32>,
}

impl Dictionary {
    /// Creates an empty dictionary.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the index of a name, adding the name if it is new.
    ///
    /// # Panics
    /// Panics if there are more than 2^32 names.
    pub fn intern(&mut self, name: &[u8]) -> u32 {
        let Self { arena, ends, indices } = self;
        let (arena_ref, ends_ref) = (&*arena, &*ends);
        let hash = hash(name);
        let entry = indices.entry(
            hash,
            |&index| name_at(arena_ref, ends_ref, index) == name,
            |&index| self::hash(name_at(arena_ref, ends_ref, index)),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let index = u32::try_from(ends.len()).expect("a dictionary holds fewer than 2^32 names");
                entry.insert(index);
                arena.extend_from_slice(name);
                ends.push(arena.len() as u64);
                index
            }
        }
    }

    /// Returns the index of a name, or `None` if the dictionary lacks it.
    #[must_use]
    pub fn index_of(&self, name: &[u8]) -> Option<u32> {
        self.indices.find(hash(name), |&index| name_at(&self.arena, &self.ends, index) == name).copied()
    }

    /// Returns the name with this index.
    #[must_use]
    pub fn name(&self, index: u32) -> Option<&[u8]> {
        ((index as usize) < self.ends.len()).then(|| name_at(&self.arena, &self.ends, index))
    }

    /// Returns the name with this index as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn name_lossy(&self, index: u32) -> Option<std::borrow::Cow<'_, str>> {
        self.name(index).map(String::from_utf8_lossy)
    }

    /// Number of names in the dictionary.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Iterates over all names in index order.
    #[must_use]
    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|index| name_at(&self.arena, &self.ends, index as u32))
    }

    /// Adds the names of the next range. Returns the index in this dictionary for each index of
    /// `next`.
    pub fn merge(&mut self, next: &Self) -> Vec<u32> {
        next.names().map(|name| self.intern(name)).collect()
    }

    /// Allocated memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.arena.capacity() + self.ends.capacity() * 8 + self.indices.allocation_size()
    }
}

fn name_at<'a>(arena: &'a [u8], ends: &[u64], index: u32) -> &'a [u8] {
    let index = index as usize;
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &arena[start as usize..ends[index] as usize]
}

/// Hash for lookups only; no index depends on it.
fn hash(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.finish()
}

impl<'a> FromIterator<&'a [u8]> for Dictionary {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(names: I) -> Self {
        let mut dictionary = Self::new();
        for name in names {
            dictionary.intern(name);
        }
        dictionary
    }
}

impl PartialEq for Dictionary {
    fn eq(&self, other: &Self) -> bool {
        (&self.arena, &self.ends) == (&other.arena, &other.ends)
    }
}

impl Eq for Dictionary {}

impl fmt::Debug for Dictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Dictionary of {} names", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn indices_do_not_depend_on_the_number_of_ranges(
            names in prop::collection::vec("[a-d]{0,2}", 0..60), ranges in 1_usize..8,
        ) {
            let whole: Dictionary = names.iter().map(String::as_bytes).collect();
            let mut merged = Dictionary::new();
            let mut numbers = Vec::new();
            for range in names.chunks(names.len().div_ceil(ranges).max(1)) {
                let mut own = Dictionary::new();
                let own_numbers: Vec<_> = range.iter().map(|name| own.intern(name.as_bytes())).collect();
                let renumber = merged.merge(&own);
                numbers.extend(own_numbers.into_iter().map(|number| renumber[number as usize]));
            }
            prop_assert_eq!(&merged, &whole);
            for (name, number) in names.iter().zip(numbers) {
                prop_assert_eq!(whole.index_of(name.as_bytes()), Some(number));
                prop_assert_eq!(whole.name(number), Some(name.as_bytes()));
            }
        }
    }

    #[test]
    fn names_that_are_not_utf_8_are_preserved() {
        let mut dictionary = Dictionary::new();
        let number = dictionary.intern(b"caf\xe9");
        assert_eq!(dictionary.name(number), Some(&b"caf\xe9"[..]));
        assert_eq!(dictionary.name_lossy(number).unwrap(), "caf\u{fffd}");
        assert_eq!((dictionary.name(1), dictionary.index_of(b"x")), (None, None));
    }

    #[test]
    fn a_name_costs_little_more_than_its_bytes() {
        let names: Vec<String> = (0..100_000).map(|number| format!("user-{number:07}")).collect();
        let dictionary: Dictionary = names.iter().map(String::as_bytes).collect();
        // Vectors grow by doubling and may be half empty.
        assert!(dictionary.memory_bytes() < 100_000 * 2 * (12 + 8 + 6), "{}", dictionary.memory_bytes());
    }
}
