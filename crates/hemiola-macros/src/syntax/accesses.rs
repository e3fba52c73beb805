//! Accesses of the body to captured names: subscripts, reads and writes.
//!
//! `x[e]` with a captured `x` is an access; `x[a][b]` is an access to the row `x[a]`. A captured
//! name without an index is an access to all of its elements, which is harmless for plain values.
//! Types are not known here, so every captured name is treated as an array; the run time keeps the
//! accesses of actual arrays.
//!
//! The mode follows from the use of the place expression. An assignment is [`AccessMode::Write`].
//! [`AccessMode::Update`] is a change of a part, a compound assignment, a borrow with `&mut` or
//! `ref mut`, or the receiver of a [mutating](super::mutators) method. All other uses are
//! [`AccessMode::Read`].
//!
//! **Invariant:** the expansion enforces the mode ([`CaptureForm`]): an access listed as `Read`
//! cannot write, or the compiler rejects the loop. The table therefore cannot miss a write, no
//! matter which methods and macros a body calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hemiola_analysis::{Access, AccessMode, Subscript};
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Item, Member, Pat, UnOp};

use super::known_macros::{self, ArgumentUse, MacroArguments};
use super::mutators::changes_its_receiver;
use super::names::{NameMeaning, NameTable, plain_binding};
use super::subscript::SubscriptClassifier;

/// Form of a captured name's occurrence in the expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureForm {
    /// The value itself: `(*w)`.
    Whole,
    /// The value behind a shared reference: `(&*w)`. Nothing can be changed through it.
    Shared,
}

/// Accesses of the body, as the expansion and the slice need them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessTable {
    /// Accesses in the order of evaluation, which is nearly that of the source.
    pub(crate) accesses: Vec<Access>,
    /// Form of each occurrence, by its number.
    pub(crate) forms: BTreeMap<usize, CaptureForm>,
    /// Occurrences that are written: their names must be arrays, accumulators or buffers.
    pub(crate) written: Vec<usize>,
    /// Occurrences that are used by value: the value must be `Copy`.
    pub(crate) by_value: Vec<usize>,
    /// Occurrences that read at a data-dependent subscript: worth prefetching.
    pub(crate) unknown_reads: BTreeSet<usize>,
}

impl AccessTable {
    /// Returns whether the body writes the captured name.
    pub(crate) fn writes(&self, capture: usize) -> bool {
        self.accesses.iter().any(|access| access.name == capture && access.mode.writes())
    }
}

