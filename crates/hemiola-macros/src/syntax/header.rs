//! Header of a loop: `cluster, ordered, for ([u, i], rating) in &ratings`.
//!
//! ```text
//! parallel_for!(CLUSTER, [ordered,] [repeated,] [explain,] for PATTERN in SPACE { BODY })
//! ```
//! A path in brackets before the cluster names the run time: `parallel_for!` of `hemiola-loops`
//! passes `[$crate::expand]`. The default is that of the facade.
//!
//! The syntax distinguishes two kinds of iteration space. Ranges are written in place (`0..n`,
//! `[1..n, 1..=m]`) and their pattern names indices (`i`, `[i, j]`). Anything else is an array,
//! whose pattern names a key and a value (`([u, i], rating)`).
//!
//! **Invariant:** a parsed header has at most [`MAX_DIMENSIONS`] indices, each a plain name or `_`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprRange, Pat, PatIdent, RangeLimits, Token, bracketed, token};

use super::diagnostics::Diagnostics;

/// Module of the run time that the expansion calls, unless the call names another one.
const DEFAULT_RUN_TIME: &str = "::hemiola::loops::expand";

/// Largest number of indices of a loop.
pub(crate) const MAX_DIMENSIONS: usize = 4;

/// Options of a loop: `ordered`, `repeated`, `explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopOptions {
    pub(crate) ordered: bool,
    pub(crate) repeated: bool,
    pub(crate) explain: bool,
}

/// Iteration space of the loop.
#[derive(Clone, Debug)]
pub(crate) enum SpaceSyntax {
    /// Entries of an array; `&mut array` lets the body change their values.
    Entries { array: Box<Expr>, mutable: bool },
    /// All combinations of indices from these ranges.
    Ranges(Vec<ExprRange>),
}

/// Names of the indices.
#[derive(Clone, Debug)]
pub(crate) enum IndexPattern {
    /// One per dimension; `None` is `_`.
    Named(Vec<Option<Ident>>),
    /// `_` for all of them: the number of dimensions is not given.
    Ignored,
}

impl IndexPattern {
    /// Returns the named indices, none if all are ignored.
    pub(crate) fn each(&self) -> &[Option<Ident>] {
        match self {
            Self::Named(names) => names,
            Self::Ignored => &[],
        }
    }
}

/// All of a loop except its body.
#[derive(Clone, Debug)]
pub(crate) struct LoopHeader {
    /// Path of the module that the expansion calls.
    pub(crate) run_time: TokenStream,
    pub(crate) cluster: Expr,
    pub(crate) options: LoopOptions,
    pub(crate) indices: IndexPattern,
    /// Span of the index names.
    pub(crate) indices_span: Span,
    /// Pattern of an entry's value; `_` in loops over ranges.
    pub(crate) value: Pat,
    pub(crate) space: SpaceSyntax,
    /// Tokens of the iteration space, for messages.
    pub(crate) space_tokens: TokenStream,
}

/// A parsed loop, before its header is checked.
pub(crate) struct LoopSyntax {
    run_time: TokenStream,
    cluster: Expr,
    options: Vec<Ident>,
    pattern: Pat,
    space: Expr,
    pub(crate) body: Block,
}

impl Parse for LoopSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let run_time = if input.peek(token::Bracket) {
            let path;
            bracketed!(path in input);
            path.parse()?
        } else {
            default_run_time()
        };
        if input.is_empty() || input.peek(Token![for]) {
            return Err(input.error(
                "`parallel_for!` starts with the cluster: `parallel_for!(cluster, for ([i, j], value) in &array { .. })`",
            ));
        }
        let cluster = input.parse()?;
        input.parse::<Token![,]>()?;
        let mut options = Vec::new();
        while input.peek(syn::Ident) {
            options.push(input.parse()?);
            input.parse::<Token![,]>()?;
        }
        if input.peek(syn::Lifetime) {
            return Err(input.error("a parallel loop has no label: no other loop can leave or continue it"));
        }
        input.parse::<Token![for]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        input.parse::<Token![in]>()?;
        let space = input.call(Expr::parse_without_eager_brace)?;
        let body = input.parse()?;
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error("nothing may follow the loop"));
        }
        Ok(Self { run_time, cluster, options, pattern, space, body })
    }
}

