//! Where the body uses captured names: by which subscripts, reading or writing.
//!
//! `x[e]` with a captured `x` is an access; `x[a][b]` is an access to the row `x[a]`. A captured name without an index is an
//! access to everything it holds, which is harmless for plain values. Types are not known here, so every captured name is
//! treated as if it were an array; the run time keeps the accesses of those that are.
//!
//! The mode follows from what is done with the place: assigned is [`Mode::Write`]; changed in part, changed by a compound
//! assignment, borrowed with `&mut` or `ref mut`, or the receiver of a [mutating](super::mutators) method is
//! [`Mode::Update`]; all else is [`Mode::Read`].
//!
//! **Invariant:** the expansion enforces the mode ([`Form`]): through an access listed as `Read` nothing can be written, or
//! the compiler refuses the loop. So the table cannot miss a write, whatever methods and macros a body calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Item, Member, Pat, UnOp};

use super::known_macros::{self, Argument, Arguments};
use super::mutators::changes_its_receiver;
use super::names::{Meaning, Names, plain_binding};
use super::subscript::Known;
use crate::{Access, Mode, Subscript};

/// What an occurrence of a captured name must allow in the expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value itself: `(*w)`.
    Whole,
    /// The value behind a shared reference: `(&*w)`. Nothing can be changed through it.
    Shared,
}

/// All that the expansion and the slice have to know of the captured names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// In the order of evaluation, which is nearly that of the source.
    pub(crate) accesses: Vec<Access>,
    /// By occurrence.
    pub(crate) forms: BTreeMap<usize, Form>,
    /// Occurrences that are written: their names must be arrays, accumulators or buffers.
    pub(crate) written: Vec<usize>,
    /// Occurrences whose value is taken: it must be `Copy`.
    pub(crate) taken: Vec<usize>,
    /// Occurrences that read by a subscript which depends on data: worth prefetching.
    pub(crate) unknown_reads: BTreeSet<usize>,
}

impl Table {
    /// Whether the body writes the captured name.
    pub(crate) fn writes(&self, capture: usize) -> bool {
        self.accesses.iter().any(|access| access.name == capture && access.mode.writes())
    }
}

/// Finds all accesses of a resolved body.
pub(crate) fn find(body: &Block, names: &Names) -> Table {
    let mut walker =
        Walker { names, uses: Vec::new(), forms: BTreeMap::new(), taken: Vec::new(), definitions: BTreeMap::new() };
    walker.visit_block(body);

    let capture = |occurrence: usize| names.occurrences[occurrence].capture;
    let changing = walker.uses.iter().filter(|found| found.index.is_some() || found.mode.writes());
    let changing = changing.map(|found| capture(found.occurrence)).collect();
    let known = Known { names, definitions: walker.definitions, changing };

    let mut table = Table { forms: walker.forms, taken: walker.taken, ..Table::default() };
    for Found { occurrence, index, mode, text } in walker.uses {
        let subscripts = index.map_or_else(|| vec![Subscript::ALL], |index| known.subscripts(&index));
        if mode.reads() && subscripts.contains(&Subscript::Unknown) {
            table.unknown_reads.insert(occurrence);
        }
        if mode.writes() {
            table.written.push(occurrence);
        }
        let start = names.occurrences[occurrence].start.start();
        table.accesses.push(Access {
            name: capture(occurrence),
            subscripts: Cow::Owned(subscripts),
            mode,
            text: Cow::Owned(text),
            line: u32::try_from(start.line).unwrap_or(u32::MAX),
            column: u32::try_from(start.column + 1).unwrap_or(u32::MAX),
        });
    }
    table
}

/// What the surroundings do with a place.
#[derive(Clone, Debug)]
enum Use {
    /// Take its value.
    Value,
    /// Look at it.
    Place,
    /// Overwrite it; as written, for messages.
    Write(String),
    /// Change it; as written, for messages.
    Update(String),
}

impl Use {
    /// What is done with a place if this is done with a part of it.
    fn of_part(self) -> Self {
        match self {
            Self::Value => Self::Place,
            Self::Write(text) => Self::Update(text),
            other => other,
        }
    }
}

