//! Meaning of each name in the body, recorded as tags in the body itself.
//!
//! [`scope`](super::scope) visits every identifier once, under Rust's scoping rules, and replaces
//! it by a tag: an identifier that occurs nowhere else and that this table explains. Later steps do
//! not have to consider shadowing: two tags of locals are equal if and only if they are the same
//! variable, every captured name is marked, and so is every loop index. [`NameTable::restore`]
//! turns tags back into the user's names.
//!
//! **Invariant:** `restore` with [`NameTable::written`] returns the user's tokens, except that
//! `S { x: x }` becomes `S { x }`.

use std::collections::BTreeMap;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprPath, Pat, UnOp};

use super::diagnostics::Diagnostics;

/// Meaning of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameMeaning {
    /// An occurrence of a captured name: an index into [`NameTable::occurrences`].
    Captured(usize),
    /// The loop index of this dimension.
    Index(usize),
    /// A variable bound inside the loop: an index into [`NameTable::locals`].
    Local(usize),
}

/// A name from outside the loop that the body uses: `w`, `self.w`, `pair.0`.
#[derive(Clone, Debug)]
pub(crate) struct CapturedName {
    /// Path of the first occurrence.
    pub(crate) path: Expr,
    /// Text of the path: `self.w`.
    pub(crate) text: String,
    /// Path as one word: `self_w`. The expansion binds the captured value to a variable of this
    /// name, so that compiler messages resemble the user's source.
    pub(crate) word: String,
}

/// One occurrence of a captured name.
#[derive(Clone, Debug)]
pub(crate) struct CaptureOccurrence {
    /// Captured name, as an index into [`NameTable::captures`].
    pub(crate) capture: usize,
    /// Path with the spans of this occurrence.
    pub(crate) path: Expr,
    /// Span of the first identifier.
    pub(crate) start: Span,
    /// Span of the last identifier or number.
    pub(crate) end: Span,
}

/// A variable bound by the loop's value pattern or inside the body.
#[derive(Clone, Debug)]
pub(crate) struct LocalVariable {
    /// Identifier where the variable is bound.
    #[cfg(test)]
    pub(crate) ident: Ident,
    /// True if it is bound with `mut`.
    pub(crate) mutable: bool,
}

/// Table of tags. See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameTable {
    pub(crate) captures: Vec<CapturedName>,
    pub(crate) occurrences: Vec<CaptureOccurrence>,
    pub(crate) locals: Vec<LocalVariable>,
    /// Names of functions, constants and imports that the body defines itself.
    pub(crate) items: std::collections::BTreeSet<String>,
    tags: BTreeMap<String, (NameMeaning, String)>,
}

impl NameTable {
    /// Returns the meaning of `ident`, if it is a tag.
    pub(crate) fn meaning(&self, ident: &Ident) -> Option<NameMeaning> {
        self.tags.get(&ident.to_string()).map(|(meaning, _)| *meaning)
    }

    /// Returns the meaning of `expr`, if it is a single tag.
    pub(crate) fn meaning_of(&self, expr: &Expr) -> Option<NameMeaning> {
        self.meaning(lone_ident(expr)?)
    }

    /// Returns the occurrence of a captured name that `place` is, through parentheses and `*`.
    ///
    /// If a place is indexed, assigned or the receiver of a method, `(*w)` and `w` are the same
    /// place, for every type of `w`.
    pub(crate) fn captured_place(&self, place: &Expr) -> Option<usize> {
        match place {
            Expr::Paren(inner) => self.captured_place(&inner.expr),
            Expr::Group(inner) => self.captured_place(&inner.expr),
            Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => self.captured_place(&inner.expr),
            _ => match self.meaning_of(place)? {
                NameMeaning::Captured(occurrence) => Some(occurrence),
                _ => None,
            },
        }
    }

    /// Adds an occurrence of the captured name `path`, whose text is `text`, and returns its tag.
    pub(crate) fn occurrence(&mut self, path: &Expr, text: String, span: (Span, Span)) -> Ident {
        let known = self.captures.iter().position(|capture| capture.text == text);
        let capture = known.unwrap_or_else(|| {
            let word = self.fresh_word(&text);
            self.captures.push(CapturedName { path: path.clone(), text, word });
            self.captures.len() - 1
        });
        let (start, end) = span;
        self.occurrences.push(CaptureOccurrence { capture, path: path.clone(), start, end });
        let number = self.occurrences.len() - 1;
        self.tag(format!("__n{number}"), NameMeaning::Captured(number), "", start)
    }

    /// Adds the variable that `ident` binds, and returns its tag.
    pub(crate) fn local(&mut self, ident: &Ident, mutable: bool) -> Ident {
        self.locals.push(LocalVariable {
            #[cfg(test)]
            ident: ident.clone(),
            mutable,
        });
        let number = self.locals.len() - 1;
        self.tag(format!("__l{number}"), NameMeaning::Local(number), &ident.to_string(), ident.span())
    }

    /// Returns the tag of a local with this span.
    pub(crate) fn local_tag(number: usize, span: Span) -> Ident {
        Ident::new(&format!("__l{number}"), span)
    }

    /// Returns the tag of a loop index that is written as `ident`.
    pub(crate) fn index(&mut self, dimension: usize, ident: &Ident) -> Ident {
        self.tag(format!("__i{dimension}"), NameMeaning::Index(dimension), &ident.to_string(), ident.span())
    }