/// Returns the path of the facade's run time, with the hygiene of the macro.
fn default_run_time() -> TokenStream {
    let path: TokenStream = DEFAULT_RUN_TIME.parse().expect("a path");
    path.into_iter()
        .map(|mut tree| {
            tree.set_span(Span::mixed_site());
            tree
        })
        .collect()
}

impl LoopSyntax {
    /// Checks the header. Returns `None` only if it has added an error to `diagnostics`.
    pub(crate) fn header(&self, diagnostics: &mut Diagnostics) -> Option<LoopHeader> {
        let options = options(&self.options, diagnostics);
        let Some(space) = space(&self.space, diagnostics) else {
            // Only ranges can be wrong here, so the pattern names indices.
            index_names(&self.pattern, None, diagnostics);
            return None;
        };
        let (indices, value) = match &space {
            SpaceSyntax::Entries { .. } => entry(&self.pattern, diagnostics)?,
            SpaceSyntax::Ranges(ranges) => {
                (index_names(&self.pattern, Some(ranges.len()), diagnostics)?, syn::parse_quote!(_))
            }
        };
        let count = indices.each().len();
        if count > MAX_DIMENSIONS {
            diagnostics
                .at(&self.pattern, format_args!("a loop has at most {MAX_DIMENSIONS} indices, this one has {count}"));
            return None;
        }
        let space_tokens = self.space.to_token_stream();
        let indices_span = match (&space, &self.pattern) {
            (SpaceSyntax::Entries { .. }, Pat::Tuple(parts)) => parts.elems[0].span(),
            _ => self.pattern.span(),
        };
        let (run_time, cluster) = (self.run_time.clone(), self.cluster.clone());
        Some(LoopHeader { run_time, cluster, options, indices, indices_span, value, space, space_tokens })
    }
}

fn options(words: &[Ident], diagnostics: &mut Diagnostics) -> LoopOptions {
    let mut options = LoopOptions::default();
    for word in words {
        let option = match word.to_string().as_str() {
            "ordered" => &mut options.ordered,
            "repeated" => &mut options.repeated,
            "explain" => &mut options.explain,
            other => {
                diagnostics.at(word, format_args!("unknown option `{other}`; use `ordered`, `repeated` or `explain`"));
                continue;
            }
        };
        if std::mem::replace(option, true) {
            diagnostics.at(word, format_args!("option `{word}` is given twice"));
        }
    }
    options
}

fn space(space: &Expr, diagnostics: &mut Diagnostics) -> Option<SpaceSyntax> {
    match unwrapped(space) {
        Expr::Range(range) => checked(range, diagnostics).map(|range| SpaceSyntax::Ranges(vec![range])),
        Expr::Array(array) => {
            if array.elems.is_empty() {
                diagnostics.at(space, "an iteration space has at least one range, as in `[0..n, 0..m]`");
                return None;
            }
            let ranges = array.elems.iter().map(|element| match unwrapped(element) {
                Expr::Range(range) => checked(range, diagnostics),
                Expr::MethodCall(call) if starts_with_range(&call.receiver) => {
                    diagnostics.at(&call.method, adapted_range(&call.method));
                    None
                }
                other => {
                    diagnostics
                        .at(other, "expected a range such as `0..n`; ranges are written in place, one for each index");
                    None
                }
            });
            // Not `collect::<Option<_>>` at once: it would stop at the first error.
            let ranges: Vec<Option<ExprRange>> = ranges.collect();
            ranges.into_iter().collect::<Option<_>>().map(SpaceSyntax::Ranges)
        }
        Expr::Reference(reference) => {
            Some(SpaceSyntax::Entries { array: Box::new(space.clone()), mutable: reference.mutability.is_some() })
        }
        Expr::MethodCall(call) if starts_with_range(&call.receiver) => {
            diagnostics.at(&call.method, adapted_range(&call.method));
            None
        }
        _ => Some(SpaceSyntax::Entries { array: Box::new(space.clone()), mutable: false }),
    }
}

