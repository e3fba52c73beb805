//! The body as a tree of touches and of the code that decides on them.
//!
//! [`SliceBuilder`] keeps the predictable part of the body: touches, definitions, changes of
//! locals, conditions, loops and jumps. Then [`prune`](super::prune) removes the code that no touch
//! needs. If a jump depends on something unpredictable, nothing after it is certain to happen, and
//! the slice ends there.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, Item, Label, Pat, Stmt};

use super::effects::{bindings, changed_locals, may_jump, mentioned_locals};
use super::prediction::SlicePrediction;
use crate::syntax::known_macros::{self, MacroArguments};
use crate::syntax::rewrite::simplified;
use crate::syntax::{AnalyzedLoop, names::NameTable};

/// One step of the slice.
#[derive(Clone, Debug)]
pub(super) enum SliceStep {
    /// A function, constant or import of the body, which other steps may use.
    Item(Box<Item>),
    /// Records that a captured name is read at a subscript.
    Touch {
        capture: usize,
        subscript: Expr,
    },
    /// A `let` statement, whose locals may be pending.
    Bind {
        local: Box<syn::Local>,
        pending: bool,
    },
    /// Any other statement that changes locals.
    Change {
        statement: Expr,
    },
    If {
        condition: Expr,
        then: Vec<SliceStep>,
        otherwise: Vec<SliceStep>,
    },
    Match {
        value: Expr,
        arms: Vec<(Arm, Vec<SliceStep>)>,
    },
    For {
        label: Option<Label>,
        pattern: Box<Pat>,
        iterator: Box<Expr>,
        body: Vec<SliceStep>,
    },
    While {
        label: Option<Label>,
        condition: Expr,
        body: Vec<SliceStep>,
    },
    Loop {
        label: Option<Label>,
        body: Vec<SliceStep>,
    },
    Block {
        label: Option<Label>,
        body: Vec<SliceStep>,
    },
    /// A `return`, `break` or `continue`.
    Jump(Expr),
}

/// Returns the steps of the slice; none if nothing can be predicted.
pub(super) fn slice_steps(analyzed: &AnalyzedLoop) -> Vec<SliceStep> {
    if analyzed.table.unknown_reads.is_empty() {
        return Vec::new();
    }
    let body = simplified(&analyzed.body, &analyzed.names);
    let prediction = SlicePrediction::of(analyzed, &body);
    let mut builder = SliceBuilder { analyzed, prediction: &prediction, steps: Vec::new(), ended: false };
    builder.visit_block(&body);
    let steps = builder.steps;
    let mut needed = BTreeSet::new();
    super::prune::prune(steps, &analyzed.names, &mut needed, false)
}

struct SliceBuilder<'a> {
    analyzed: &'a AnalyzedLoop,
    prediction: &'a SlicePrediction<'a>,
    steps: Vec<SliceStep>,
    /// True if an unpredictable jump may have been taken.
    ended: bool,
}

