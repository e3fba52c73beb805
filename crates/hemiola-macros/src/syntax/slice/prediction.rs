//! Predictability of expressions before the loop runs.
//!
//! An expression is *predictable* if it has no side effects outside the slice, no jumps, and no
//! `unpredictable` variables. A predictable expression may still *need* captured names, whose types
//! decide whether they are available, and immutable locals computed from these (`pending`: an
//! `Option` in the slice).
//!
//! Unpredictability spreads through definitions, through assignments under unknown conditions, and
//! through loops that an unknown condition may leave. [`SlicePrediction::of`] repeats one pass over
//! the body until it finds no more unpredictable variables.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Block, Expr, Item, Stmt, UnOp};

use super::effects::{bindings, borrows_mutably, changed_locals, extends_a_temporary, may_jump, root};
use crate::syntax::AnalyzedLoop;
use crate::syntax::accesses::{AccessTable, is_compound};
use crate::syntax::header::SpaceSyntax;
use crate::syntax::known_macros::{self, MacroArguments};
use crate::syntax::mutators::changes_its_receiver;
use crate::syntax::names::{NameMeaning, NameTable};

/// Methods that only read a captured receiver. Others might count, draw or lock something that
/// outlives the slice.
const PURE_METHODS: &[&str] = &[
    "abs",
    "as_ref",
    "as_slice",
    "binary_search",
    "bytes",
    "chars",
    "chunks",
    "clone",
    "cloned",
    "contains",
    "contains_key",
    "copied",
    "end",
    "first",
    "get",
    "is_empty",
    "is_none",
    "is_some",
    "iter",
    "keys",
    "last",
    "len",
    "max",
    "min",
    "partition_point",
    "row",
    "saturating_sub",
    "shape",
    "start",
    "to_vec",
    "unwrap_or",
    "values",
    "windows",
    "wrapping_add",
    "wrapping_mul",
];

/// Unpredictable and pending locals of a body.
pub(super) struct SlicePrediction<'a> {
    pub(super) names: &'a NameTable,
    table: &'a AccessTable,
    /// Locals that cannot be computed in the slice.
    pub(super) unpredictable: BTreeSet<usize>,
    /// Immutable locals computed from captured names: an `Option` in the slice.
    pub(super) pending: BTreeSet<usize>,
    /// Locals bound by the loop itself: data that the slice must not change.
    entry_locals: BTreeSet<usize>,
    /// True if the body may change the values bound by the loop. The slice sees them behind a
    /// shared reference, so only uses that compile for both kinds of reference are predictable.
    entries_change: bool,
    changed: bool,
}

impl<'a> SlicePrediction<'a> {
    pub(super) fn of(analyzed: &'a AnalyzedLoop, body: &Block) -> Self {
        let AnalyzedLoop { names, table, header, .. } = analyzed;
        let (unpredictable, pending, entry_locals) = (BTreeSet::new(), BTreeSet::new(), bindings(names, &header.value));
        let entries_change = matches!(header.space, SpaceSyntax::Entries { mutable: true, .. });
        let mut prediction = Self { names, table, unpredictable, pending, entry_locals, entries_change, changed: true };
        while std::mem::take(&mut prediction.changed) {
            prediction.block(body, true);
        }
        prediction
    }

    /// Returns the captured names and pending locals that `expr` needs. `None` if `expr` is
    /// unpredictable.
    pub(super) fn needs(&self, expr: &Expr) -> Option<EvaluationNeeds> {
        let mut collector = NeedsCollector { prediction: self, needs: EvaluationNeeds::default(), fails: false };
        collector.visit_expr(expr);
        (!collector.fails).then_some(collector.needs)
    }

    /// Returns whether `expr` is predictable and needs nothing.
    fn certain(&self, expr: &Expr) -> bool {
        self.needs(expr).is_some_and(|needs| needs.is_empty())
    }

    fn mark_unpredictable(&mut self, locals: impl IntoIterator<Item = usize>) {
        for local in locals {
            self.changed |= self.unpredictable.insert(local);
        }
    }