/// Collects all accesses of a resolved body.
pub(crate) fn collect_accesses(body: &Block, names: &NameTable) -> AccessTable {
    let mut collector = AccessCollector {
        names,
        uses: Vec::new(),
        forms: BTreeMap::new(),
        by_value: Vec::new(),
        definitions: BTreeMap::new(),
    };
    collector.visit_block(body);

    let capture = |occurrence: usize| names.occurrences[occurrence].capture;
    let changing = collector.uses.iter().filter(|site| site.index.is_some() || site.mode.writes());
    let changing = changing.map(|site| capture(site.occurrence)).collect();
    let known = SubscriptClassifier { names, definitions: collector.definitions, changing };

    let mut table = AccessTable { forms: collector.forms, by_value: collector.by_value, ..AccessTable::default() };
    for AccessSite { occurrence, index, mode, text } in collector.uses {
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

/// Use of a place expression by its context.
#[derive(Clone, Debug)]
enum PlaceUse {
    /// The value is taken.
    Value,
    /// The place is read or borrowed.
    Place,
    /// The place is overwritten; the text is for messages.
    Write(String),
    /// The place is changed; the text is for messages.
    Update(String),
}

impl PlaceUse {
    /// Use of the whole place, if this is the use of a part of it.
    fn of_part(self) -> Self {
        match self {
            Self::Value => Self::Place,
            Self::Write(text) => Self::Update(text),
            other => other,
        }
    }
}

struct AccessSite {
    occurrence: usize,
    /// Expression between the brackets, if there are any.
    index: Option<Expr>,
    mode: AccessMode,
    text: String,
}

struct AccessCollector<'a> {
    names: &'a NameTable,
    uses: Vec<AccessSite>,
    forms: BTreeMap<usize, CaptureForm>,
    by_value: Vec<usize>,
    /// Immutable locals and the expressions they are bound to.
    definitions: BTreeMap<usize, Expr>,
}

impl AccessCollector<'_> {
    fn record_access(
        &mut self,
        occurrence: usize,
        index: Option<&Expr>,
        place_use: PlaceUse,
        written: impl FnOnce() -> String,
    ) {
        let (mode, text) = match place_use {
            PlaceUse::Value | PlaceUse::Place => (AccessMode::Read, written()),
            PlaceUse::Write(text) => (AccessMode::Write, text),
            PlaceUse::Update(text) => (AccessMode::Update, text),
        };
        self.uses.push(AccessSite { occurrence, index: index.cloned(), mode, text });
    }

    fn expr(&mut self, expr: &Expr, place_use: PlaceUse) {
        let names = self.names;
        match expr {
            Expr::Path(_) => {
                if let Some(NameMeaning::Captured(occurrence)) = names.meaning_of(expr) {
                    if matches!(place_use, PlaceUse::Value) {
                        self.by_value.push(occurrence);
                    }
                    self.forms.entry(occurrence).or_insert(CaptureForm::Whole);
                    self.record_access(occurrence, None, place_use, || names.text(expr));
                }
            }
            Expr::Index(access) => {
                self.visit_expr(&access.index);
                match names.captured_place(&access.expr) {
                    Some(occurrence) => {
                        let form = if matches!(place_use, PlaceUse::Value | PlaceUse::Place) {
                            CaptureForm::Shared
                        } else {
                            CaptureForm::Whole
                        };
                        self.forms.insert(occurrence, form);
                        self.record_access(occurrence, Some(&access.index), place_use, || names.text(expr));
                    }
                    None => self.expr(&access.expr, place_use.of_part()),
                }
            }
            Expr::Field(field) => self.expr(&field.base, place_use.of_part()),
            Expr::Paren(inner) => self.expr(&inner.expr, place_use),
            Expr::Group(inner) => self.expr(&inner.expr, place_use),
            Expr::Unary(one) if matches!(one.op, UnOp::Deref(_)) => match names.captured_place(&one.expr) {
                // `*x = 1` with a captured reference writes the target of `x = 1`.
                Some(_) if matches!(place_use, PlaceUse::Write(_) | PlaceUse::Update(_)) => {
                    self.expr(&one.expr, place_use);
                }
                _ => self.expr(&one.expr, place_use.of_part()),
            },
            Expr::Reference(reference) => match reference.mutability {
                Some(_) => self.expr(&reference.expr, PlaceUse::Update(names.text(expr))),
                None => self.expr(&reference.expr, PlaceUse::Place),
            },
            Expr::RawAddr(raw) => match raw.mutability {
                syn::PointerMutability::Mut(_) => self.expr(&raw.expr, PlaceUse::Update(names.text(expr))),
                syn::PointerMutability::Const(_) => self.expr(&raw.expr, PlaceUse::Place),
            },
            Expr::Assign(assignment) => {
                self.visit_expr(&assignment.right);
                self.assigned(&assignment.left);
            }
            Expr::Binary(both) if is_compound(&both.op) => {
                self.visit_expr(&both.right);
                let (place, operator) = (names.text(&both.left), names.text(both.op));
                self.expr(&both.left, PlaceUse::Update(format!("{place}{operator}")));
            }
            Expr::Binary(both) if is_comparison(&both.op) => {
                self.expr(&both.left, PlaceUse::Place);
                self.expr(&both.right, PlaceUse::Place);
            }
            Expr::MethodCall(call) => {
                let place_use = if changes_its_receiver(&call.method.to_string()) {
                    PlaceUse::Update(format!("{}.{}(..)", names.text(&call.receiver), call.method))
                } else {
                    PlaceUse::Place
                };
                if let (Some(occurrence), PlaceUse::Place) = (names.captured_place(&call.receiver), &place_use) {
                    self.forms.insert(occurrence, CaptureForm::Shared);
                }
                self.expr(&call.receiver, place_use);
                call.args.iter().for_each(|argument| self.visit_expr(argument));
            }
            Expr::Call(call) => {
                if !matches!(&*call.func, Expr::Path(_)) {
                    self.expr(&call.func, PlaceUse::Place);
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

    /// Visits the left side of `=`, which may be a tuple of places.
    fn assigned(&mut self, place: &Expr) {
        match place {
            Expr::Tuple(parts) => parts.elems.iter().for_each(|part| self.assigned(part)),
            Expr::Array(parts) => parts.elems.iter().for_each(|part| self.assigned(part)),
            Expr::Struct(parts) => parts.fields.iter().for_each(|part| self.assigned(&part.expr)),
            Expr::Call(parts) => parts.args.iter().for_each(|part| self.assigned(part)),
            Expr::Paren(inner) => self.assigned(&inner.expr),
            place => self.expr(place, PlaceUse::Write(format!("{} =", self.names.text(place)))),
        }
    }

    /// Visits a place that patterns are matched against.
    fn matched<'p>(&mut self, place: &Expr, patterns: impl IntoIterator<Item = &'p Pat>) {
        let mut binds_by_mutable_reference = false;
        let mut takes_the_value = false;
        for pattern in patterns {
            // Not `None` and other constants, which look like bindings but have no tag.
            takes_the_value |= plain_binding(pattern).is_some_and(|ident| self.names.meaning(ident).is_some());
            binds_by_mutable_reference |= has_ref_mut(pattern);
        }
        let place_use = match (binds_by_mutable_reference, takes_the_value) {
            (true, _) => PlaceUse::Update(format!("ref mut of {}", self.names.text(place))),
            (_, true) => PlaceUse::Value,
            _ => PlaceUse::Place,
        };
        self.expr(place, place_use);
    }

    /// Records the definition of immutable locals: `let j = i + 1`, `let (a, b) = (i, j)`.
    fn define(&mut self, pattern: &Pat, value: &Expr) {
        match (pattern, value) {
            (Pat::Tuple(patterns), Expr::Tuple(values)) if patterns.elems.len() == values.elems.len() => {
                if !patterns.elems.iter().any(|pattern| matches!(pattern, Pat::Rest(_))) {
                    patterns.elems.iter().zip(&values.elems).for_each(|(pattern, value)| self.define(pattern, value));
                }
            }
            _ => {
                if let Some(ident) = plain_binding(pattern)
                    && let Some(NameMeaning::Local(local)) = self.names.meaning(ident)
                    && !self.names.locals[local].mutable
                {
                    self.definitions.insert(local, value.clone());
                }
            }
        }
    }
}

impl<'a> Visit<'a> for AccessCollector<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        self.expr(expr, PlaceUse::Value);
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
            let argument = MacroArguments::value(argument);
            match what {
                ArgumentUse::Value => self.expr(argument, PlaceUse::Value),
                ArgumentUse::Place => self.expr(argument, PlaceUse::Place),
                ArgumentUse::Update => self.expr(argument, PlaceUse::Update(self.names.text(argument))),
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
    struct RefMutFinder(bool);
    impl<'a> Visit<'a> for RefMutFinder {
        fn visit_pat_ident(&mut self, binding: &'a syn::PatIdent) {
            self.0 |= binding.by_ref.is_some() && binding.mutability.is_some();
            visit::visit_pat_ident(self, binding);
        }
    }
    let mut finder = RefMutFinder(false);
    finder.visit_pat(pattern);
    finder.0
}
