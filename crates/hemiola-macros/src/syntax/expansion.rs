//! Expansion of a loop.
//!
//! ```text
//! {
//!     let site = { static SITE: LoopSite = LoopSite { .. }; &SITE };   // the analysis, as data
//!     let captures = { use probing::*; checks; (probe.capture(0), (probe.capture(1), ())) };
//!     for_each_entry(&cluster, site, &ratings, captures,
//!         |(w, (h, ())), [u, i], rating| { let w = w.resolve(); let h = h.resolve(); BODY },
//!         |(w, (h, ())), [u, i], rating| { SLICE })
//! }
//! ```
//! A probe selects the kind of a captured name by its *type*: an array registers itself, an
//! accumulator becomes a cell of the worker, any other value is borrowed. An array that the body
//! writes is borrowed by `&mut`, everything else by `&`. The checks are calls on probes, too. They
//! cost nothing, and fail to compile, at the user's span, if a plain value is written or a value
//! that is not `Copy` is moved.
//!
//! Ranges are evaluated before the captures, because they may read an array that the body writes:
//! `for i in 0..w.shape().extent(0)`.
//!
//! Generated names cannot collide with names of the user: variables have the macro's hygiene, items
//! and traits stay in blocks without user code, and everything else is named by its full path.

use hemiola_analysis::{Access, AccessMode, Subscript};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, RangeLimits};

use super::accesses::AccessTable;
use super::diagnostics::Diagnostics;
use super::header::{IndexPattern, LoopHeader, SpaceSyntax};
use super::names::{NameTable, generated};
use super::{AnalyzedLoop, token_text};

