//! The prefetch slice: the part of a body that computes which places it will read (thesis, Algorithm 6).
//!
//! An array that is served from elsewhere is read much faster in bulk, if it is known beforehand what will be read. For accesses by
//! loop index it is. For `w[j]` with a `j` from the data, the macro emits a second closure that holds only what leads to
//! `j`: the `let`s it is computed from, the loops and conditions around it, and `recorder.touch(j)` in place of the read.
//!
//! - [`predict`] finds out which expressions can be computed before the loop runs, and which variables cannot ([`effects`] knows
//!   what an expression does besides having a value);
//! - [`steps`] turns the body into a tree of touches and what they may need, and [`prune`] throws away what no touch needs;
//! - [`emit`] writes that tree as Rust.
//!
//! A subscript that depends on an element of an array cannot be predicted: the array is not here yet. But whether a captured `x`
//! is an array or a plain table is not known to a macro. So the slice asks: `x.look()` is `Some(&x)` for a plain value and
//! `None`, of the type of the view, for an array. Whatever needs `x` stands inside `if let Some(x) = x.look()`, compiles in both
//! cases, and is removed by the optimizer in the second.
//!
//! **Invariants:** the slice writes nothing that outlives it; it evaluates an expression only where the body would have, so it
//! panics only where the body would; what it leaves out costs time, never correctness.

mod effects;
mod emit;
mod predict;
mod prune;
mod steps;

use proc_macro2::TokenStream;
use quote::quote;

use super::Analyzed;
use super::expansion::captured_pattern;

/// The closure that predicts what an iteration reads. `key` and `value` are the patterns of the loop.
pub(crate) fn closure(analyzed: &Analyzed, key: &TokenStream, value: Option<&TokenStream>) -> TokenStream {
    let steps = steps::steps(analyzed);
    if steps.is_empty() {
        return if value.is_some() { quote!(|_, _, _| {}) } else { quote!(|_, _| {}) };
    }
    let (tokens, wanted) = emit::emit(analyzed, &steps);
    let pattern =
        captured_pattern(
            &analyzed.names,
            |number| {
                if wanted.contains(&number) { emit::recorder(number) } else { quote!(_) }
            },
        );
    let value = value.into_iter();
    // The user's patterns and variables appear a second time, most of them unused: the body is where the user is told about that.
    quote!(#[allow(unused, clippy::all, clippy::pedantic)] |#pattern, #key #(, #value)*| { #tokens })
}

#[cfg(test)]
mod tests;
