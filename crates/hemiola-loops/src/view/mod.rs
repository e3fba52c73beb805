//! Views: values that the body of a loop uses in place of captured variables.

pub mod accumulator;
#[expect(unsafe_code, reason = "cells are reached by address; the argument is in `window`")]
pub mod array;
pub mod buffer;
pub mod plain;
pub(crate) mod served;
pub mod table;
#[expect(unsafe_code, reason = "an address is passed between threads; the argument is in the module")]
pub mod window;

pub use accumulator::AccumulatorView;
pub use array::ArrayView;
pub use buffer::BufferView;
pub use plain::PlainView;
pub use table::TableView;
pub(crate) use window::Window;
