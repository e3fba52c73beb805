//! `parallel_for!`, as the compiler sees it. What a loop means and what becomes of it is in `hemiola_analysis::syntax`.
//!
//! **Invariant:** the only crate that imports `proc_macro`; it converts tokens and decides nothing.

use proc_macro::TokenStream;

/// Runs the iterations of a loop at once, on all workers of all peers, as if they had run one after the other.
///
/// ```text
/// parallel_for!(cluster, [ordered,] [repeated,] [explain,] for PATTERN in SPACE { BODY })
/// ```
/// is an expression of type `hemiola::Result<hemiola::loops::Run>`. The space is an array, or ranges written in place:
///
/// | loop | indices | value |
/// |---|---|---|
/// | `for ([u, i], value) in &array` | one per dimension, `_` where not needed | borrowed |
/// | `for ([u, i], value) in &mut array` | the same | borrowed mutably |
/// | `for (i, value) in &array` | of an array with one dimension | borrowed |
/// | `for i in 0..n`, `for [i, j] in [1..n, 1..=m]` | one per range, up to four | none |
///
/// In the body, arrays are indexed (`w[u]`, `w[[u, k]]`), accumulators and buffers are written (`loss += x`), and all other
/// variables of the surroundings can be read. `continue` ends an iteration. `break`, `return` and `?` cannot leave the loop.
///
/// `ordered` keeps the order of iterations that depend on each other; without it any order will do, as long as it is one order.
/// `repeated` says that the loop will run again over the same space, so that what it reads need not be found out again.
/// `explain` prints the plan.
///
/// Functions and methods called in a subscript that depends on data (`w[hash(word)]`) may be called twice for an
/// iteration: once to predict what will be read, once to read it.
#[proc_macro]
pub fn parallel_for(tokens: TokenStream) -> TokenStream {
    hemiola_analysis::syntax::parallel_for(tokens.into()).into()
}
