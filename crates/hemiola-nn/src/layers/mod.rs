//! Layers that tell what Burn's own cannot: how few bytes their gradient is made of.
//!
//! [`Linear`] and [`Embedding`] compute what those of Burn compute. When a [`Trainer`](crate::Trainer) asks for it, the gradient of their weights is not made a matrix: of a linear
//! layer it is its inputs and the gradients of its outputs (*sufficient factors*), of an embedding the rows that were looked up. Use them in place of Burn's, and strategies may choose these ways.
//!
//! **How a layer is asked.** A module can be reached by mappers alone, and a mapper sees parameters. Each of these layers has a flag among them that says nothing by its value. Its *identity* does: mappers of Burn never
//! change it, the trainer's puts a mark there for the one step that a copy of the model lives.

mod embedding;
mod linear;
mod taken;

pub use embedding::{Embedding, EmbeddingConfig};
pub use linear::{Linear, LinearConfig};

use burn::module::{Flag, Param, ParamId};

/// The field that is a linear layer's flag.
pub(crate) const FACTORS: &str = "factors";
/// The field that is an embedding's flag.
pub(crate) const ROWS: &str = "rows";
/// The identity of a flag whose layer is asked for its gradient in parts.
const WANTED: u64 = 0x9e6d_1a3b_5c27_f481;
/// Numbers in front of a row that say which it is.
pub(crate) const KEY: usize = 2;
/// The second of them counts up to this.
const HALF: usize = 1 << 12;

/// A flag that asks for nothing.
fn unasked() -> Param<Flag> {
    Param::<Flag>::from_bool(false)
}

/// A flag that asks for the gradient in parts, or for the whole.
pub(crate) fn asking(flag: Param<Flag>, parts: bool) -> Param<Flag> {
    match (parts, is_asked(&flag)) {
        (true, false) => Param::initialized(ParamId::from(WANTED), Flag::new(flag.is_enabled())),
        (false, true) => Param::initialized(ParamId::new(), Flag::new(flag.is_enabled())),
        _ => flag,
    }
}

fn is_asked(flag: &Param<Flag>) -> bool {
    flag.id.val() == WANTED
}

/// A row's number as two that are exact in single precision.
pub(crate) fn key_of(row: usize) -> [f32; KEY] {
    [(row / HALF) as f32, (row % HALF) as f32]
}

/// The row that these two numbers say.
pub(crate) fn row_of(key: [f32; KEY]) -> usize {
    key[0] as usize * HALF + key[1] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_their_keys() {
        for row in [0, 1, HALF - 1, HALF, 1_000_003, (1 << 32) - 1] {
            assert_eq!(row_of(key_of(row)), row);
        }
    }

    #[test]
    fn only_identity_asks() {
        use burn::module::Module;
        let flag = asking(unasked(), true);
        assert!(is_asked(&flag));
        assert!(is_asked(&flag.clone().freeze()) && is_asked(&flag.clone().unfreeze()));
        assert!(!is_asked(&unasked().unfreeze()));
        assert!(!is_asked(&asking(flag, false)));
    }
}