impl SliceBuilder<'_> {
    fn push(&mut self, step: SliceStep) {
        if !self.ended {
            self.steps.push(step);
        }
    }

    fn collect(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<SliceStep> {
        let outside = std::mem::take(&mut self.steps);
        walk(self);
        std::mem::replace(&mut self.steps, outside)
    }

    fn predictable(&self, expr: &Expr) -> bool {
        self.prediction.needs(expr).is_some()
    }

    /// Leaves out unpredictable code. If it may jump, the slice ends here.
    fn skip(&mut self, expr: &Expr) {
        self.ended |= may_jump(expr);
    }

    fn statement(&mut self, expr: &Expr) {
        self.visit_expr(expr);
        let is_control = matches!(
            expr,
            Expr::If(_)
                | Expr::Match(_)
                | Expr::ForLoop(_)
                | Expr::While(_)
                | Expr::Loop(_)
                | Expr::Block(_)
                | Expr::Unsafe(_)
        );
        let changes = changed_locals(&self.analyzed.names, expr);
        let unpredictable = changes.iter().any(|local| self.prediction.unpredictable.contains(local));
        if !is_control && !changes.is_empty() && !unpredictable && self.predictable(expr) {
            self.push(SliceStep::Change { statement: expr.clone() });
        }
    }

    fn touch(&mut self, access: &syn::ExprIndex) {
        let names = &self.analyzed.names;
        if let Some(occurrence) = names.captured_place(&access.expr)
            && self.analyzed.table.unknown_reads.contains(&occurrence)
            && self.predictable(&access.index)
            && changed_locals(names, &access.index).is_empty()
        {
            let capture = names.occurrences[occurrence].capture;
            self.push(SliceStep::Touch { capture, subscript: (*access.index).clone() });
        }
    }

    /// Visits `a && b`: the touches of `b` depend on `a`.
    fn shortcut(&mut self, both: &syn::ExprBinary) {
        self.visit_expr(&both.left);
        let right = self.collect(|inner| inner.visit_expr(&both.right));
        let harmless = changed_locals(&self.analyzed.names, &both.left).is_empty();
        if !right.is_empty() && harmless && self.predictable(&both.left) {
            let (then, otherwise) = match both.op {
                BinOp::And(_) => (right, Vec::new()),
                _ => (Vec::new(), right),
            };
            self.push(SliceStep::If { condition: (*both.left).clone(), then, otherwise });
        }
    }

    fn branch(&mut self, whole: &Expr, branch: &syn::ExprIf) {
        self.visit_expr(&branch.cond);
        if !self.predictable(&branch.cond) {
            return self.skip(whole);
        }
        let before = self.ended;
        let then = self.collect(|inner| inner.visit_block(&branch.then_branch));
        let ended = std::mem::replace(&mut self.ended, before);
        let otherwise = self.collect(|inner| match branch.else_branch.as_ref().map(|(_, expr)| &**expr) {
            Some(Expr::Block(block)) => inner.visit_block(&block.block),
            Some(chained) => inner.visit_expr(chained),
            None => {}
        });
        let ended = std::mem::replace(&mut self.ended, before) || ended;
        self.push(SliceStep::If { condition: (*branch.cond).clone(), then, otherwise });
        self.ended |= ended;
    }

    fn choice(&mut self, whole: &Expr, choice: &syn::ExprMatch) {
        self.visit_expr(&choice.expr);
        let mut guards = choice.arms.iter().filter_map(|arm| arm.guard.as_ref());
        if !self.predictable(&choice.expr) || !guards.all(|(_, guard)| self.predictable(guard)) {
            return self.skip(whole);
        }
        let (before, mut ended, mut arms) = (self.ended, false, Vec::new());
        for arm in &choice.arms {
            let body = self.collect(|inner| inner.visit_expr(&arm.body));
            ended |= std::mem::replace(&mut self.ended, before);
            arms.push((arm.clone(), body));
        }
        self.push(SliceStep::Match { value: (*choice.expr).clone(), arms });
        self.ended |= ended;
    }

    /// Returns the body of a loop, unless its number of iterations is unpredictable.
    fn repeated(&mut self, whole: &Expr, header: Option<&Expr>, body: &Block) -> Option<Vec<SliceStep>> {
        if !header.is_none_or(|header| self.predictable(header)) || self.prediction.may_jump_unseen(body) {
            self.skip(whole);
            return None;
        }
        Some(self.collect(|inner| inner.visit_block(body)))
    }

    /// Visits `iterator.map(|pattern| body)`: the body runs for elements of the iterator.
    fn adaptor(&mut self, call: &syn::ExprMethodCall) -> bool {
        let arguments: Vec<&Expr> = call.args.iter().collect();
        let closure = match (call.method.to_string().as_str(), &arguments[..]) {
            ("map" | "for_each" | "filter_map" | "flat_map", [Expr::Closure(closure)]) if closure.inputs.len() == 1 => {
                closure
            }
            ("fold", [_, Expr::Closure(closure)]) if closure.inputs.len() == 2 => closure,
            _ => return false,
        };
        if !is_iterator(&call.receiver) || !self.predictable(&call.receiver) || may_jump(&closure.body) {
            return false;
        }
        if !changed_locals(&self.analyzed.names, &call.receiver).is_empty() {
            return false;
        }
        let Some(element) = closure.inputs.last() else { return false };
        let pattern = Box::new(match element {
            Pat::Type(typed) => (*typed.pat).clone(),
            other => other.clone(),
        });
        self.visit_expr(&call.receiver);
        let body = self.collect(|inner| inner.visit_expr(&closure.body));
        // The value that `fold` passes from element to element is not followed.
        let given = closure.inputs.iter().take(closure.inputs.len() - 1);
        let given: BTreeSet<usize> = given.flat_map(|input| bindings(&self.analyzed.names, input)).collect();
        let body = without(body, &self.analyzed.names, &given);
        self.push(SliceStep::For { label: None, pattern, iterator: call.receiver.clone(), body });
        true
    }
}