    /// One pass. `certain`: this block runs in the slice exactly when it runs in the body.
    fn block(&mut self, block: &Block, certain: bool) {
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => self.local(local, certain),
                Stmt::Expr(expr, _) => self.statement(expr, certain),
                // A macro statement changes locals only through its arguments, and known macros
                // only read those.
                Stmt::Macro(_) | Stmt::Item(_) => {}
            }
        }
    }

    fn local(&mut self, local: &syn::Local, certain: bool) {
        let bound = bindings(self.names, &local.pat);
        let Some(init) = &local.init else { return };
        self.nested(&init.expr);
        let mutable_borrow = borrows_mutably(self.names, &init.expr);
        self.mark_unpredictable(mutable_borrow);
        let needs = if extends_a_temporary(&init.expr) { None } else { self.needs(&init.expr) };
        let needs = if init.diverge.is_some() { needs.filter(EvaluationNeeds::is_empty) } else { needs };
        match needs {
            Some(needs) if needs.is_empty() => {}
            Some(_) if !bound.iter().any(|local| self.names.locals[*local].mutable) => {
                for local in bound {
                    self.changed |= self.pending.insert(local);
                }
            }
            // A temporary that lives as long as its variable is allowed if nothing has to be
            // available.
            _ if extends_a_temporary(&init.expr) && self.certain(&init.expr) => {}
            _ => self.mark_unpredictable(bound),
        }
        self.flat(&init.expr, certain);
    }

    /// Marks the locals that an expression changes as unpredictable, unless the slice runs it
    /// exactly as the body does.
    fn flat(&mut self, expr: &Expr, certain: bool) {
        let effects = changed_locals(self.names, expr);
        if !(certain && self.certain(expr)) || (!effects.is_empty() && self.touches(expr)) {
            self.mark_unpredictable(effects);
        }
    }

    fn statement(&mut self, expr: &Expr, certain: bool) {
        match expr {
            Expr::If(branch) => {
                self.header(&branch.cond, certain);
                let inside = certain && self.certain(&branch.cond);
                self.block(&branch.then_branch, inside);
                if let Some((_, otherwise)) = &branch.else_branch {
                    self.statement(otherwise, inside);
                }
            }
            Expr::Match(choice) => {
                self.header(&choice.expr, certain);
                let guards = choice.arms.iter().filter_map(|arm| arm.guard.as_ref());
                let inside =
                    certain && self.certain(&choice.expr) && guards.clone().all(|(_, guard)| self.certain(guard));
                for (_, guard) in guards {
                    self.header(guard, certain);
                }
                choice.arms.iter().for_each(|arm| self.statement(&arm.body, inside));
            }
            Expr::ForLoop(nested) => {
                self.header(&nested.expr, certain);
                let inside = certain && self.certain(&nested.expr) && !self.may_jump_unseen(&nested.body);
                self.block(&nested.body, inside);
            }
            Expr::While(nested) => {
                self.header(&nested.cond, certain);
                let inside = certain && self.certain(&nested.cond) && !self.may_jump_unseen(&nested.body);
                self.block(&nested.body, inside);
            }
            Expr::Loop(nested) => {
                let inside = certain && !self.may_jump_unseen(&nested.body);
                self.block(&nested.body, inside);
            }
            Expr::Block(nested) => self.block(&nested.block, certain),
            _ => {
                self.nested(expr);
                self.flat(expr, certain);
            }
        }
    }

    fn header(&mut self, header: &Expr, certain: bool) {
        let mutable_borrow = borrows_mutably(self.names, header);
        self.mark_unpredictable(mutable_borrow);
        self.nested(header);
        self.flat(header, certain);
    }

    /// Visits blocks inside an expression, which define locals, too. Locals that they change become
    /// unpredictable, because the blocks may run in part.
    fn nested(&mut self, expr: &Expr) {
        struct NestedBlockVisitor<'p, 'a>(&'p mut SlicePrediction<'a>);
        impl<'ast> Visit<'ast> for NestedBlockVisitor<'_, '_> {
            fn visit_block(&mut self, block: &'ast Block) {
                self.0.block(block, false);
            }
            fn visit_item(&mut self, _: &'ast Item) {}
        }
        NestedBlockVisitor(self).visit_expr(expr);
    }

    /// Returns whether an unpredictable condition decides on a jump somewhere in `block`.
    pub(super) fn may_jump_unseen(&self, block: &Block) -> bool {
        struct UnpredictableJumpFinder<'p, 'a>(&'p SlicePrediction<'a>, bool);
        impl<'ast> Visit<'ast> for UnpredictableJumpFinder<'_, '_> {
            fn visit_expr(&mut self, expr: &'ast Expr) {
                let header = match expr {
                    Expr::If(branch) => Some(&branch.cond),
                    Expr::Match(choice) => Some(&choice.expr),
                    Expr::ForLoop(nested) => Some(&nested.expr),
                    Expr::While(nested) => Some(&nested.cond),
                    Expr::Closure(_) | Expr::Async(_) => return,
                    _ => None,
                };
                self.1 |= header.is_some_and(|header| self.0.needs(header).is_none()) && may_jump(expr);
                visit::visit_expr(self, expr);
            }
            fn visit_local(&mut self, local: &'ast syn::Local) {
                let fails = |init: &syn::LocalInit| init.diverge.is_some() && !self.0.certain(&init.expr);
                self.1 |= local.init.as_ref().is_some_and(fails);
                visit::visit_local(self, local);
            }
            fn visit_item(&mut self, _: &'ast Item) {}
        }
        let mut finder = UnpredictableJumpFinder(self, false);
        finder.visit_block(block);
        finder.1
    }

    /// Returns whether `expr` contains an access that the slice should touch.
    pub(super) fn touches(&self, expr: &Expr) -> bool {
        struct PrefetchFinder<'p, 'a>(&'p SlicePrediction<'a>, bool);
        impl<'ast> Visit<'ast> for PrefetchFinder<'_, '_> {
            fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
                let meaning = self.0.names.meaning(ident);
                self.1 |= matches!(meaning, Some(NameMeaning::Captured(o)) if self.0.table.unknown_reads.contains(&o));
            }
            fn visit_macro(&mut self, call: &'ast syn::Macro) {
                let arguments = known_macros::arguments(call);
                arguments
                    .iter()
                    .flat_map(|found| &found.list)
                    .for_each(|(_, argument)| self.1 |= self.0.touches(argument));
            }
        }
        let mut finder = PrefetchFinder(self, false);
        finder.visit_expr(expr);
        finder.1
    }
}

