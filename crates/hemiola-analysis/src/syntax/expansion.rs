//! The tokens that a loop becomes.
//!
//! ```text
//! {
//!     let site = { static SITE: Site = Site { .. }; &SITE };           // what the macro learned, as data
//!     let captures = { use probing::*; checks; (probe.capture(0), (probe.capture(1), ())) };
//!     for_each_entry(&cluster, site, &ratings, captures,
//!         |(w, (h, ())), [u, i], rating| { let w = w.place(); let h = h.place(); BODY },
//!         |(w, (h, ())), [u, i], rating| { SLICE })
//! }
//! ```
//! A probe decides by the *type* of a captured name what it is: an array declares itself, an accumulator becomes a cell of the
//! worker, any other value is borrowed. The checks are calls on probes, too: they cost nothing and fail to compile, at
//! the user's span, where a plain value is written or a value that is not `Copy` is taken.
//!
//! Nothing of ours can meet a name of the user: variables have the macro's hygiene, items and traits stay in blocks that hold no
//! code of the user, and everything else is named by its full path.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, RangeLimits};

use super::accesses::Table;
use super::header::{Header, Indices, Space};
use super::names::{Names, generated};
use super::problems::Problems;
use super::{Analyzed, text};
use crate::{Access, Mode, Subscript};

/// The module of the run time that the expansion calls.
const RUN_TIME: &str = "::hemiola::loops::expand";

