//! What can be known of an expression before the loop runs.
//!
//! *Predictable* is an expression without side effects outside the slice, without jumps, and without variables that
//! depend on something unpredictable (those are `lost`). A predictable expression may still *need* captured names, of which
//! only the types say whether they can be looked at, and immutable locals computed from such (`pending`: an `Option` in the slice).
//!
//! Loss spreads: through definitions, through assignments under conditions that are unknown, and through loops that an
//! unknown condition may leave. [`Prediction::of`] repeats one pass over the body until nothing more is lost.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Block, Expr, Item, Stmt, UnOp};

use super::effects::{bindings, borrows_mutably, effects, extends_a_temporary, jumps, root};
use crate::syntax::Analyzed;
use crate::syntax::accesses::{Table, is_compound};
use crate::syntax::header::Space;
use crate::syntax::known_macros::{self, Arguments};
use crate::syntax::mutators::changes_its_receiver;
use crate::syntax::names::{Meaning, Names};

/// Methods that only look at a captured receiver. Others might count, draw or lock something that outlives the slice.
const LOOKING: &[&str] = &[
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

/// Which locals are lost or pending.
pub(super) struct Prediction<'a> {
    pub(super) names: &'a Names,
    table: &'a Table,
    /// Cannot be computed in the slice.
    pub(super) lost: BTreeSet<usize>,
    /// Immutable, and computed from captured names: an `Option` in the slice.
    pub(super) pending: BTreeSet<usize>,
    /// Bound by the loop itself: data that the slice must not change.
    given: BTreeSet<usize>,
    /// Whether the body may change what the loop binds. The slice sees it behind a shared reference, so only uses that are
    /// the same for both kinds of reference are predictable.
    entries_change: bool,
    changed: bool,
}

impl<'a> Prediction<'a> {
    pub(super) fn of(analyzed: &'a Analyzed, body: &Block) -> Self {
        let Analyzed { names, table, header, .. } = analyzed;
        let (lost, pending, given) = (BTreeSet::new(), BTreeSet::new(), bindings(names, &header.value));
        let entries_change = matches!(header.space, Space::Entries { mutable: true, .. });
        let mut prediction = Self { names, table, lost, pending, given, entries_change, changed: true };
        while std::mem::take(&mut prediction.changed) {
            prediction.block(body, true);
        }
        prediction
    }

    /// What `expr` needs to be known: captured names and pending locals. `None` if it cannot be predicted.
    pub(super) fn needs(&self, expr: &Expr) -> Option<Needs> {
        let mut looker = Looker { prediction: self, needs: Needs::default(), fails: false };
        looker.visit_expr(expr);
        (!looker.fails).then_some(looker.needs)
    }

    /// Whether `expr` is predictable and needs nothing.
    fn certain(&self, expr: &Expr) -> bool {
        self.needs(expr).is_some_and(|needs| needs.is_empty())
    }

    fn lose(&mut self, locals: impl IntoIterator<Item = usize>) {
        for local in locals {
            self.changed |= self.lost.insert(local);
        }
    }

    /// One pass. `certain`: whether this block runs in the slice exactly when it runs in the body.
    fn block(&mut self, block: &Block, certain: bool) {
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => self.local(local, certain),
                Stmt::Expr(expr, _) => self.statement(expr, certain),
                // What a macro statement does to locals is in its arguments, and those of known macros only look.
                Stmt::Macro(_) | Stmt::Item(_) => {}
            }
        }
    }

    fn local(&mut self, local: &syn::Local, certain: bool) {
        let bound = bindings(self.names, &local.pat);
        let Some(init) = &local.init else { return };
        self.nested(&init.expr);
        let mutable_borrow = borrows_mutably(self.names, &init.expr);
        self.lose(mutable_borrow);
        let needs = if extends_a_temporary(&init.expr) { None } else { self.needs(&init.expr) };
        let needs = if init.diverge.is_some() { needs.filter(Needs::is_empty) } else { needs };
        match needs {
            Some(needs) if needs.is_empty() => {}
            Some(_) if !bound.iter().any(|local| self.names.locals[*local].mutable) => {
                for local in bound {
                    self.changed |= self.pending.insert(local);
                }
            }
            // A temporary that lives as long as its variable is fine where nothing has to be looked up.
            _ if extends_a_temporary(&init.expr) && self.certain(&init.expr) => {}
            _ => self.lose(bound),
        }
        self.flat(&init.expr, certain);
    }

    /// What an expression that the slice would run as it stands does to locals.
    fn flat(&mut self, expr: &Expr, certain: bool) {
        let effects = effects(self.names, expr);
        if !(certain && self.certain(expr)) || (!effects.is_empty() && self.touches(expr)) {
            self.lose(effects);
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
        self.lose(mutable_borrow);
        self.nested(header);
        self.flat(header, certain);
    }

    /// Blocks inside an expression define locals, too. What they change is given up: they may run in part.
    fn nested(&mut self, expr: &Expr) {
        struct Blocks<'p, 'a>(&'p mut Prediction<'a>);
        impl<'ast> Visit<'ast> for Blocks<'_, '_> {
            fn visit_block(&mut self, block: &'ast Block) {
                self.0.block(block, false);
            }
            fn visit_item(&mut self, _: &'ast Item) {}
        }
        Blocks(self).visit_expr(expr);
    }

    /// Whether a condition that cannot be predicted decides on a jump somewhere in `block`.
    pub(super) fn may_jump_unseen(&self, block: &Block) -> bool {
        struct Finder<'p, 'a>(&'p Prediction<'a>, bool);
        impl<'ast> Visit<'ast> for Finder<'_, '_> {
            fn visit_expr(&mut self, expr: &'ast Expr) {
                let header = match expr {
                    Expr::If(branch) => Some(&branch.cond),
                    Expr::Match(choice) => Some(&choice.expr),
                    Expr::ForLoop(nested) => Some(&nested.expr),
                    Expr::While(nested) => Some(&nested.cond),
                    Expr::Closure(_) | Expr::Async(_) => return,
                    _ => None,
                };
                self.1 |= header.is_some_and(|header| self.0.needs(header).is_none()) && jumps(expr);
                visit::visit_expr(self, expr);
            }
            fn visit_local(&mut self, local: &'ast syn::Local) {
                let fails = |init: &syn::LocalInit| init.diverge.is_some() && !self.0.certain(&init.expr);
                self.1 |= local.init.as_ref().is_some_and(fails);
                visit::visit_local(self, local);
            }
            fn visit_item(&mut self, _: &'ast Item) {}
        }
        let mut finder = Finder(self, false);
        finder.visit_block(block);
        finder.1
    }

    /// Whether `expr` contains an access that the slice should touch.
    pub(super) fn touches(&self, expr: &Expr) -> bool {
        struct Finder<'p, 'a>(&'p Prediction<'a>, bool);
        impl<'ast> Visit<'ast> for Finder<'_, '_> {
            fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
                let meaning = self.0.names.meaning(ident);
                self.1 |= matches!(meaning, Some(Meaning::Captured(o)) if self.0.table.unknown_reads.contains(&o));
            }
            fn visit_macro(&mut self, call: &'ast syn::Macro) {
                let arguments = known_macros::arguments(call);
                arguments
                    .iter()
                    .flat_map(|found| &found.list)
                    .for_each(|(_, argument)| self.1 |= self.0.touches(argument));
            }
        }
        let mut finder = Finder(self, false);
        finder.visit_expr(expr);
        finder.1
    }
}

/// What must be there before an expression can be evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Captured names.
    pub(super) captures: BTreeSet<usize>,
    /// Pending locals.
    pub(super) locals: BTreeSet<usize>,
}

