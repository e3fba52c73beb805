//! Random seed as an argument of its own type.

use serde::{Deserialize, Serialize};

/// Random seed. The same seed gives the same numbers on every machine.
///
/// Functions with several numbers take their seed in this type, so that a call names it:
/// `ratings.split(0.1, Seed(7))`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seed(pub u64);