struct Found {
    occurrence: usize,
    /// What stands between the brackets, if there are any.
    index: Option<Expr>,
    mode: Mode,
    text: String,
}

struct Walker<'a> {
    names: &'a Names,
    uses: Vec<Found>,
    forms: BTreeMap<usize, Form>,
    taken: Vec<usize>,
    /// Immutable locals and what they were bound to.
    definitions: BTreeMap<usize, Expr>,
}

impl Walker<'_> {
    fn found(&mut self, occurrence: usize, index: Option<&Expr>, how: Use, written: impl FnOnce() -> String) {
        let (mode, text) = match how {
            Use::Value | Use::Place => (Mode::Read, written()),
            Use::Write(text) => (Mode::Write, text),
            Use::Update(text) => (Mode::Update, text),
        };
        self.uses.push(Found { occurrence, index: index.cloned(), mode, text });
    }

    fn expr(&mut self, expr: &Expr, how: Use) {
        let names = self.names;
        match expr {
            Expr::Path(_) => {
                if let Some(Meaning::Captured(occurrence)) = names.meaning_of(expr) {
                    if matches!(how, Use::Value) {
                        self.taken.push(occurrence);
                    }
                    self.forms.entry(occurrence).or_insert(Form::Whole);
                    self.found(occurrence, None, how, || names.text(expr));
                }
            }
            Expr::Index(access) => {
                self.visit_expr(&access.index);
                match names.captured_place(&access.expr) {
                    Some(occurrence) => {
                        let form = if matches!(how, Use::Value | Use::Place) { Form::Shared } else { Form::Whole };
                        self.forms.insert(occurrence, form);
                        self.found(occurrence, Some(&access.index), how, || names.text(expr));
                    }
                    None => self.expr(&access.expr, how.of_part()),
                }
            }
            Expr::Field(field) => self.expr(&field.base, how.of_part()),
            Expr::Paren(inner) => self.expr(&inner.expr, how),
            Expr::Group(inner) => self.expr(&inner.expr, how),
            Expr::Unary(one) if matches!(one.op, UnOp::Deref(_)) => match names.captured_place(&one.expr) {
                // `*x = 1` with a captured reference writes what `x = 1` would.
                Some(_) if matches!(how, Use::Write(_) | Use::Update(_)) => self.expr(&one.expr, how),
                _ => self.expr(&one.expr, how.of_part()),
            },
            Expr::Reference(reference) => match reference.mutability {
                Some(_) => self.expr(&reference.expr, Use::Update(names.text(expr))),
                None => self.expr(&reference.expr, Use::Place),
            },
            Expr::RawAddr(raw) => match raw.mutability {
                syn::PointerMutability::Mut(_) => self.expr(&raw.expr, Use::Update(names.text(expr))),
                syn::PointerMutability::Const(_) => self.expr(&raw.expr, Use::Place),
            },
            Expr::Assign(assignment) => {
                self.visit_expr(&assignment.right);
                self.assigned(&assignment.left);
            }
            Expr::Binary(both) if is_compound(&both.op) => {
                self.visit_expr(&both.right);
                let (place, operator) = (names.text(&both.left), names.text(both.op));
                self.expr(&both.left, Use::Update(format!("{place}{operator}")));
            }
            Expr::Binary(both) if is_comparison(&both.op) => {
                self.expr(&both.left, Use::Place);
                self.expr(&both.right, Use::Place);
            }
            Expr::MethodCall(call) => {
                let how = if changes_its_receiver(&call.method.to_string()) {
                    Use::Update(format!("{}.{}(..)", names.text(&call.receiver), call.method))
                } else {
                    Use::Place
                };
                if let (Some(occurrence), Use::Place) = (names.captured_place(&call.receiver), &how) {
                    self.forms.insert(occurrence, Form::Shared);
                }
                self.expr(&call.receiver, how);
                call.args.iter().for_each(|argument| self.visit_expr(argument));
            }
            Expr::Call(call) => {
                if !matches!(&*call.func, Expr::Path(_)) {
                    self.expr(&call.func, Use::Place);
                }
                call.args.iter().for_each(|argument| self.visit_expr(argument));
            }
            Expr::Let(condition) => self.matched(&condition.expr, [&*condition.pat]),
            Expr::Match(choice) => {
                self.matched(&choice.expr, choice.arms.iter().map(|arm| &arm.pat));
                for arm in &choice.arms {
                    arm.guard.iter().for_each(|(_, guard)| self.visit_expr(guard));
                    self.visit_expr(&arm.body);
                }
            }
            Expr::Macro(call) => self.visit_macro(&call.mac),
            _ => visit::visit_expr(self, expr),
        }
    }

    /// The left side of `=`, which may be a tuple of places.
    fn assigned(&mut self, place: &Expr) {
        match place {
            Expr::Tuple(parts) => parts.elems.iter().for_each(|part| self.assigned(part)),
            Expr::Array(parts) => parts.elems.iter().for_each(|part| self.assigned(part)),
            Expr::Struct(parts) => parts.fields.iter().for_each(|part| self.assigned(&part.expr)),
            Expr::Call(parts) => parts.args.iter().for_each(|part| self.assigned(part)),
            Expr::Paren(inner) => self.assigned(&inner.expr),
            place => self.expr(place, Use::Write(format!("{} =", self.names.text(place)))),
        }
    }

    /// A place that patterns are matched against.
    fn matched<'p>(&mut self, place: &Expr, patterns: impl IntoIterator<Item = &'p Pat>) {
        let mut binds_by_mutable_reference = false;
        let mut takes_the_value = false;
        for pattern in patterns {
            // Not `None` and other constants, which look like bindings but have no tag.
            takes_the_value |= plain_binding(pattern).is_some_and(|ident| self.names.meaning(ident).is_some());
            binds_by_mutable_reference |= has_ref_mut(pattern);
        }
        let how = match (binds_by_mutable_reference, takes_the_value) {
            (true, _) => Use::Update(format!("ref mut of {}", self.names.text(place))),
            (_, true) => Use::Value,
            _ => Use::Place,
        };
        self.expr(place, how);
    }

    /// Remembers what immutable locals are bound to: `let j = i + 1`, `let (a, b) = (i, j)`.
    fn define(&mut self, pattern: &Pat, value: &Expr) {
        match (pattern, value) {
            (Pat::Tuple(patterns), Expr::Tuple(values)) if patterns.elems.len() == values.elems.len() => {
                if !patterns.elems.iter().any(|pattern| matches!(pattern, Pat::Rest(_))) {
                    patterns.elems.iter().zip(&values.elems).for_each(|(pattern, value)| self.define(pattern, value));
                }
            }
            _ => {
                if let Some(ident) = plain_binding(pattern)
                    && let Some(Meaning::Local(local)) = self.names.meaning(ident)
                    && !self.names.locals[local].mutable
                {
                    self.definitions.insert(local, value.clone());
                }
            }
        }
    }
}

