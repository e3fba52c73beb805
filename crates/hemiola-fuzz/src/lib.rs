//! Fuzzing of everything that reads bytes from outside: the network, data files, saved models,
//! configuration files.
//!
//! A [`FuzzTarget`] feeds one input to one reader. The reader may accept or refuse the input; it
//! must not panic, run out of memory or hang. A [`campaign`](campaign::Campaign) runs a target on
//! its seeds and on deterministic mutations of them, in a process with a limit on memory and a
//! deadline per input. The test of this crate runs a short campaign for every target; the binary
//! runs long ones and replays single inputs. `libfuzzer/` runs the same targets under a
//! coverage-guided fuzzer:
//!
//! ```sh
//! cargo run --release -p hemiola-fuzz -- run frame --inputs 1000000
//! cargo run --release -p hemiola-fuzz -- replay frame target/fuzz/frame.failed
//! HEMIOLA_FUZZ_TARGET=frame cargo +nightly fuzz run --fuzz-dir crates/hemiola-fuzz/libfuzzer any
//! ```
//!
//! Seeds are files under `corpus/TARGET/` and, where a valid input is easier computed than stored,
//! the inputs that the target generates. An input that failed once is added to `corpus/`.

pub mod campaign;
mod mutator;
pub mod targets;

pub use mutator::Mutator;
pub use targets::{FuzzTarget, PreparedTarget, targets};
