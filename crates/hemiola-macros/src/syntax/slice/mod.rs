//! Prefetch slice: the part of a body that computes the indices it will read (thesis on Orion,
//! Algorithm 6).
//!
//! Reading a served array in bulk is much faster than element by element, but the indices must be
//! known in advance. For accesses by loop index they are. For `w[j]` with a `j` from the data, the
//! macro emits a second closure that contains only the code leading to `j`: the `let`s it is
//! computed from, the loops and conditions around it, and `recorder.touch(j)` in place of the read.
//!
//! - [`prediction`] finds the expressions that can be computed before the loop runs, and the
//!   variables that cannot ([`effects`] lists the side effects of an expression);
//! - [`steps`] turns the body into a tree of touches and the code they may need, and [`prune`]
//!   removes the code that no touch needs;
//! - [`emit`] writes that tree as Rust.
//!
//! A subscript that depends on an element of an array cannot be predicted, because the array is not
//! local yet. A macro does not know whether a captured `x` is an array or a plain table. The slice
//! therefore asks at run time: `x.peek()` is `Some(&x)` for a plain value and `None`, of the type
//! of the view, for an array. Code that needs `x` stands inside `if let Some(x) = x.peek()`. It
//! compiles in both cases, and the optimizer removes it in the second.
//!
//! **Invariants:** the slice writes nothing that outlives it. It evaluates an expression only if
//! the body would, so it panics only if the body would. Code that it leaves out costs time, never
//! correctness.

mod effects;
mod emit;
mod prediction;
mod prune;
mod steps;

use proc_macro2::TokenStream;
use quote::quote;

use super::AnalyzedLoop;
use super::expansion::captured_pattern;

/// Returns the closure that predicts the reads of an iteration. `key` and `value` are the patterns
/// of the loop.
pub(crate) fn closure(analyzed: &AnalyzedLoop, key: &TokenStream, value: Option<&TokenStream>) -> TokenStream {
    let steps = steps::slice_steps(analyzed);
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
    // The user's patterns and variables appear a second time, most of them unused. The user sees
    // the lints for the body only.
    quote!(#[allow(unused, clippy::all, clippy::pedantic)] |#pattern, #key #(, #value)*| { #tokens })
}

#[cfg(test)]
mod tests;