impl<'a> Visit<'a> for Walker<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        self.expr(expr, Use::Value);
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        let Some(init) = &local.init else { return };
        self.matched(&init.expr, [&local.pat]);
        self.define(&local.pat, &init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            self.visit_expr(otherwise);
        }
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let Some(arguments) = known_macros::arguments(call) else { return };
        for (what, argument) in &arguments.list {
            let argument = Arguments::value(argument);
            match what {
                Argument::Value => self.expr(argument, Use::Value),
                Argument::Place => self.expr(argument, Use::Place),
                Argument::Update => self.expr(argument, Use::Update(self.names.text(argument))),
            }
        }
        if let Some((_, Some(guard))) = &arguments.pattern {
            self.visit_expr(guard);
        }
    }

    fn visit_item(&mut self, _: &'a Item) {}

    fn visit_type(&mut self, _: &'a syn::Type) {}

    fn visit_pat(&mut self, _: &'a Pat) {}

    fn visit_member(&mut self, _: &'a Member) {}
}

pub(crate) fn is_compound(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

pub(crate) fn is_comparison(operator: &BinOp) -> bool {
    matches!(operator, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

fn has_ref_mut(pattern: &Pat) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_pat_ident(&mut self, binding: &'a syn::PatIdent) {
            self.0 |= binding.by_ref.is_some() && binding.mutability.is_some();
            visit::visit_pat_ident(self, binding);
        }
    }
    let mut finder = Finder(false);
    finder.visit_pat(pattern);
    finder.0
}
