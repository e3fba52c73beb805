//! What each name in the body means, written into the body itself.
//!
//! [`scope`](super::scope) looks at every identifier once, with Rust's scoping rules in hand, and replaces it by a tag:
//! an identifier that occurs nowhere else and that this table explains. After that, no later step has to think about
//! shadowing: two tags of locals are equal if and only if they are the same variable, every captured name stands out,
//! and a loop index is a loop index. [`Names::restore`] turns tags back into what the user wrote.
//!
//! **Invariant:** `restore` with [`Names::written`] gives the user's tokens back, except that `S { x: x }` becomes `S { x }`.

use std::collections::BTreeMap;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Expr, ExprPath, Pat, UnOp};

use super::problems::Problems;

/// What a tag stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An occurrence of a captured name: an index into [`Names::occurrences`].
    Captured(usize),
    /// The loop index of this dimension.
    Index(usize),
    /// A variable bound inside the loop: an index into [`Names::locals`].
    Local(usize),
}

/// A name of the surroundings that the body uses: `w`, `self.w`, `pair.0`.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// As it is first written.
    pub(crate) path: Expr,
    /// The same, as text: `self.w`.
    pub(crate) text: String,
    /// The same, as one word: `self_w`. The expansion binds the captured value to a variable of this name, so that
    /// the compiler's messages speak the user's words.
    pub(crate) word: String,
}

/// One place where a captured name stands.
#[derive(Clone, Debug)]
pub(crate) struct Occurrence {
    /// An index into [`Names::captures`].
    pub(crate) capture: usize,
    /// As written here, with the spans of this place.
    pub(crate) path: Expr,
    /// Span of the first identifier.
    pub(crate) start: Span,
    /// Span of the last identifier or number.
    pub(crate) end: Span,
}

/// A variable bound by the loop's value pattern or inside the body.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    /// As written where it is bound.
    #[cfg(test)]
    pub(crate) ident: Ident,
    /// Whether it is bound with `mut`.
    pub(crate) mutable: bool,
}

/// The table of tags. See the top of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) captures: Vec<Capture>,
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) locals: Vec<Local>,
    /// Names of functions, constants and imports that the body defines itself.
    pub(crate) items: std::collections::BTreeSet<String>,
    tags: BTreeMap<String, (Meaning, String)>,
}

impl Names {
    /// What `ident` stands for, if it is a tag.
    pub(crate) fn meaning(&self, ident: &Ident) -> Option<Meaning> {
        self.tags.get(&ident.to_string()).map(|(meaning, _)| *meaning)
    }

    /// What `expr` stands for, if it is a tag and nothing else.
    pub(crate) fn meaning_of(&self, expr: &Expr) -> Option<Meaning> {
        self.meaning(lone_ident(expr)?)
    }

    /// The occurrence of a captured name that `place` is, seen through parentheses and `*`.
    ///
    /// Where a place is indexed, assigned or a method's receiver, `(*w)` and `w` are the same place, whatever `w` is.
    pub(crate) fn captured_place(&self, place: &Expr) -> Option<usize> {
        match place {
            Expr::Paren(inner) => self.captured_place(&inner.expr),
            Expr::Group(inner) => self.captured_place(&inner.expr),
            Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => self.captured_place(&inner.expr),
            _ => match self.meaning_of(place)? {
                Meaning::Captured(occurrence) => Some(occurrence),
                _ => None,
            },
        }
    }

    /// A tag for one more occurrence of the captured name `path`, whose text is `text`.
    pub(crate) fn occurrence(&mut self, path: &Expr, text: String, span: (Span, Span)) -> Ident {
        let known = self.captures.iter().position(|capture| capture.text == text);
        let capture = known.unwrap_or_else(|| {
            let word = self.fresh_word(&text);
            self.captures.push(Capture { path: path.clone(), text, word });
            self.captures.len() - 1
        });
        let (start, end) = span;
        self.occurrences.push(Occurrence { capture, path: path.clone(), start, end });
        let number = self.occurrences.len() - 1;
        self.tag(format!("__n{number}"), Meaning::Captured(number), "", start)
    }

