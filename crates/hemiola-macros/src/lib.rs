//! The macro `parallel_for!`.
//!
//! The module `syntax` parses and analyzes the loop and generates its code. This file only converts
//! between `proc_macro` and `proc_macro2` tokens.
//!
//! **Invariant:** the only crate that imports `proc_macro`.

mod syntax;

use proc_macro::TokenStream;

/// Runs the iterations of a loop in parallel, on all workers of all peers, with the result of some
/// serial order.
///
/// ```text
/// parallel_for!(cluster, [ordered,] [repeated,] [explain,] for PATTERN in SPACE { BODY })
/// ```
/// The macro is an expression of type `hemiola::cluster::Result<LoopReport>`. The iteration
/// space is an array, or ranges written in place:
///
/// | loop | indices | value |
/// |---|---|---|
/// | `for ([u, i], value) in &array` | one per dimension, `_` where not needed | borrowed |
/// | `for ([u, i], value) in &mut array` | one per dimension, `_` where not needed | borrowed mutably |
/// | `for (i, value) in &array` | of an array with one dimension | borrowed |
/// | `for i in 0..n`, `for [i, j] in [1..n, 1..=m]` | one per range, up to four | none |
///
/// The body indexes arrays (`w[u]`, `w[[u, k]]`), writes to accumulators and buffers (`loss += x`),
/// and reads all other variables around the loop. `continue` ends an iteration. `break`, `return`
/// and `?` cannot leave the loop.
///
/// The loop borrows an array that its body writes by `&mut`, so the array must be declared with
/// `let mut` or be behind `&mut`, and has no other use in the loop. It borrows all other variables
/// by `&`. Accumulators, buffers and tables are shared by design.
///
/// - `ordered` keeps the order of iterations that depend on each other. Without it any serial order
///   is allowed.
/// - `repeated` announces that the loop will run again over the same space, so that its reads are
///   recorded once and reused.
/// - `explain` prints the plan.
///
/// Functions and methods called in a data-dependent subscript (`w[hash(word)]`) may be called twice
/// for an iteration: once to predict the reads, once to execute them.
///
/// The expansion names the crate `hemiola`. A library that depends on `hemiola-loops` and not on the
/// facade uses `hemiola_loops::parallel_for!`, which has the same syntax.
#[proc_macro]
pub fn parallel_for(tokens: TokenStream) -> TokenStream {
    syntax::parallel_for(tokens.into()).into()
}