/// True for a range and for a chain of method calls on one.
fn starts_with_range(expr: &Expr) -> bool {
    match unwrapped(expr) {
        Expr::Range(_) => true,
        Expr::MethodCall(call) => starts_with_range(&call.receiver),
        _ => false,
    }
}

/// Message for a range with an iterator adaptor.
fn adapted_range(method: &Ident) -> String {
    match method.to_string().as_str() {
        "step_by" => "the index of a parallel loop takes every value of its range; count the steps instead: \
                      `for k in 0..n.div_ceil(step)`, with `let i = k * step;` in the body"
            .to_owned(),
        "rev" => "the iterations of a parallel loop have no order of their own; leave `rev` out, or compute the \
                  index in the body: `let i = n - 1 - k;`"
            .to_owned(),
        other => format!(
            "`{other}` is for iterators, and a parallel loop runs over a range such as `0..n` or the entries of an \
             array; compute what the iteration needs in the body"
        ),
    }
}

fn checked(range: &ExprRange, diagnostics: &mut Diagnostics) -> Option<ExprRange> {
    if range.start.is_some() && range.end.is_some() {
        return Some(range.clone());
    }
    let both = match range.limits {
        RangeLimits::HalfOpen(_) => "`0..n`",
        RangeLimits::Closed(_) => "`1..=n`",
    };
    diagnostics.at(range, format_args!("the range of a loop index needs both ends, as in {both}"));
    None
}

/// Parses `([u, i], value)`, `(i, value)` and `(_, value)`.
fn entry(pattern: &Pat, diagnostics: &mut Diagnostics) -> Option<(IndexPattern, Pat)> {
    let Pat::Tuple(parts) = unwrapped_pattern(pattern) else {
        diagnostics.at(
            pattern,
            "the pattern of a loop over an array names key and value: `for ([i, j], value) in &array`; \
             for a loop over indices write the ranges in place: `for [i, j] in [0..n, 0..m]`",
        );
        return None;
    };
    let parts: Vec<&Pat> = parts.elems.iter().collect();
    let [key, value] = parts[..] else {
        diagnostics.at(pattern, "the pattern of a loop over an array has two parts: `([i, j], value)`");
        return None;
    };
    let indices = match unwrapped_pattern(key) {
        Pat::Wild(_) => IndexPattern::Ignored,
        Pat::Slice(keys) => IndexPattern::Named(names(keys.elems.iter(), diagnostics)?),
        one => IndexPattern::Named(names(std::iter::once(one), diagnostics)?),
    };
    Some((indices, value.clone()))
}

/// Parses `i`, `[i, j]` and `_`, and compares their number with `dimensions`, if it is known.
fn index_names(pattern: &Pat, dimensions: Option<usize>, diagnostics: &mut Diagnostics) -> Option<IndexPattern> {
    let names = match unwrapped_pattern(pattern) {
        Pat::Wild(_) => vec![None; dimensions?],
        Pat::Slice(keys) => names(keys.elems.iter(), diagnostics)?,
        one => names(std::iter::once(one), diagnostics)?,
    };
    let (found, expected) = (names.len(), dimensions?);
    if found != expected {
        diagnostics.at(
            pattern,
            format_args!("found {found} index names for {expected} ranges; give one name, or `_`, per range"),
        );
        return None;
    }
    Some(IndexPattern::Named(names))
}

fn names<'a>(patterns: impl Iterator<Item = &'a Pat>, diagnostics: &mut Diagnostics) -> Option<Vec<Option<Ident>>> {
    let names: Vec<Option<Option<Ident>>> = patterns
        .map(|pattern| match unwrapped_pattern(pattern) {
            Pat::Wild(_) => Some(None),
            Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, ident, .. }) => {
                Some(Some(ident.clone()))
            }
            Pat::Ident(PatIdent { mutability: Some(_), ident, .. }) => {
                diagnostics.at(
                    pattern,
                    format_args!("a loop index cannot be `mut`; copy it inside the body: `let mut {ident} = {ident};`"),
                );
                None
            }
            other => {
                diagnostics.at(other, "expected the name of a loop index or `_`");
                None
            }
        })
        .collect();
    names.into_iter().collect()
}

fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => unwrapped(&inner.expr),
        Expr::Group(inner) => unwrapped(&inner.expr),
        other => other,
    }
}

