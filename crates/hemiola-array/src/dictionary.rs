//! Names become dense indices, and the names are kept.
//!
//! String ids in a file (`user-8f31`, `the`) are numbered so that arrays can be indexed by them, and results are written with
//! the names again. **Invariant:** the number of a name is its rank by first appearance in (file, offset) order, whatever
//! the number of byte ranges, workers or peers. Each range numbers its own names by first appearance; merging the
//! dictionaries *in range order* keeps that order, because a name's first range comes before all its other ranges.
//!
//! Why not sorted order: it would need all names before the first number, so entries could not be kept as numbers while
//! reading; and first appearance gives neighbouring numbers to names that occur together, which caches like. Why not a hash
//! of the name: extents would be 2^64 and two names could meet.
//!
//! The names lie in one byte arena; an entry costs its bytes plus about 14. Names are bytes, not text: the original ids come
//! out as they went in, in any encoding.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::fmt;
use std::hash::Hasher;

/// Names numbered from 0 in the order of their first appearance.
///
/// ```
/// use hemiola_array::Dictionary;
/// let mut first = Dictionary::new();
/// assert_eq!([first.intern(b"b"), first.intern(b"a"), first.intern(b"b")], [0, 1, 0]);
/// let mut second = Dictionary::new();
/// second.intern(b"c");
/// second.intern(b"a");
/// assert_eq!(first.merge(&second), [2, 1]); // what the numbers of `second` are now
/// assert_eq!(first.name(2), Some(&b"c"[..]));
/// ```
#[derive(Clone, Default)]
pub struct Dictionary {
    arena: Vec<u8>,
    /// Where each name ends in the arena.
    ends: Vec<u64>,
    numbers: HashTable<u32>,
}

impl Dictionary {
    /// A dictionary without names.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a name, new if it has not been seen.
    ///
    /// # Panics
    /// If there are more than 2^32 names.
    pub fn intern(&mut self, name: &[u8]) -> u32 {
        let Self { arena, ends, numbers } = self;
        let (arena_ref, ends_ref) = (&*arena, &*ends);
        let hash = hash(name);
        let entry = numbers.entry(
            hash,
            |&number| name_at(arena_ref, ends_ref, number) == name,
            |&number| self::hash(name_at(arena_ref, ends_ref, number)),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let number = u32::try_from(ends.len()).expect("a dictionary holds fewer than 2^32 names");
                entry.insert(number);
                arena.extend_from_slice(name);
                ends.push(arena.len() as u64);
                number
            }
        }
    }

    /// The number of a name that has been seen.
    #[must_use]
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        self.numbers.find(hash(name), |&number| name_at(&self.arena, &self.ends, number) == name).copied()
    }

    /// The name with this number.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<&[u8]> {
        ((number as usize) < self.ends.len()).then(|| name_at(&self.arena, &self.ends, number))
    }

    /// The name with this number as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn text(&self, number: u32) -> Option<std::borrow::Cow<'_, str>> {
        self.name(number).map(String::from_utf8_lossy)
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All names in the order of their numbers.
    #[must_use]
    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| name_at(&self.arena, &self.ends, number as u32))
    }

    /// Takes in the names of the range that comes next, and returns the number here of each of its numbers.
    pub fn merge(&mut self, next: &Self) -> Vec<u32> {
        next.names().map(|name| self.intern(name)).collect()
    }

    /// The memory held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.arena.capacity() + self.ends.capacity() * 8 + self.numbers.allocation_size()
    }
}

fn name_at<'a>(arena: &'a [u8], ends: &[u64], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &arena[start as usize..ends[number] as usize]
}

/// The hash only finds names; no number depends on it.
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
        fn numbering_does_not_depend_on_the_number_of_ranges(
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
                prop_assert_eq!(whole.number(name.as_bytes()), Some(number));
                prop_assert_eq!(whole.name(number), Some(name.as_bytes()));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_out_as_they_went_in() {
        let mut dictionary = Dictionary::new();
        let number = dictionary.intern(b"caf\xe9");
        assert_eq!(dictionary.name(number), Some(&b"caf\xe9"[..]));
        assert_eq!(dictionary.text(number).unwrap(), "caf\u{fffd}");
        assert_eq!((dictionary.name(1), dictionary.number(b"x")), (None, None));
    }

    #[test]
    fn a_name_costs_little_more_than_its_bytes() {
        let names: Vec<String> = (0..100_000).map(|number| format!("user-{number:07}")).collect();
        let dictionary: Dictionary = names.iter().map(String::as_bytes).collect();
        // Vectors that doubled may be half empty.
        assert!(dictionary.memory_bytes() < 100_000 * 2 * (12 + 8 + 6), "{}", dictionary.memory_bytes());
    }
}
