//! Index from row keys to slots.
//!
//! A fixed key space uses a direct table of slots. An unbounded one uses a hash table that stores
//! only slots and asks for the key of a slot to compare (5 bytes per bucket). **Invariant:** a key
//! has at most one slot.

use crate::spec::{KeySpace, TableSpec};
use crate::store::prefetch::prefetch;
use hashbrown::HashTable;

/// Marks a key without a slot. Other entries are slots plus one. An empty index is therefore zeroed
/// memory, which the system provides as it is used.
const NO_SLOT: u32 = 0;

/// Maximum number of rows per shard for the direct form: 256 MiB of slots.
const DIRECT_ROWS: u64 = 1 << 26;

/// Limit for the cache of a peer, which has an index for every shard: 16 MiB in all.
const CLIENT_ROWS: u64 = 1 << 22;

/// Slots by key, for one shard.
#[derive(Debug)]
pub enum KeyIndex {
    /// Direct table, indexed by the position of the key in the shard.
    Direct {
        /// Slots of the shard's rows plus one, in key order; zero if a row has none.
        slots: Vec<u32>,
        /// Distance between two keys of a shard.
        stride: u64,
    },
    /// Hash table of slots.
    Hash(HashTable<u32>),
}

/// Position of a key among the rows of its shard.
#[inline]
fn position(key: u64, stride: u64) -> u64 {
    // The stride is usually a power of two, and a division takes as long as the rest of the lookup.
    if stride.is_power_of_two() { key >> stride.trailing_zeros() } else { key / stride }
}

fn hash(key: u64) -> u64 {
    // Both halves of the product: all bits of the key reach the low bits, which select the bucket,
    // and the high ones.
    let product = u128::from(key ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ (product >> 64) as u64
}

impl KeyIndex {
    /// Creates an empty index for all rows of one shard.
    #[must_use]
    pub fn for_shard(spec: &TableSpec) -> Self {
        let stride = spec.shards as u64;
        match spec.key_space {
            KeySpace::Fixed(_) if spec.max_rows().is_some_and(|rows| rows <= DIRECT_ROWS) => {
                Self::Direct { slots: vec![NO_SLOT; spec.max_rows().unwrap_or(0) as usize], stride }
            }
            _ => Self::Hash(HashTable::new()),
        }
    }

    /// Creates an empty index for the cache of one shard. A small table may be cached completely.
    #[must_use]
    pub fn for_client(spec: &TableSpec) -> Self {
        match spec.key_space {
            KeySpace::Fixed(rows) if rows <= CLIENT_ROWS => Self::for_shard(spec),
            _ => Self::for_subset(),
        }
    }

    /// Creates an empty index for a cache of the consecutive keys `0..rows`.
    #[must_use]
    pub fn for_rows(rows: u64) -> Self {
        if rows <= CLIENT_ROWS {
            Self::Direct { slots: vec![NO_SLOT; rows as usize], stride: 1 }
        } else {
            Self::for_subset()
        }
    }

    /// Creates an empty index for a subset of the rows.
    #[must_use]
    pub fn for_subset() -> Self {
        Self::Hash(HashTable::new())
    }

    /// Slot of a key. `key_of` returns the key of a slot.
    #[must_use]
    #[inline]
    pub fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        match self {
            Self::Direct { slots, stride } => {
                let at = usize::try_from(position(key, *stride)).ok()?;
                slots.get(at)?.checked_sub(1)
            }
            Self::Hash(table) => table.find(hash(key), |slot| key_of(*slot) == key).copied(),
        }
    }

    /// Prefetches the memory that [`find`](Self::find) will read.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        // The hash table does not expose the address of a bucket.
        if let Self::Direct { slots, stride } = self
            && let Some(slot) = slots.get(position(key, *stride) as usize..)
        {
            prefetch(&slot[..slot.len().min(1)]);
        }
    }

    /// Assigns a slot to a key that has none.
    ///
    /// # Panics
    /// If the key is outside of a fixed id space.
    pub fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        match self {
            Self::Direct { slots, stride } => slots[position(key, *stride) as usize] = slot + 1,
            Self::Hash(table) => {
                table.insert_unique(hash(key), slot, |slot| hash(key_of(*slot)));
            }
        }
    }

    /// Removes the slot of a key.
    pub fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) {
        match self {
            Self::Direct { slots, stride } => slots[position(key, *stride) as usize] = NO_SLOT,
            Self::Hash(table) => {
                if let Ok(entry) = table.find_entry(hash(key), |slot| key_of(*slot) == key) {
                    entry.remove();
                }
            }
        }
    }

    /// Removes the slots of all keys, which `keys` lists.
    pub fn clear(&mut self, keys: impl Iterator<Item = u64>) {
        match self {
            Self::Direct { slots, stride } => keys.for_each(|key| slots[position(key, *stride) as usize] = NO_SLOT),
            Self::Hash(table) => table.clear(),
        }
    }

    /// Memory of the index in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Direct { slots, .. } => slots.capacity() * size_of::<u32>(),
            Self::Hash(table) => table.allocation_size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_until_they_are_removed() {
        let fixed = TableSpec { shards: 3, ..TableSpec::new("t", KeySpace::Fixed(3000), 1) };
        for mut index in [KeyIndex::for_shard(&fixed), KeyIndex::for_subset()] {
            let keys: Vec<u64> = (0..1000).map(|at| at * 3 + 1).collect();
            for (slot, key) in keys.iter().enumerate() {
                index.insert(*key, slot as u32, |slot| keys[slot as usize]);
            }
            for (slot, key) in keys.iter().enumerate() {
                assert_eq!(index.find(*key, |slot| keys[slot as usize]), Some(slot as u32));
            }
            index.remove(4, |slot| keys[slot as usize]);
            assert_eq!(index.find(4, |slot| keys[slot as usize]), None);
            assert_eq!(index.find(7, |slot| keys[slot as usize]), Some(2));
            assert_eq!(index.find(u64::MAX, |slot| keys[slot as usize]), None);
            index.clear(keys.iter().copied());
            assert!(keys.iter().all(|key| index.find(*key, |slot| keys[slot as usize]).is_none()));
        }
    }
}