fn unwrapped_pattern(pattern: &Pat) -> &Pat {
    match pattern {
        Pat::Paren(inner) => unwrapped_pattern(&inner.pat),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(source: &str) -> (Option<LoopHeader>, Vec<String>) {
        let mut diagnostics = Diagnostics::default();
        let header = match syn::parse_str::<LoopSyntax>(source) {
            Ok(parsed) => parsed.header(&mut diagnostics),
            Err(error) => {
                diagnostics.add(error);
                None
            }
        };
        (header, diagnostics.messages())
    }

    fn header(source: &str) -> LoopHeader {
        let (header, diagnostics) = parsed(source);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        header.unwrap()
    }

    fn index_list(header: &LoopHeader) -> String {
        let names = header.indices.each().iter();
        names.map(|name| name.as_ref().map_or("_".to_owned(), ToString::to_string)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_forms_of_iteration_space_are_parsed() {
        for (source, indices, kind) in [
            ("c, for ([u, i], r) in &ratings {}", "u i", "entries"),
            ("c, for ([u, _], (a, b)) in &mut ratings {}", "u _", "entries mut"),
            ("c, for (i, &x) in rows {}", "i", "entries"),
            ("c, for (_, x) in model.rows() {}", "", "entries"),
            ("c, for i in 0..n {}", "i", "1 ranges"),
            ("c, for i in (0..n) {}", "i", "1 ranges"),
            ("c, for _ in 0..=n {}", "_", "1 ranges"),
            ("&c, for [i, j] in [1..n - 1, 1..=m] {},", "i j", "2 ranges"),
            ("c, for _ in [1..n, 1..m] {}", "_ _", "2 ranges"),
        ] {
            let header = header(source);
            let found = match &header.space {
                SpaceSyntax::Entries { mutable: false, .. } => "entries".to_owned(),
                SpaceSyntax::Entries { mutable: true, .. } => "entries mut".to_owned(),
                SpaceSyntax::Ranges(ranges) => format!("{} ranges", ranges.len()),
            };
            assert_eq!((index_list(&header).as_str(), found.as_str()), (indices, kind), "{source}");
        }
    }

    #[test]
    fn options_may_come_in_any_order() {
        let options = header("c, explain, ordered, for i in 0..n {}").options;
        assert_eq!(options, LoopOptions { ordered: true, repeated: false, explain: true });
    }

    #[test]
    fn invalid_headers_are_reported_completely() {
        for (source, expected) in [
            ("for i in 0..n {}", vec!["`parallel_for!` starts with the cluster"]),
            ("c, 'a: for i in 0..n {}", vec!["has no label"]),
            ("c, for i in 0..n {} x", vec!["nothing may follow"]),
            (
                "c, fast, ordered, ordered, for i in 0..n {}",
                vec!["unknown option `fast`", "option `ordered` is given twice"],
            ),
            ("c, for [i, j] in [0.., ..m] {}", vec!["needs both ends, as in `0..n`", "needs both ends"]),
            ("c, for [i, mut j] in [0..=5, 0..] {}", vec!["needs both ends", "cannot be `mut`"]),
            ("c, for [i] in [] {}", vec!["at least one range"]),
            ("c, for [i, j] in [0..n, m] {}", vec!["expected a range such as `0..n`"]),
            ("c, for [i, j] in [0..n] {}", vec!["found 2 index names for 1 ranges"]),
            ("c, for i in rows {}", vec!["names key and value"]),
            ("c, for (i, j, x) in &rows {}", vec!["has two parts"]),
            ("c, for ([mut i, (a, b)], x) in &rows {}", vec!["cannot be `mut`", "expected the name of a loop index"]),
            ("c, for [a, b, c, d, e] in [0..1, 0..1, 0..1, 0..1, 0..1] {}", vec!["at most 4 indices, this one has 5"]),
        ] {
            let (_, diagnostics) = parsed(source);
            assert_eq!(diagnostics.len(), expected.len(), "{source}: {diagnostics:?}");
            for (diagnostic, expected) in diagnostics.iter().zip(expected) {
                assert!(diagnostic.contains(expected), "{source}: {diagnostic}");
            }
        }
    }
}