    /// A tag for the variable that `ident` binds.
    pub(crate) fn local(&mut self, ident: &Ident, mutable: bool) -> Ident {
        self.locals.push(Local {
            #[cfg(test)]
            ident: ident.clone(),
            mutable,
        });
        let number = self.locals.len() - 1;
        self.tag(format!("__l{number}"), Meaning::Local(number), &ident.to_string(), ident.span())
    }

    /// The tag of a local, for a place with this span.
    pub(crate) fn local_tag(number: usize, span: Span) -> Ident {
        Ident::new(&format!("__l{number}"), span)
    }

    /// The tag of a loop index, for a place where it is written as `ident`.
    pub(crate) fn index(&mut self, dimension: usize, ident: &Ident) -> Ident {
        self.tag(format!("__i{dimension}"), Meaning::Index(dimension), &ident.to_string(), ident.span())
    }

    fn tag(&mut self, name: String, meaning: Meaning, written: &str, span: Span) -> Ident {
        let tag = Ident::new(&name, span);
        self.tags.entry(name).or_insert_with(|| (meaning, written.to_owned()));
        tag
    }

    /// `self.w` as one word that no other captured name has.
    fn fresh_word(&self, text: &str) -> String {
        let mut word = text.replace("r#", "").replace('.', "_");
        while syn::parse_str::<Ident>(&word).is_err() || self.captures.iter().any(|capture| capture.word == word) {
            word.push('_');
        }
        word
    }

    /// Replaces tags by what the user wrote, and captured names by what `captured` says.
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
                    Some((Meaning::Captured(occurrence), _)) => restored.extend(captured(*occurrence)),
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

    /// What stands at an occurrence in the user's source.
    pub(crate) fn written(&self, occurrence: usize) -> TokenStream {
        self.occurrences[occurrence].path.to_token_stream()
    }

    /// The user's text of tagged tokens.
    pub(crate) fn text(&self, tokens: impl ToTokens) -> String {
        super::text::text(self.restore(tokens, &|occurrence| self.written(occurrence)))
    }

    /// The variable of the expansion that holds the captured value of `occurrence`, at the place of that occurrence.
    pub(crate) fn variable(&self, occurrence: usize) -> Ident {
        let Occurrence { capture, end, .. } = &self.occurrences[occurrence];
        Ident::new(&self.captures[*capture].word, generated(*end))
    }

    /// `(*w)`: the captured value at the place of `occurrence`.
    pub(crate) fn value(&self, occurrence: usize) -> TokenStream {
        let (variable, start) = (self.variable(occurrence), generated(self.occurrences[occurrence].start));
        let star = quote_spanned!(start=> *);
        quote_spanned!(start=> (#star #variable))
    }
}

/// Reports identifiers that look like tags. They could stand in macros that nobody looks into, and would become uses of
/// captured names that no table lists.
pub(crate) fn refuse_tags(tokens: &TokenStream, problems: &mut Problems) {
    for tree in tokens.clone() {
        match tree {
            TokenTree::Group(group) => refuse_tags(&group.stream(), problems),
            TokenTree::Ident(ident) if is_tag(&ident.to_string()) => {
                problems
                    .at(&ident, format_args!("`{ident}` is a name that `parallel_for!` uses itself: take another one"));
            }
            _ => {}
        }
    }
}

/// Whether a name has the form of a tag.
fn is_tag(name: &str) -> bool {
    let number = ["__n", "__l", "__i"].iter().find_map(|prefix| name.strip_prefix(prefix));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// A span for code of ours that stands for the user's code at `span`: found there by messages, but neither confused with
/// the user's variables nor linted as if the user had written it.
pub(crate) fn generated(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// The identifier that `expr` is, if it is nothing else.
pub(crate) fn lone_ident(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(ExprPath { qself: None, path, attrs }) if attrs.is_empty() => path.get_ident(),
        _ => None,
    }
}

/// The identifier a pattern is, if it binds one value by value and does nothing else.
pub(crate) fn plain_binding(pat: &Pat) -> Option<&Ident> {
    match pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(&pat.ident),
        Pat::Type(typed) => plain_binding(&typed.pat),
        Pat::Paren(inner) => plain_binding(&inner.pat),
        _ => None,
    }
}

/// Where `field:` stands, if `before` ends in it (and perhaps `ref mut`) and the field is called `written`, too.
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
