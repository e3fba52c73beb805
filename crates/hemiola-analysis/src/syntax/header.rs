//! What stands around the body: `cluster, ordered, for ([u, i], rating) in &ratings`.
//!
//! ```text
//! parallel_for!(CLUSTER, [ordered,] [repeated,] [explain,] for PATTERN in SPACE { BODY })
//! ```
//! Two kinds of iteration space can be told apart by how they are written. Ranges are written in place (`0..n`,
//! `[1..n, 1..=m]`) and their pattern names indices (`i`, `[i, j]`). Anything else is an array, whose pattern names a key
//! and a value (`([u, i], rating)`). **Invariant:** a parsed header has at most [`MOST_DIMENSIONS`] indices, each a plain name
//! or `_`.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprRange, Pat, PatIdent, RangeLimits, Token};

use super::problems::Problems;

/// The most indices a loop may have.
pub(crate) const MOST_DIMENSIONS: usize = 4;

/// `ordered`, `repeated`, `explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) ordered: bool,
    pub(crate) repeated: bool,
    pub(crate) explain: bool,
}

/// What the loop runs over.
#[derive(Clone, Debug)]
pub(crate) enum Space {
    /// The entries of an array; `&mut array` lets the body change their values.
    Entries { array: Box<Expr>, mutable: bool },
    /// All combinations of indices from these ranges.
    Ranges(Vec<ExprRange>),
}

/// The names of the indices.
#[derive(Clone, Debug)]
pub(crate) enum Indices {
    /// One per dimension; `None` is `_`.
    Named(Vec<Option<Ident>>),
    /// `_` for all of them: the number of dimensions is not written.
    Ignored,
}

impl Indices {
    /// The written indices, none if all are ignored.
    pub(crate) fn each(&self) -> &[Option<Ident>] {
        match self {
            Self::Named(names) => names,
            Self::Ignored => &[],
        }
    }
}

/// Everything but the body.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) cluster: Expr,
    pub(crate) options: Options,
    pub(crate) indices: Indices,
    /// Where the indices are named.
    pub(crate) indices_span: Span,
    /// The pattern for an entry's value; `_` in loops over ranges.
    pub(crate) value: Pat,
    pub(crate) space: Space,
    /// The space as written.
    pub(crate) space_tokens: proc_macro2::TokenStream,
}

/// The tokens of a whole loop, sorted but not yet understood.
pub(crate) struct Loop {
    cluster: Expr,
    options: Vec<Ident>,
    pattern: Pat,
    space: Expr,
    pub(crate) body: Block,
}

impl Parse for Loop {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
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
        Ok(Self { cluster, options, pattern, space, body })
    }
}

impl Loop {
    /// Understands what was parsed. `None` only if `problems` says why.
    pub(crate) fn header(&self, problems: &mut Problems) -> Option<Header> {
        let options = options(&self.options, problems);
        let Some(space) = space(&self.space, problems) else {
            // Only ranges can be wrong, so the pattern names indices.
            index_names(&self.pattern, None, problems);
            return None;
        };
        let (indices, value) = match &space {
            Space::Entries { .. } => entry(&self.pattern, problems)?,
            Space::Ranges(ranges) => (index_names(&self.pattern, Some(ranges.len()), problems)?, syn::parse_quote!(_)),
        };
        let count = indices.each().len();
        if count > MOST_DIMENSIONS {
            problems
                .at(&self.pattern, format_args!("a loop has at most {MOST_DIMENSIONS} indices, this one has {count}"));
            return None;
        }
        let space_tokens = self.space.to_token_stream();
        let indices_span = match (&space, &self.pattern) {
            (Space::Entries { .. }, Pat::Tuple(parts)) => parts.elems[0].span(),
            _ => self.pattern.span(),
        };
        Some(Header { cluster: self.cluster.clone(), options, indices, indices_span, value, space, space_tokens })
    }
}

fn options(words: &[Ident], problems: &mut Problems) -> Options {
    let mut options = Options::default();
    for word in words {
        let option = match word.to_string().as_str() {
            "ordered" => &mut options.ordered,
            "repeated" => &mut options.repeated,
            "explain" => &mut options.explain,
            other => {
                problems
                    .at(word, format_args!("no such option: `{other}`; there are `ordered`, `repeated` and `explain`"));
                continue;
            }
        };
        if std::mem::replace(option, true) {
            problems.at(word, format_args!("`{word}` is said twice"));
        }
    }
    options
}

fn space(space: &Expr, problems: &mut Problems) -> Option<Space> {
    match unwrapped(space) {
        Expr::Range(range) => checked(range, problems).map(|range| Space::Ranges(vec![range])),
        Expr::Array(array) => {
            if array.elems.is_empty() {
                problems.at(space, "an iteration space has at least one range, as in `[0..n, 0..m]`");
                return None;
            }
            let ranges = array.elems.iter().map(|element| match unwrapped(element) {
                Expr::Range(range) => checked(range, problems),
                other => {
                    problems
                        .at(other, "expected a range such as `0..n`; ranges are written in place, one for each index");
                    None
                }
            });
            // Not `collect::<Option<_>>` at once: it would stop at the first problem.
            let ranges: Vec<Option<ExprRange>> = ranges.collect();
            ranges.into_iter().collect::<Option<_>>().map(Space::Ranges)
        }
        Expr::Reference(reference) => {
            Some(Space::Entries { array: Box::new(space.clone()), mutable: reference.mutability.is_some() })
        }
        _ => Some(Space::Entries { array: Box::new(space.clone()), mutable: false }),
    }
}