/// Expands the whole loop into one expression.
pub(crate) fn expansion(analyzed: &AnalyzedLoop) -> TokenStream {
    let AnalyzedLoop { header, names, table, .. } = analyzed;
    let run_time = &header.run_time;
    let site = site(header, names, table);
    let captures = captures(run_time, names, table);
    let body = closure(analyzed);
    let slice = super::slice::closure(analyzed, &key(header), value(analyzed).as_ref());
    let cluster = operand(&header.cluster);
    let at = Span::mixed_site();
    let (site_variable, captures_variable) = (Ident::new("site", at), Ident::new("captures", at));
    let ranges_variable = Ident::new("ranges", at);
    let (function, before, space) = match &header.space {
        SpaceSyntax::Entries { array, mutable: false } => (quote!(for_each_entry), None, array.to_token_stream()),
        SpaceSyntax::Entries { array, mutable: true } => (quote!(for_each_entry_mut), None, array.to_token_stream()),
        SpaceSyntax::Ranges(ranges) => {
            let count = ranges.len();
            // Half-open and closed ranges have different types; an array has one.
            let ranges = ranges.iter().map(|range| match range.limits {
                RangeLimits::HalfOpen(_) => range.to_token_stream(),
                RangeLimits::Closed(_) => quote!(#run_time::half_open(#range)),
            });
            let before = quote! {
                let #ranges_variable: [::core::ops::Range<::core::primitive::usize>; #count] = [#(#ranges),*];
            };
            (quote!(for_each_index), Some(before), ranges_variable.to_token_stream())
        }
    };
    quote_spanned! {at=> {
        let #site_variable = #site;
        #before
        let #captures_variable = #captures;
        #run_time::#function(&#cluster, #site_variable, #space, #captures_variable, #body, #slice)
    }}
}

/// Expands a loop with errors: the errors, and uses of its names, so that the compiler does not
/// report them as unused.
pub(crate) fn compile_errors(diagnostics: &Diagnostics, parts: Option<(&LoopHeader, &NameTable)>) -> TokenStream {
    let errors = diagnostics.to_tokens();
    let uses = parts.map(|(header, names)| {
        let (cluster, paths) = (operand(&header.cluster), names.captures.iter().map(|capture| &capture.path));
        let space = match &header.space {
            SpaceSyntax::Entries { array, .. } => vec![array.to_token_stream()],
            SpaceSyntax::Ranges(ranges) => ranges.iter().map(|range| quote!((#range))).collect(),
        };
        quote!(let _ = || (&#cluster, #(&#space,)* #(&#paths,)*);)
    });
    quote!({ #uses #errors })
}

/// Pattern of the indices: `[u, i]`.
fn key(header: &LoopHeader) -> TokenStream {
    match &header.indices {
        IndexPattern::Ignored => quote!(_),
        IndexPattern::Named(names) => {
            let names = names.iter().map(|name| name.as_ref().map_or_else(|| quote!(_), ToTokens::to_token_stream));
            quote_spanned!(generated(header.indices_span)=> [#(#names),*])
        }
    }
}

/// Pattern of the value, if entries have one.
fn value(analyzed: &AnalyzedLoop) -> Option<TokenStream> {
    match analyzed.header.space {
        SpaceSyntax::Entries { .. } => {
            let names = &analyzed.names;
            Some(names.restore(&analyzed.header.value, &|occurrence| names.written(occurrence)))
        }
        SpaceSyntax::Ranges(_) => None,
    }
}

/// Pattern `(w, (h, ()))`, with the result of `variable` for each captured name.
pub(crate) fn captured_pattern(names: &NameTable, variable: impl Fn(usize) -> TokenStream) -> TokenStream {
    (0..names.captures.len()).rev().fold(quote!(()), |rest, number| {
        let variable = variable(number);
        quote!((#variable, #rest))
    })
}

/// A variable of the expansion, with the macro's hygiene.
pub(crate) fn variable(word: &str) -> TokenStream {
    Ident::new(word, Span::mixed_site()).into_token_stream()
}

fn closure(analyzed: &AnalyzedLoop) -> TokenStream {
    let AnalyzedLoop { header, names, table, body, .. } = analyzed;
    let (key, value) = (key(header), value(analyzed).into_iter());
    let pattern = captured_pattern(names, |number| variable(&names.captures[number].word));
    let variables = names.captures.iter().map(|capture| variable(&capture.word));
    let body = super::rewrite::rewrite_body(body, names, table);
    // Silences lints on the end of a closure: the user wrote the body of a loop.
    quote! {
        #[allow(clippy::semicolon_if_nothing_returned)]
        |#pattern, #key #(, #value)*| { #(let #variables = #variables.resolve();)* #body }
    }
}

/// Checks and probes, as one expression: a list of pairs.
fn captures(run_time: &TokenStream, names: &NameTable, table: &AccessTable) -> TokenStream {
    if names.captures.is_empty() {
        return quote!(());
    }
    let written = table.written.iter().map(|occurrence| {
        let (path, span) = (names.written(*occurrence), generated(names.occurrences[*occurrence].end));
        quote_spanned!(span=> #run_time::CaptureProbe::<_, true>(&#path).must_be_writable();)
    });
    let by_value = table.by_value.iter().map(|occurrence| {
        let (path, span) = (names.written(*occurrence), generated(names.occurrences[*occurrence].end));
        quote_spanned!(span=> #run_time::CaptureProbe::<_, false>(&#path).must_be_copy();)
    });
    let probes = names.captures.iter().enumerate().rev().fold(quote!(()), |rest, (number, capture)| {
        // The borrow checker reports a written name at its first write.
        let write = table.written.iter().find(|occurrence| names.occurrences[**occurrence].capture == number);
        let probe = if let Some(occurrence) = write {
            let (path, span) = (names.written(*occurrence), generated(names.occurrences[*occurrence].end));
            let borrowed = quote_spanned!(span=> #path.borrow_written());
            quote!(#run_time::CaptureProbe::<_, true>(#borrowed))
        } else {
            let path = &capture.path;
            quote!(#run_time::CaptureProbe::<_, false>(&#path))
        };
        quote!((#probe.capture(#number), #rest))
    });
    quote!({
        #[allow(unused_imports)]
        use #run_time::probing::*;
        #(#written)*
        #(#by_value)*
        #probes
    })
}

fn site(header: &LoopHeader, names: &NameTable, table: &AccessTable) -> TokenStream {
    let run_time = &header.run_time;
    let super::header::LoopOptions { ordered, repeated, explain } = header.options;
    let indices = header.indices.each().iter().map(|name| name.as_ref().map_or("_".to_owned(), ToString::to_string));
    let space = token_text::text_of(header.space_tokens.clone());
    let texts = names.captures.iter().map(|capture| &capture.text);
    let accesses = table.accesses.iter().map(|each| access(run_time, each));
    quote!({
        static SITE: #run_time::LoopSite = #run_time::LoopSite {
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

fn access(run_time: &TokenStream, access: &Access) -> TokenStream {
    let Access { name, subscripts, mode, text, line, column } = access;
    let subscripts = subscripts.iter().map(|each| subscript(run_time, each));
    let mode = match mode {
        AccessMode::Read => quote!(Read),
        AccessMode::Write => quote!(Write),
        AccessMode::Update => quote!(Update),
    };
    quote!(#run_time::Access {
        name: #name,
        subscripts: ::std::borrow::Cow::Borrowed(&[#(#subscripts),*]),
        mode: #run_time::AccessMode::#mode,
        text: ::std::borrow::Cow::Borrowed(#text),
        line: #line,
        column: #column,
    })
}

fn subscript(run_time: &TokenStream, subscript: &Subscript) -> TokenStream {
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

/// Returns the expression in a form that can follow `&`.
fn operand(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) | Expr::Reference(_) | Expr::Paren(_) => {
            expr.to_token_stream()
        }
        other => quote!((#other)),
    }
}