/// The whole loop as one expression.
pub(crate) fn expansion(analyzed: &Analyzed) -> TokenStream {
    let Analyzed { header, names, table, .. } = analyzed;
    let run_time = run_time();
    let site = site(header, names, table);
    let captures = captures(names, table);
    let body = closure(analyzed);
    let slice = super::slice::closure(analyzed, &key(header), value(analyzed).as_ref());
    let cluster = operand(&header.cluster);
    let (function, space) = match &header.space {
        Space::Entries { array, mutable: false } => (quote!(for_each_entry), array.to_token_stream()),
        Space::Entries { array, mutable: true } => (quote!(for_each_entry_mut), array.to_token_stream()),
        Space::Ranges(ranges) => {
            // Half-open and closed ranges have different types; an array has one.
            let ranges = ranges.iter().map(|range| match range.limits {
                RangeLimits::HalfOpen(_) => range.to_token_stream(),
                RangeLimits::Closed(_) => quote!(#run_time::closed(#range)),
            });
            (quote!(for_each_index), quote!([#(#ranges),*]))
        }
    };
    let at = Span::mixed_site();
    let (site_variable, captures_variable) = (Ident::new("site", at), Ident::new("captures", at));
    quote_spanned! {at=> {
        let #site_variable = #site;
        let #captures_variable = #captures;
        #run_time::#function(&#cluster, #site_variable, #space, #captures_variable, #body, #slice)
    }}
}

/// What a loop becomes that has problems: the problems, and uses of its names, so that the compiler does not add that they are
/// unused.
pub(crate) fn refusal(problems: &Problems, parts: Option<(&Header, &Names)>) -> TokenStream {
    let errors = problems.to_tokens();
    let uses = parts.map(|(header, names)| {
        let (cluster, paths) = (operand(&header.cluster), names.captures.iter().map(|capture| &capture.path));
        let space = match &header.space {
            Space::Entries { array, .. } => vec![array.to_token_stream()],
            Space::Ranges(ranges) => ranges.iter().map(|range| quote!((#range))).collect(),
        };
        quote!(let _ = || (&#cluster, #(&#space,)* #(&#paths,)*);)
    });
    quote!({ #uses #errors })
}

/// The path of the run time, at the macro's own span.
pub(crate) fn run_time() -> TokenStream {
    let path: TokenStream = RUN_TIME.parse().expect("a path");
    path.into_iter()
        .map(|mut tree| {
            tree.set_span(Span::mixed_site());
            tree
        })
        .collect()
}

/// `[u, i]`, as a pattern.
fn key(header: &Header) -> TokenStream {
    match &header.indices {
        Indices::Ignored => quote!(_),
        Indices::Named(names) => {
            let names = names.iter().map(|name| name.as_ref().map_or_else(|| quote!(_), ToTokens::to_token_stream));
            quote_spanned!(generated(header.indices_span)=> [#(#names),*])
        }
    }
}

/// The value's pattern, if entries have one.
fn value(analyzed: &Analyzed) -> Option<TokenStream> {
    match analyzed.header.space {
        Space::Entries { .. } => {
            let names = &analyzed.names;
            Some(names.restore(&analyzed.header.value, &|occurrence| names.written(occurrence)))
        }
        Space::Ranges(_) => None,
    }
}

/// `(w, (h, ()))`, as a pattern, with what `variable` says for each captured name.
pub(crate) fn captured_pattern(names: &Names, variable: impl Fn(usize) -> TokenStream) -> TokenStream {
    (0..names.captures.len()).rev().fold(quote!(()), |rest, number| {
        let variable = variable(number);
        quote!((#variable, #rest))
    })
}

/// A variable of the expansion.
pub(crate) fn variable(word: &str) -> TokenStream {
    Ident::new(word, Span::mixed_site()).into_token_stream()
}

fn closure(analyzed: &Analyzed) -> TokenStream {
    let Analyzed { header, names, table, body, .. } = analyzed;
    let (key, value) = (key(header), value(analyzed).into_iter());
    let pattern = captured_pattern(names, |number| variable(&names.captures[number].word));
    let variables = names.captures.iter().map(|capture| variable(&capture.word));
    let body = super::rewrite::rewritten(body, names, table);
    // Lints on how a closure ends: the user wrote a loop's body, not a closure's.
    quote! {
        #[allow(clippy::semicolon_if_nothing_returned)]
        |#pattern, #key #(, #value)*| { #(let #variables = #variables.place();)* #body }
    }
}

/// Checks and probes, as one expression: a list of pairs.
fn captures(names: &Names, table: &Table) -> TokenStream {
    if names.captures.is_empty() {
        return quote!(());
    }
    let run_time = run_time();
    let written = table.written.iter().map(|occurrence| {
        let (path, span) = (names.written(*occurrence), generated(names.occurrences[*occurrence].end));
        quote_spanned!(span=> #run_time::Probe::<_, true>(&#path).must_be_shared();)
    });
    let taken = table.taken.iter().map(|occurrence| {
        let (path, span) = (names.written(*occurrence), generated(names.occurrences[*occurrence].end));
        quote_spanned!(span=> #run_time::Probe::<_, false>(&#path).must_be_copy();)
    });
    let probes = names.captures.iter().enumerate().rev().fold(quote!(()), |rest, (number, capture)| {
        let (path, writes) = (&capture.path, table.writes(number));
        quote!((#run_time::Probe::<_, #writes>(&#path).capture(#number), #rest))
    });
    quote!({
        #[allow(unused_imports)]
        use #run_time::probing::*;
        #(#written)*
        #(#taken)*
        #probes
    })
}

fn site(header: &Header, names: &Names, table: &Table) -> TokenStream {
    let run_time = run_time();
    let super::header::Options { ordered, repeated, explain } = header.options;
    let indices = header.indices.each().iter().map(|name| name.as_ref().map_or("_".to_owned(), ToString::to_string));
    let space = text::text(header.space_tokens.clone());
    let texts = names.captures.iter().map(|capture| &capture.text);
    let accesses = table.accesses.iter().map(access);
    quote!({
        static SITE: #run_time::Site = #run_time::Site {
            file: ::core::file!(),
            line: ::core::line!(),
            column: ::core::column!(),
            ordered: #ordered,
            repeated: #repeated,
            explain: #explain,
            indices: &[#(#indices),*],
            space: #space,
            names: &[#(#texts),*],
            accesses: &[#(#accesses),*],
        };
        &SITE
    })
}

fn access(access: &Access) -> TokenStream {
    let run_time = run_time();
    let Access { name, subscripts, mode, text, line, column } = access;
    let subscripts = subscripts.iter().map(subscript);
    let mode = match mode {
        Mode::Read => quote!(Read),
        Mode::Write => quote!(Write),
        Mode::Update => quote!(Update),
    };
    quote!(#run_time::Access {
        name: #name,
        subscripts: ::std::borrow::Cow::Borrowed(&[#(#subscripts),*]),
        mode: #run_time::Mode::#mode,
        text: ::std::borrow::Cow::Borrowed(#text),
        line: #line,
        column: #column,
    })
}

fn subscript(subscript: &Subscript) -> TokenStream {
    let run_time = run_time();
    let optional = |end: &Option<i64>| {
        end.map_or_else(|| quote!(::core::option::Option::None), |end| quote!(::core::option::Option::Some(#end)))
    };
    let variant = match subscript {
        Subscript::Index { dimension, offset } => quote!(Index { dimension: #dimension, offset: #offset }),
        Subscript::Constant(value) => quote!(Constant(#value)),
        Subscript::Invariant(text) => quote!(Invariant(::std::borrow::Cow::Borrowed(#text))),
        Subscript::Range { from, to } => {
            let (from, to) = (optional(from), optional(to));
            quote!(Range { from: #from, to: #to })
        }
        Subscript::Unknown => quote!(Unknown),
    };
    quote!(#run_time::Subscript::#variant)
}

/// An expression that `&` can stand before.
fn operand(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) | Expr::Reference(_) | Expr::Paren(_) => {
            expr.to_token_stream()
        }
        other => quote!((#other)),
    }
}
