//! The front end of `parallel_for!`: from the tokens of a loop to what it accesses, and to the code that runs it.
//!
//! | step | file | concept |
//! |---|---|---|
//! | parse | `header.rs` | the words around the body: options, pattern, iteration space |
//! | analyse | `jumps.rs` | ways out of the body |
//! | | `scope.rs`, `names.rs` | what every name means, written into the body |
//! | | `accesses.rs`, `subscript.rs` | what is read and written where |
//! | generate | `rewrite.rs` | the body that runs |
//! | | `slice/` | the part of the body that predicts what it will read |
//! | | `expansion.rs` | both in one expression |
//!
//! Whatever is wrong on the way is collected by `problems.rs` and told at once. Two lists hold what syntax alone cannot tell:
//! `mutators.rs` (methods that change their receiver) and `known_macros.rs` (macros whose arguments are expressions).
//!
//! No types are known here: which captured names are arrays is found out when the expansion is compiled.
//! **Invariant:** functions from tokens to tokens; `proc_macro` itself is for `hemiola-macros`.

mod accesses;
#[cfg(test)]
mod bodies;
mod expansion;
mod header;
mod jumps;
mod known_macros;
mod mutators;
mod names;
mod problems;
mod rewrite;
mod scope;
mod slice;
mod subscript;
#[cfg(test)]
mod testing;
mod text;

use proc_macro2::TokenStream;
use syn::Block;

use accesses::Table;
use header::{Header, Loop};
use names::Names;
use problems::Problems;

/// What `parallel_for!(tokens)` expands to.
///
/// Problems are reported as `compile_error!`s at the user's spans, all of them together.
#[must_use]
pub fn parallel_for(tokens: TokenStream) -> TokenStream {
    let mut problems = Problems::default();
    names::refuse_tags(&tokens, &mut problems);
    let parsed = syn::parse2::<Loop>(tokens).map_err(|error| problems.add(error)).ok();
    let analyzed = parsed.and_then(|parsed| analyze(parsed, &mut problems));
    match analyzed {
        Some(analyzed) if problems.is_empty() => expansion::expansion(&analyzed),
        other => expansion::refusal(&problems, other.as_ref().map(|analyzed| (&analyzed.header, &analyzed.names))),
    }
}

/// A loop that is understood.
struct Analyzed {
    header: Header,
    /// What the names of `body` mean.
    names: Names,
    /// With tags for names.
    body: Block,
    table: Table,
}

/// Looks for problems in all parts, even if one has some already. `None` only if there are any.
fn analyze(parsed: Loop, problems: &mut Problems) -> Option<Analyzed> {
    let header = parsed.header(problems);
    let mut body = parsed.body;
    jumps::check(&mut body, problems);
    let mut header = header?;
    let names = scope::resolve(&mut header, &mut body);
    let table = accesses::find(&body, &names);
    Some(Analyzed { header, names, body, table })
}