fn checked(range: &ExprRange, problems: &mut Problems) -> Option<ExprRange> {
    if range.start.is_some() && range.end.is_some() {
        return Some(range.clone());
    }
    let both = match range.limits {
        RangeLimits::HalfOpen(_) => "`0..n`",
        RangeLimits::Closed(_) => "`1..=n`",
    };
    problems.at(range, format_args!("the range of a loop index needs both ends, as in {both}"));
    None
}

/// `([u, i], value)`, `(i, value)`, `(_, value)`.
fn entry(pattern: &Pat, problems: &mut Problems) -> Option<(Indices, Pat)> {
    let Pat::Tuple(parts) = unwrapped_pattern(pattern) else {
        problems.at(
            pattern,
            "the pattern of a loop over an array names key and value: `for ([i, j], value) in &array`; \
             for a loop over indices write the ranges in place: `for [i, j] in [0..n, 0..m]`",
        );
        return None;
    };
    let parts: Vec<&Pat> = parts.elems.iter().collect();
    let [key, value] = parts[..] else {
        problems.at(pattern, "the pattern of a loop over an array has two parts: `([i, j], value)`");
        return None;
    };
    let indices = match unwrapped_pattern(key) {
        Pat::Wild(_) => Indices::Ignored,
        Pat::Slice(keys) => Indices::Named(names(keys.elems.iter(), problems)?),
        one => Indices::Named(names(std::iter::once(one), problems)?),
    };
    Some((indices, value.clone()))
}

/// `i`, `[i, j]`, `_`; as many as there are dimensions, if that is known.
fn index_names(pattern: &Pat, dimensions: Option<usize>, problems: &mut Problems) -> Option<Indices> {
    let names = match unwrapped_pattern(pattern) {
        Pat::Wild(_) => vec![None; dimensions?],
        Pat::Slice(keys) => names(keys.elems.iter(), problems)?,
        one => names(std::iter::once(one), problems)?,
    };
    let (found, expected) = (names.len(), dimensions?);
    if found != expected {
        problems.at(
            pattern,
            format_args!("found {found} index names for {expected} ranges; each range needs one, `_` will do"),
        );
        return None;
    }
    Some(Indices::Named(names))
}

fn names<'a>(patterns: impl Iterator<Item = &'a Pat>, problems: &mut Problems) -> Option<Vec<Option<Ident>>> {
    let names: Vec<Option<Option<Ident>>> = patterns
        .map(|pattern| match unwrapped_pattern(pattern) {
            Pat::Wild(_) => Some(None),
            Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, ident, .. }) => {
                Some(Some(ident.clone()))
            }
            Pat::Ident(PatIdent { mutability: Some(_), ident, .. }) => {
                problems.at(
                    pattern,
                    format_args!("a loop index cannot be `mut`; copy it inside the body: `let mut {ident} = {ident};`"),
                );
                None
            }
            other => {
                problems.at(other, "expected the name of a loop index or `_`");
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

    fn parsed(source: &str) -> (Option<Header>, Vec<String>) {
        let mut problems = Problems::default();
        let header = match syn::parse_str::<Loop>(source) {
            Ok(parsed) => parsed.header(&mut problems),
            Err(error) => {
                problems.add(error);
                None
            }
        };
        (header, problems.messages())
    }

    fn header(source: &str) -> Header {
        let (header, problems) = parsed(source);
        assert!(problems.is_empty(), "{problems:?}");
        header.unwrap()
    }

    fn index_list(header: &Header) -> String {
        let names = header.indices.each().iter();
        names.map(|name| name.as_ref().map_or("_".to_owned(), ToString::to_string)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_ways_to_write_a_space_are_understood() {
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
                Space::Entries { mutable: false, .. } => "entries".to_owned(),
                Space::Entries { mutable: true, .. } => "entries mut".to_owned(),
                Space::Ranges(ranges) => format!("{} ranges", ranges.len()),
            };
            assert_eq!((index_list(&header).as_str(), found.as_str()), (indices, kind), "{source}");
        }
    }

    #[test]
    fn options_may_come_in_any_order() {
        let options = header("c, explain, ordered, for i in 0..n {}").options;
        assert_eq!(options, Options { ordered: true, repeated: false, explain: true });
    }

    #[test]
    fn what_cannot_be_understood_is_said_in_full() {
        for (source, expected) in [
            ("for i in 0..n {}", vec!["`parallel_for!` starts with the cluster"]),
            ("c, 'a: for i in 0..n {}", vec!["has no label"]),
            ("c, for i in 0..n {} x", vec!["nothing may follow"]),
            ("c, fast, ordered, ordered, for i in 0..n {}", vec!["no such option: `fast`", "`ordered` is said twice"]),
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
            let (_, problems) = parsed(source);
            assert_eq!(problems.len(), expected.len(), "{source}: {problems:?}");
            for (problem, expected) in problems.iter().zip(expected) {
                assert!(problem.contains(expected), "{source}: {problem}");
            }
        }
    }
}