impl<'ast> Visit<'ast> for SliceBuilder<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            if let Stmt::Item(item) = statement {
                self.push(SliceStep::Item(Box::new(item.clone())));
            }
        }
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => self.visit_local(local),
                Stmt::Expr(expr, _) => self.statement(expr),
                Stmt::Macro(call) => self.visit_macro(&call.mac),
                Stmt::Item(_) => {}
            }
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let Some(init) = &local.init else {
            return self.push(SliceStep::Bind { local: Box::new(local.clone()), pending: false });
        };
        self.visit_expr(&init.expr);
        let bound = bindings(&self.analyzed.names, &local.pat);
        if bound.iter().any(|local| self.prediction.unpredictable.contains(local)) {
            self.ended |= init.diverge.is_some() || may_jump(&init.expr);
            return;
        }
        let pending = bound.iter().any(|local| self.prediction.pending.contains(local));
        match &init.diverge {
            Some(_) if !self.prediction.needs(&init.expr).is_some_and(|needs| needs.is_empty()) => self.ended = true,
            None if !self.predictable(&init.expr) => self.skip(&init.expr),
            _ => self.push(SliceStep::Bind { local: Box::new(local.clone()), pending }),
        }
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.ended {
            return;
        }
        match expr {
            Expr::Index(access) => {
                visit::visit_expr(self, expr);
                self.touch(access);
            }
            Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => self.shortcut(both),
            Expr::If(branch) => self.branch(expr, branch),
            Expr::Match(choice) => self.choice(expr, choice),
            Expr::ForLoop(nested) => {
                self.visit_expr(&nested.expr);
                let (label, pattern, iterator) = (nested.label.clone(), nested.pat.clone(), nested.expr.clone());
                if let Some(body) = self.repeated(expr, Some(&nested.expr), &nested.body) {
                    self.push(SliceStep::For { label, pattern, iterator, body });
                }
            }
            Expr::While(nested) => {
                if let Some(body) = self.repeated(expr, Some(&nested.cond), &nested.body) {
                    self.push(SliceStep::While {
                        label: nested.label.clone(),
                        condition: (*nested.cond).clone(),
                        body,
                    });
                }
            }
            Expr::Loop(nested) => {
                if let Some(body) = self.repeated(expr, None, &nested.body) {
                    self.push(SliceStep::Loop { label: nested.label.clone(), body });
                }
            }
            Expr::Block(nested) => {
                let body = self.collect(|inner| inner.visit_block(&nested.block));
                self.push(SliceStep::Block { label: nested.label.clone(), body });
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                visit::visit_expr(self, expr);
                let mut jump = expr.clone();
                if let Expr::Break(jump) = &mut jump {
                    jump.expr = None; // the value of a loop is not followed
                }
                self.push(SliceStep::Jump(jump));
            }
            Expr::MethodCall(call) => {
                if !self.adaptor(call) {
                    visit::visit_expr(self, expr);
                }
            }
            Expr::Macro(call) => self.visit_macro(&call.mac),
            // The calls of a closure are not known, and unsafe code must not run speculatively.
            Expr::Closure(_) | Expr::Async(_) | Expr::Unsafe(_) | Expr::Const(_) | Expr::TryBlock(_) => self.skip(expr),
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let Some(arguments) = known_macros::arguments(call) else { return };
        if known_macros::is_call_of(call, "panic") || known_macros::is_call_of(call, "unreachable") {
            return self.push(SliceStep::Jump(syn::parse_quote!(return)));
        }
        for (_, argument) in &arguments.list {
            self.visit_expr(MacroArguments::value(argument));
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}
}

