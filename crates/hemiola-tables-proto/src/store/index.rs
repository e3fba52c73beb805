//! Where the row with a key lies.
//!
//! A fixed id space has a table of slots; a growing one a hash table that holds slots alone and asks for the key of a slot to
//! compare (5 bytes for each bucket). **Invariant:** a key has at most one slot.

use crate::spec::{Ids, Spec};
use crate::store::prefetch::prefetch;
use hashbrown::HashTable;

/// No slot.
const NONE: u32 = u32::MAX;

/// The direct form is for id spaces of up to this many rows per shard: 256 MiB of slots.
const DIRECT_ROWS: u64 = 1 << 26;

/// The same for the cache of a peer, which has an index for every shard: 16 MiB in all.
const CLIENT_ROWS: u64 = 1 << 22;

/// Slots by key.
#[derive(Debug)]
pub enum Index {
    /// By position.
    Direct {
        /// The shard's rows, in order.
        slots: Vec<u32>,
        /// A shard has every so many'th row.
        step: u64,
    },
    /// By hash.
    Hash(HashTable<u32>),
}

/// Which of its shard's rows a key is.
#[inline]
fn position(key: u64, step: u64) -> u64 {
    // Usually so, and a division takes as long as everything else here.
    if step.is_power_of_two() { key >> step.trailing_zeros() } else { key / step }
}

fn hash(key: u64) -> u64 {
    // The two halves of a product: all bits of the key reach the low bits, which choose the bucket, and the high ones.
    let product = u128::from(key ^ 0x2545_f491_4f6c_dd1d) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ (product >> 64) as u64
}

impl Index {
    /// An empty index for all rows of one shard.
    #[must_use]
    pub fn for_shard(spec: &Spec) -> Self {
        let step = spec.shards as u64;
        match spec.ids {
            Ids::Fixed(_) if spec.most_rows().is_some_and(|rows| rows <= DIRECT_ROWS) => {
                Self::Direct { slots: vec![NONE; spec.most_rows().unwrap_or(0) as usize], step }
            }
            _ => Self::Hash(HashTable::new()),
        }
    }

    /// An empty index for what a client knows of one shard: of a small table that may be everything.
    #[must_use]
    pub fn for_client(spec: &Spec) -> Self {
        match spec.ids {
            Ids::Fixed(rows) if rows <= CLIENT_ROWS => Self::for_shard(spec),
            _ => Self::for_some(),
        }
    }

    /// An empty index for some rows.
    #[must_use]
    pub fn for_some() -> Self {
        Self::Hash(HashTable::new())
    }

    /// The slot of a key. `key_of` tells the key of a slot.
    #[must_use]
    #[inline]
    pub fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        match self {
            Self::Direct { slots, step } => {
                let at = usize::try_from(position(key, *step)).ok()?;
                slots.get(at).copied().filter(|slot| *slot != NONE)
            }
            Self::Hash(table) => table.find(hash(key), |slot| key_of(*slot) == key).copied(),
        }
    }

    /// Brings near what [`find`](Self::find) is going to look at.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        // Where the bucket of a hash is, the hash table keeps to itself.
        if let Self::Direct { slots, step } = self
            && let Some(slot) = slots.get(position(key, *step) as usize..)
        {
            prefetch(&slot[..slot.len().min(1)]);
        }
    }

    /// Gives a slot to a key that has none.
    ///
    /// # Panics
    /// If the key is outside of a fixed id space.
    pub fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        match self {
            Self::Direct { slots, step } => slots[position(key, *step) as usize] = slot,
            Self::Hash(table) => {
                table.insert_unique(hash(key), slot, |slot| hash(key_of(*slot)));
            }
        }
    }

    /// Takes a key's slot away.
    pub fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) {
        match self {
            Self::Direct { slots, step } => slots[position(key, *step) as usize] = NONE,
            Self::Hash(table) => {
                if let Ok(entry) = table.find_entry(hash(key), |slot| key_of(*slot) == key) {
                    entry.remove();
                }
            }
        }
    }

    /// Bytes of memory it takes.
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
        let fixed = Spec { shards: 3, ..Spec::new("t", Ids::Fixed(3000), 1) };
        for mut index in [Index::for_shard(&fixed), Index::for_some()] {
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
        }
    }
}
