//! Effects of an expression: locals that it mentions, changes or borrows, and jumps.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Expr, Item, Pat, UnOp};

use crate::syntax::accesses::is_compound;
use crate::syntax::mutators::changes_its_receiver;
use crate::syntax::names::{NameMeaning, NameTable};

/// Returns all locals that `tokens` mention.
pub(super) fn mentioned_locals(names: &NameTable, tokens: impl quote::ToTokens) -> BTreeSet<usize> {
    fn walk(names: &NameTable, tokens: proc_macro2::TokenStream, found: &mut BTreeSet<usize>) {
        for tree in tokens {
            match tree {
                proc_macro2::TokenTree::Group(group) => walk(names, group.stream(), found),
                proc_macro2::TokenTree::Ident(ident) => {
                    if let Some(NameMeaning::Local(local)) = names.meaning(&ident) {
                        found.insert(local);
                    }
                }
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(names, tokens.into_token_stream(), &mut found);
    found
}

/// Returns the locals that a pattern binds.
pub(super) fn bindings(names: &NameTable, pattern: &Pat) -> BTreeSet<usize> {
    mentioned_locals(names, pattern)
}

/// Returns the locals that evaluating `expr` may change: assigned, borrowed mutably, or `mut` and
/// the receiver of a method.
pub(super) fn changed_locals(names: &NameTable, expr: &Expr) -> BTreeSet<usize> {
    struct ChangedLocalFinder<'a>(&'a NameTable, BTreeSet<usize>);
    impl<'ast> Visit<'ast> for ChangedLocalFinder<'_> {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            let changed = match expr {
                Expr::Assign(assignment) => {
                    // Also `(a, b) = ..`.
                    self.1.extend(mentioned_locals(self.0, &assignment.left));
                    None
                }
                Expr::Binary(both) if is_compound(&both.op) => Some(&both.left),
                Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
                Expr::MethodCall(call) => Some(&call.receiver),
                _ => None,
            };
            if let Some(NameMeaning::Local(local)) = changed.and_then(|place| root(self.0, place))
                && (self.0.locals[local].mutable || !matches!(expr, Expr::MethodCall(_)) || mutating(expr))
            {
                self.1.insert(local);
            }
            visit::visit_expr(self, expr);
        }
        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut finder = ChangedLocalFinder(names, BTreeSet::new());
    finder.visit_expr(expr);
    finder.1
}

/// Returns the locals that `expr` borrows mutably, so that a variable could keep the borrow and
/// change them later.
pub(super) fn borrows_mutably(names: &NameTable, expr: &Expr) -> BTreeSet<usize> {
    struct MutableBorrowFinder<'a>(&'a NameTable, BTreeSet<usize>);
    impl<'ast> Visit<'ast> for MutableBorrowFinder<'_> {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            let place = match expr {
                Expr::Reference(reference) if reference.mutability.is_some() => Some(&reference.expr),
                Expr::MethodCall(call) if call.method.to_string().ends_with("_mut") => Some(&call.receiver),
                _ => None,
            };
            if let Some(NameMeaning::Local(local)) = place.and_then(|place| root(self.0, place)) {
                self.1.insert(local);
            }
            visit::visit_expr(self, expr);
        }
        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut finder = MutableBorrowFinder(names, BTreeSet::new());
    finder.visit_expr(expr);
    finder.1
}

fn mutating(call: &Expr) -> bool {
    matches!(call, Expr::MethodCall(call) if changes_its_receiver(&call.method.to_string()))
}

/// Returns the name at the root of a place: `x` of `(*x).y[3].z`.
pub(super) fn root(names: &NameTable, place: &Expr) -> Option<NameMeaning> {
    match place {
        Expr::Field(field) => root(names, &field.base),
        Expr::Index(access) => root(names, &access.expr),
        Expr::Paren(inner) => root(names, &inner.expr),
        Expr::Group(inner) => root(names, &inner.expr),
        Expr::Unary(one) if matches!(one.op, UnOp::Deref(_)) => root(names, &one.expr),
        _ => names.meaning_of(place),
    }
}

/// Returns whether `expr` contains a jump out of itself.
pub(super) fn may_jump(expr: &Expr) -> bool {
    #[derive(Default)]
    struct JumpFinder {
        loops: usize,
        labels: Vec<syn::Lifetime>,
        found: bool,
    }
    impl JumpFinder {
        fn jump(&mut self, label: Option<&syn::Lifetime>) {
            self.found |= label.map_or(self.loops == 0, |label| !self.labels.contains(label));
        }
    }
    impl<'ast> Visit<'ast> for JumpFinder {
        fn visit_expr(&mut self, expr: &'ast Expr) {
            let (label, is_loop) = match expr {
                Expr::Return(_) => return self.found = true,
                Expr::Break(jump) => return self.jump(jump.label.as_ref()),
                Expr::Continue(jump) => return self.jump(jump.label.as_ref()),
                Expr::Closure(_) | Expr::Async(_) => return,
                Expr::Loop(nested) => (&nested.label, true),
                Expr::While(nested) => (&nested.label, true),
                Expr::ForLoop(nested) => (&nested.label, true),
                Expr::Block(nested) => (&nested.label, false),
                _ => (&None, false),
            };
            self.loops += usize::from(is_loop);
            self.labels.extend(label.iter().map(|label| label.name.clone()));
            visit::visit_expr(self, expr);
            self.labels.truncate(self.labels.len() - usize::from(label.is_some()));
            self.loops -= usize::from(is_loop);
        }
        fn visit_item(&mut self, _: &'ast Item) {}
    }
    let mut finder = JumpFinder::default();
    finder.visit_expr(expr);
    finder.found
}

/// Returns whether `let x = EXPR` may extend the life of a temporary that it borrows from: `&f()`.
pub(super) fn extends_a_temporary(expr: &Expr) -> bool {
    struct TemporaryBorrowFinder(bool);
    impl<'ast> Visit<'ast> for TemporaryBorrowFinder {
        fn visit_expr_reference(&mut self, reference: &'ast syn::ExprReference) {
            self.0 |= !is_place(&reference.expr);
            visit::visit_expr_reference(self, reference);
        }
    }
    fn is_place(expr: &Expr) -> bool {
        match expr {
            Expr::Path(_) | Expr::Lit(_) => true,
            Expr::Field(field) => is_place(&field.base),
            Expr::Index(access) => is_place(&access.expr),
            Expr::Paren(inner) => is_place(&inner.expr),
            Expr::Unary(one) => matches!(one.op, UnOp::Deref(_)),
            _ => false,
        }
    }
    let mut finder = TemporaryBorrowFinder(false);
    finder.visit_expr(expr);
    finder.0
}
