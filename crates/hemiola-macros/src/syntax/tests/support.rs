//! Helpers that return the result of each step of the front end.

use proc_macro2::TokenStream;
use syn::Block;

use crate::syntax::accesses::AccessTable;
use crate::syntax::diagnostics::Diagnostics;
use crate::syntax::header::LoopHeader;
use crate::syntax::names::NameTable;
use crate::syntax::{AnalyzedLoop, analyze};

/// Analyzes `source`, the text between the parentheses of `parallel_for!`.
pub(crate) fn analyzed(source: &str) -> AnalyzedLoop {
    let mut diagnostics = Diagnostics::default();
    let parsed = syn::parse_str(source).unwrap_or_else(|error| panic!("{error}: {source}"));
    let analyzed = analyze(parsed, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{source}: {:?}", diagnostics.messages());
    analyzed.expect("without diagnostics there is a result")
}

pub(crate) fn resolved(source: &str) -> (LoopHeader, NameTable, Block) {
    let AnalyzedLoop { header, names, body, .. } = analyzed(source);
    (header, names, body)
}

pub(crate) fn table(source: &str) -> AccessTable {
    analyzed(source).table
}

/// Compares tokens and ignores spaces.
#[track_caller]
pub(crate) fn same_tokens(found: &str, expected: &str) {
    let normal = |source: &str| {
        source.parse::<TokenStream>().unwrap_or_else(|_| panic!("not tokens: {source}")).to_string().replace(' ', "")
    };
    assert_eq!(normal(found), normal(expected));
}

pub(crate) fn table_and_names(source: &str) -> (AccessTable, Vec<String>) {
    let AnalyzedLoop { table, names, .. } = analyzed(source);
    (table, names.captures.into_iter().map(|capture| capture.text).collect())
}
