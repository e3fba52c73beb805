//! Short ways to the results of each step, for tests.

use proc_macro2::TokenStream;
use syn::Block;

use super::accesses::Table;
use super::header::Header;
use super::names::Names;
use super::problems::Problems;
use super::{Analyzed, analyze};

/// Analyses `source`, which is what stands between the parentheses of `parallel_for!`.
pub(crate) fn analyzed(source: &str) -> Analyzed {
    let mut problems = Problems::default();
    let parsed = syn::parse_str(source).unwrap_or_else(|error| panic!("{error}: {source}"));
    let analyzed = analyze(parsed, &mut problems);
    assert!(problems.is_empty(), "{source}: {:?}", problems.messages());
    analyzed.expect("without problems there is a result")
}

pub(crate) fn resolved(source: &str) -> (Header, Names, Block) {
    let Analyzed { header, names, body, .. } = analyzed(source);
    (header, names, body)
}

pub(crate) fn table(source: &str) -> Table {
    analyzed(source).table
}

/// Compares tokens, whatever the spaces.
#[track_caller]
pub(crate) fn same_tokens(found: &str, expected: &str) {
    let normal = |source: &str| {
        source.parse::<TokenStream>().unwrap_or_else(|_| panic!("not tokens: {source}")).to_string().replace(' ', "")
    };
    assert_eq!(normal(found), normal(expected));
}

pub(crate) fn table_and_names(source: &str) -> (Table, Vec<String>) {
    let Analyzed { table, names, .. } = analyzed(source);
    (table, names.captures.into_iter().map(|capture| capture.text).collect())
}
