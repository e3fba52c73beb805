//! Front end of `parallel_for!`: from the tokens of a loop to its accesses and its code.
//!
//! | step | file | concept |
//! |---|---|---|
//! | parse | `header.rs` | options, pattern, iteration space |
//! | analyze | `control_flow.rs` | jumps out of the body |
//! | | `scope.rs`, `names.rs` | name resolution, recorded as tags in the body |
//! | | `accesses.rs`, `subscript.rs` | reads and writes of captured names |
//! | generate | `rewrite.rs` | the body that runs |
//! | | `slice/` | the prefetch slice, which predicts the reads of the body |
//! | | `expansion.rs` | both in one expression |
//!
//! `diagnostics.rs` collects all errors and reports them together. Two lists hold facts that syntax
//! alone does not give: `mutators.rs` (methods that change their receiver) and `known_macros.rs`
//! (macros whose arguments are expressions). `token_text.rs` prints tokens for messages.
//!
//! Types are not known here: the compiler finds out which captured names are arrays when it
//! compiles the expansion. **Invariant:** functions from tokens to tokens, without `proc_macro`, so
//! that unit tests can call them.

mod accesses;
mod control_flow;
mod diagnostics;
mod expansion;
mod header;
mod known_macros;
mod mutators;
mod names;
mod rewrite;
mod scope;
mod slice;
mod subscript;
#[cfg(test)]
mod tests;
mod token_text;

use proc_macro2::TokenStream;
use syn::Block;

use accesses::AccessTable;
use diagnostics::Diagnostics;
use header::{LoopHeader, LoopSyntax};
use names::NameTable;

/// Expands `parallel_for!(tokens)`.
///
/// Errors become `compile_error!`s at the user's spans, all of them together.
#[must_use]
pub(crate) fn parallel_for(tokens: TokenStream) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    names::reject_tags(&tokens, &mut diagnostics);
    let parsed = syn::parse2::<LoopSyntax>(tokens).map_err(|error| diagnostics.add(error)).ok();
    let analyzed = parsed.and_then(|parsed| analyze(parsed, &mut diagnostics));
    match analyzed {
        Some(analyzed) if diagnostics.is_empty() => expansion::expansion(&analyzed),
        other => {
            expansion::compile_errors(&diagnostics, other.as_ref().map(|analyzed| (&analyzed.header, &analyzed.names)))
        }
    }
}

/// A loop that passed all checks of the front end.
struct AnalyzedLoop {
    header: LoopHeader,
    /// Meaning of the names in `body`.
    names: NameTable,
    /// Body with tags in place of names.
    body: Block,
    table: AccessTable,
}

/// Checks all parts of the loop, even after an error. Returns `None` only if there are errors.
fn analyze(parsed: LoopSyntax, diagnostics: &mut Diagnostics) -> Option<AnalyzedLoop> {
    let header = parsed.header(diagnostics);
    let mut body = parsed.body;
    control_flow::check_jumps(&mut body, diagnostics);
    let mut header = header?;
    let names = scope::resolve(&mut header, &mut body);
    let table = accesses::collect_accesses(&body, &names);
    Some(AnalyzedLoop { header, names, body, table })
}