impl Needs {
    pub(super) fn is_empty(&self) -> bool {
        self.captures.is_empty() && self.locals.is_empty()
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.captures.extend(other.captures);
        self.locals.extend(other.locals);
        self
    }
}

struct Looker<'p, 'a> {
    prediction: &'p Prediction<'a>,
    needs: Needs,
    fails: bool,
}

impl<'ast> Visit<'ast> for Looker<'_, '_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        let Prediction { names, table, lost, pending, given, entries_change, .. } = self.prediction;
        match expr {
            Expr::Path(_) => match names.meaning_of(expr) {
                Some(Meaning::Local(local)) => {
                    self.fails |= lost.contains(&local) || (*entries_change && given.contains(&local));
                    if pending.contains(&local) {
                        self.needs.locals.insert(local);
                    }
                }
                Some(Meaning::Captured(occurrence)) => {
                    let capture = names.occurrences[occurrence].capture;
                    self.fails |= table.writes(capture);
                    self.needs.captures.insert(capture);
                }
                _ => {}
            },
            Expr::MethodCall(call) => {
                let unknown = LOOKING.binary_search(&call.method.to_string().as_str()).is_err();
                self.fails |= match root(names, &call.receiver) {
                    Some(Meaning::Captured(_)) => unknown,
                    Some(Meaning::Local(local)) => unknown && *entries_change && given.contains(&local),
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
        // The data of the loop is not the slice's to change.
        let assigned = match expr {
            Expr::Assign(assignment) => Some(&assignment.left),
            Expr::Binary(both) if is_compound(&both.op) => Some(&both.left),
            Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
            Expr::MethodCall(call) if changes_its_receiver(&call.method.to_string()) => Some(&call.receiver),
            _ => None,
        };
        if let Some(Meaning::Local(local)) = assigned.and_then(|place| root(names, place)) {
            self.fails |= given.contains(&local);
        }
        // `*v`, `v.x`, `v[k]` and `v.len()` are the same for `v: &T` and `v: &mut T`.
        let base = match expr {
            Expr::Unary(one) if matches!(one.op, UnOp::Deref(_)) => Some(&one.expr),
            Expr::Field(field) => Some(&field.base),
            Expr::Index(access) => Some(&access.expr),
            Expr::MethodCall(call) => Some(&call.receiver),
            _ => None,
        };
        if let Some(Meaning::Local(local)) = base.and_then(|base| names.meaning_of(base))
            && given.contains(&local)
        {
            match expr {
                Expr::Index(access) => self.visit_expr(&access.index),
                Expr::MethodCall(call) => call.args.iter().for_each(|argument| self.visit_expr(argument)),
                _ => {}
            }
            self.fails |= lost.contains(&local);
            return;
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let harmless = ["vec", "format", "matches"].iter().any(|name| known_macros::is_call_of(call, name));
        match known_macros::arguments(call).filter(|_| harmless) {
            Some(arguments) => {
                arguments.list.iter().for_each(|(_, argument)| self.visit_expr_of(Arguments::value(argument)));
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

impl Looker<'_, '_> {
    /// For expressions that do not live as long as the body.
    fn visit_expr_of(&mut self, expr: &Expr) {
        match self.prediction.needs(expr) {
            Some(needs) => self.needs = std::mem::take(&mut self.needs).and(needs),
            None => self.fails = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LOOKING;

    #[test]
    fn the_list_of_methods_can_be_searched() {
        assert!(LOOKING.is_sorted());
    }
}