    fn tag(&mut self, name: String, meaning: NameMeaning, written: &str, span: Span) -> Ident {
        let tag = Ident::new(&name, span);
        self.tags.entry(name).or_insert_with(|| (meaning, written.to_owned()));
        tag
    }

    /// Turns `self.w` into one word that no other captured name has.
    fn fresh_word(&self, text: &str) -> String {
        let mut word = text.replace("r#", "").replace('.', "_");
        while syn::parse_str::<Ident>(&word).is_err() || self.captures.iter().any(|capture| capture.word == word) {
            word.push('_');
        }
        word
    }

    /// Replaces tags by the user's names, and captured names by the result of `captured`.
    pub(crate) fn restore(&self, tokens: impl ToTokens, captured: &dyn Fn(usize) -> TokenStream) -> TokenStream {
        let mut restored: Vec<TokenTree> = Vec::new();
        let mut trees = tokens.into_token_stream().into_iter().peekable();
        while let Some(tree) = trees.next() {
            match tree {
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), self.restore(group.stream(), captured));
                    inner.set_span(group.span());
                    restored.push(inner.into());
                }
                TokenTree::Ident(ident) => match self.tags.get(&ident.to_string()) {
                    Some((NameMeaning::Captured(occurrence), _)) => restored.extend(captured(*occurrence)),
                    Some((_, written)) => {
                        let ends =
                            trees.peek().is_none_or(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == ','));
                        if ends && let Some(field) = field_of(&restored, written) {
                            restored.drain(field..field + 2);
                        }
                        restored.push(written_ident(written, ident.span()).into());
                    }
                    None => restored.push(ident.into()),
                },
                other => restored.push(other),
            }
        }
        restored.into_iter().collect()
    }

    /// Returns the user's tokens at an occurrence.
    pub(crate) fn written(&self, occurrence: usize) -> TokenStream {
        self.occurrences[occurrence].path.to_token_stream()
    }

    /// Returns the user's text of tagged tokens.
    pub(crate) fn text(&self, tokens: impl ToTokens) -> String {
        super::token_text::text_of(self.restore(tokens, &|occurrence| self.written(occurrence)))
    }

    /// Returns the variable of the expansion that holds the captured value of `occurrence`, with
    /// the span of that occurrence.
    pub(crate) fn variable(&self, occurrence: usize) -> Ident {
        let CaptureOccurrence { capture, end, .. } = &self.occurrences[occurrence];
        Ident::new(&self.captures[*capture].word, generated(*end))
    }

    /// Returns `(*w)`: the captured value, with the span of `occurrence`.
    pub(crate) fn value(&self, occurrence: usize) -> TokenStream {
        let (variable, start) = (self.variable(occurrence), generated(self.occurrences[occurrence].start));
        let star = quote_spanned!(start=> *);
        quote_spanned!(start=> (#star #variable))
    }
}

/// Reports identifiers that look like tags. They could occur in macros that the front end does not
/// parse, and would become uses of captured names that the table does not list.
pub(crate) fn reject_tags(tokens: &TokenStream, diagnostics: &mut Diagnostics) {
    for tree in tokens.clone() {
        match tree {
            TokenTree::Group(group) => reject_tags(&group.stream(), diagnostics),
            TokenTree::Ident(ident) if is_tag(&ident.to_string()) => {
                diagnostics.at(&ident, format_args!("`{ident}` is reserved by `parallel_for!`: choose another name"));
            }
            _ => {}
        }
    }
}

/// Returns whether a name has the form of a tag.
fn is_tag(name: &str) -> bool {
    let number = ["__n", "__l", "__i"].iter().find_map(|prefix| name.strip_prefix(prefix));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Returns a span for generated code that replaces the user's code at `span`. Messages point at the
/// user's code, but the generated code has the macro's hygiene and is not linted as user code.
pub(crate) fn generated(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// Returns the identifier, if `expr` is a single identifier.
pub(crate) fn lone_ident(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(ExprPath { qself: None, path, attrs }) if attrs.is_empty() => path.get_ident(),
        _ => None,
    }
}

/// Returns the identifier, if the pattern only binds one value by value.
pub(crate) fn plain_binding(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(&pat.ident),
        Pat::Type(typed) => plain_binding(&typed.pat),
        Pat::Paren(inner) => plain_binding(&inner.pat),
        _ => None,
    }
}

/// Returns the index of `field:`, if `before` ends in it (and perhaps `ref mut`) and the field is
/// called `written`.
fn field_of(before: &[TokenTree], written: &str) -> Option<usize> {
    let modifiers =
        before.iter().rev().take_while(|tree| matches!(tree, TokenTree::Ident(i) if i == "mut" || i == "ref"));
    let colon = before.len().checked_sub(1 + modifiers.count())?;
    let field = colon.checked_sub(1)?;
    match (&before[field], &before[colon]) {
        (TokenTree::Ident(name), TokenTree::Punct(punct)) if punct.as_char() == ':' && name == written => Some(field),
        _ => None,
    }
}

fn written_ident(written: &str, span: Span) -> Ident {
    match written.strip_prefix("r#") {
        Some(raw) => Ident::new_raw(raw, span),
        None => Ident::new(written, span),
    }
}