/// Returns whether an expression looks like an iterator that `for` accepts.
fn is_iterator(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(inner) => is_iterator(&inner.expr) || matches!(&*inner.expr, Expr::Range(_)),
        Expr::MethodCall(call) => matches!(
            call.method.to_string().as_str(),
            "bytes"
                | "chars"
                | "chunks"
                | "chunks_exact"
                | "cloned"
                | "copied"
                | "enumerate"
                | "filter"
                | "into_iter"
                | "iter"
                | "keys"
                | "rev"
                | "skip"
                | "step_by"
                | "take"
                | "values"
                | "windows"
                | "zip"
        ),
        _ => false,
    }
}

/// Removes the steps that mention `locals`.
fn without(steps: Vec<SliceStep>, names: &NameTable, locals: &BTreeSet<usize>) -> Vec<SliceStep> {
    if locals.is_empty() {
        return steps;
    }
    let mentions = |step: &SliceStep| uses(step, names).iter().any(|local| locals.contains(local));
    steps.into_iter().filter(|step| !mentions(step)).collect()
}

/// Returns the locals that a step mentions, its inner steps included.
pub(super) fn uses(step: &SliceStep, names: &NameTable) -> BTreeSet<usize> {
    let inner = |steps: &[SliceStep]| steps.iter().flat_map(|step| uses(step, names)).collect::<BTreeSet<_>>();
    let (mut found, steps): (BTreeSet<usize>, Vec<&[SliceStep]>) = match step {
        SliceStep::Touch { subscript, .. } => (mentioned_locals(names, subscript), vec![]),
        SliceStep::Bind { local, .. } => (mentioned_locals(names, local), vec![]),
        SliceStep::Change { statement } => (mentioned_locals(names, statement), vec![]),
        SliceStep::If { condition, then, otherwise } => (mentioned_locals(names, condition), vec![then, otherwise]),
        SliceStep::Match { value, arms } => {
            let mut found = mentioned_locals(names, value);
            for (arm, _) in arms {
                found.extend(arm.guard.iter().flat_map(|(_, guard)| mentioned_locals(names, guard)));
            }
            (found, arms.iter().map(|(_, steps)| &steps[..]).collect())
        }
        SliceStep::For { iterator, body, .. } => (mentioned_locals(names, iterator), vec![body]),
        SliceStep::While { condition, body, .. } => (mentioned_locals(names, condition), vec![body]),
        SliceStep::Loop { body, .. } | SliceStep::Block { body, .. } => (BTreeSet::new(), vec![body]),
        SliceStep::Item(_) | SliceStep::Jump(_) => (BTreeSet::new(), vec![]),
    };
    found.extend(steps.into_iter().flat_map(inner));
    found
}

/// Returns whether a step contains a jump.
pub(super) fn has_jump(step: &SliceStep) -> bool {
    match step {
        SliceStep::Jump(_) => true,
        SliceStep::Bind { local, .. } => local.init.as_ref().is_some_and(|init| init.diverge.is_some()),
        SliceStep::Item(_) | SliceStep::Touch { .. } | SliceStep::Change { .. } => false,
        SliceStep::If { then, otherwise, .. } => then.iter().chain(otherwise).any(has_jump),
        SliceStep::Match { arms, .. } => arms.iter().any(|(_, steps)| steps.iter().any(has_jump)),
        SliceStep::For { body, .. }
        | SliceStep::While { body, .. }
        | SliceStep::Loop { body, .. }
        | SliceStep::Block { body, .. } => body.iter().any(has_jump),
    }
}