/// Names that must be available before an expression can be evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EvaluationNeeds {
    /// Captured names, by number.
    pub(super) captures: BTreeSet<usize>,
    /// Pending locals, by number.
    pub(super) locals: BTreeSet<usize>,
}

impl EvaluationNeeds {
    pub(super) fn is_empty(&self) -> bool {
        self.captures.is_empty() && self.locals.is_empty()
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.captures.extend(other.captures);
        self.locals.extend(other.locals);
        self
    }
}

struct NeedsCollector<'p, 'a> {
    prediction: &'p SlicePrediction<'a>,
    needs: EvaluationNeeds,
    fails: bool,
}

impl<'ast> Visit<'ast> for NeedsCollector<'_, '_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        let SlicePrediction { names, table, unpredictable, pending, entry_locals, entries_change, .. } =
            self.prediction;
        match expr {
            Expr::Path(_) => match names.meaning_of(expr) {
                Some(NameMeaning::Local(local)) => {
                    self.fails |= unpredictable.contains(&local) || (*entries_change && entry_locals.contains(&local));
                    if pending.contains(&local) {
                        self.needs.locals.insert(local);
                    }
                }
                Some(NameMeaning::Captured(occurrence)) => {
                    let capture = names.occurrences[occurrence].capture;
                    self.fails |= table.writes(capture);
                    self.needs.captures.insert(capture);
                }
                _ => {}
            },
            Expr::MethodCall(call) => {
                let unknown = PURE_METHODS.binary_search(&call.method.to_string().as_str()).is_err();
                self.fails |= match root(names, &call.receiver) {
                    Some(NameMeaning::Captured(_)) => unknown,
                    Some(NameMeaning::Local(local)) => unknown && *entries_change && entry_locals.contains(&local),
                    _ => false,
                };
            }
            Expr::Return(_)
            | Expr::Break(_)
            | Expr::Continue(_)
            | Expr::Try(_)
            | Expr::Await(_)
            | Expr::Async(_)
            | Expr::Unsafe(_)
            | Expr::Yield(_)
            | Expr::Verbatim(_) => self.fails = true,
            _ => {}
        }
        // The slice must not change the data of the loop.
        let assigned = match expr {
            Expr::Assign(assignment) => Some(&assignment.left),
            Expr::Binary(both) if is_compound(&both.op) => Some(&both.left),
            Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
            Expr::MethodCall(call) if changes_its_receiver(&call.method.to_string()) => Some(&call.receiver),
            _ => None,
        };
        if let Some(NameMeaning::Local(local)) = assigned.and_then(|place| root(names, place)) {
            self.fails |= entry_locals.contains(&local);
        }
        // `*v`, `v.x`, `v[k]` and `v.len()` compile for `v: &T` and for `v: &mut T`.
        let base = match expr {
            Expr::Unary(one) if matches!(one.op, UnOp::Deref(_)) => Some(&one.expr),
            Expr::Field(field) => Some(&field.base),
            Expr::Index(access) => Some(&access.expr),
            Expr::MethodCall(call) => Some(&call.receiver),
            _ => None,
        };
        if let Some(NameMeaning::Local(local)) = base.and_then(|base| names.meaning_of(base))
            && entry_locals.contains(&local)
        {
            match expr {
                Expr::Index(access) => self.visit_expr(&access.index),
                Expr::MethodCall(call) => call.args.iter().for_each(|argument| self.visit_expr(argument)),
                _ => {}
            }
            self.fails |= unpredictable.contains(&local);
            return;
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let harmless = ["vec", "format", "matches"].iter().any(|name| known_macros::is_call_of(call, name));
        match known_macros::arguments(call).filter(|_| harmless) {
            Some(arguments) => {
                arguments.list.iter().for_each(|(_, argument)| self.visit_expr_of(MacroArguments::value(argument)));
                if let Some((_, Some(guard))) = &arguments.pattern {
                    self.visit_expr_of(guard);
                }
            }
            None => self.fails = true,
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}
}

impl NeedsCollector<'_, '_> {
    /// Visits expressions that do not live as long as the body.
    fn visit_expr_of(&mut self, expr: &Expr) {
        match self.prediction.needs(expr) {
            Some(needs) => self.needs = std::mem::take(&mut self.needs).and(needs),
            None => self.fails = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PURE_METHODS;

    #[test]
    fn the_list_of_methods_can_be_searched() {
        assert!(PURE_METHODS.is_sorted());
    }
}
