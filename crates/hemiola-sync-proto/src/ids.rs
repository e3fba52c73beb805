//! Typed indices of the three tables that synchronization works with.
//!
//! A variable is a trainable parameter of the model, a piece is a shard of one, and a unit is a
//! group of pieces that travels as one message. All three are plain indices; the types keep them
//! apart. Each indexes `Vec<T>` and `[T]` directly.

use std::ops::{Index, IndexMut};

macro_rules! typed_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(usize);

        impl $name {
            /// Creates the id of the item at this index.
            #[must_use]
            pub const fn new(index: usize) -> Self {
                Self(index)
            }

            /// Returns the index of the item.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;

            fn index(&self, id: $name) -> &T {
                &self[id.0]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.0]
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;

            fn index(&self, id: $name) -> &T {
                &self[id.0]
            }
        }
    };
}

typed_index! {
    /// Index of a variable in the model.
    VariableId
}

typed_index! {
    /// Index of a piece: shards of the first variable first.
    PieceId
}

typed_index! {
    /// Index of a unit in [`SyncPlan::units`](crate::SyncPlan).
    UnitId
}
