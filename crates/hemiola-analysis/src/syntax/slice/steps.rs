//! The body as a tree of touches, and of what decides on them.
//!
//! [`Builder`] keeps of the body what is predictable: touches, definitions, changes of locals, conditions, loops and jumps; then
//! [`prune`](super::prune) throws away what no touch needs. If a jump hangs on something unpredictable, nothing behind it is
//! certain to happen: the slice ends there.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, Item, Label, Pat, Stmt};

use super::effects::{bindings, effects, jumps, mentioned};
use super::predict::Prediction;
use crate::syntax::known_macros::{self, Arguments};
use crate::syntax::rewrite::simplified;
use crate::syntax::{Analyzed, names::Names};

/// One thing that the slice does.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A function, constant or import of the body, which the rest may use.
    Item(Box<Item>),
    /// Notes that a captured name is read at a subscript.
    Touch {
        capture: usize,
        subscript: Expr,
    },
    /// `let`.
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
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Match {
        value: Expr,
        arms: Vec<(Arm, Vec<Step>)>,
    },
    For {
        label: Option<Label>,
        pattern: Box<Pat>,
        iterator: Box<Expr>,
        body: Vec<Step>,
    },
    While {
        label: Option<Label>,
        condition: Expr,
        body: Vec<Step>,
    },
    Loop {
        label: Option<Label>,
        body: Vec<Step>,
    },
    Block {
        label: Option<Label>,
        body: Vec<Step>,
    },
    /// `return`, `break` or `continue`.
    Jump(Expr),
}

/// The steps of the slice; none if nothing can be predicted.
pub(super) fn steps(analyzed: &Analyzed) -> Vec<Step> {
    if analyzed.table.unknown_reads.is_empty() {
        return Vec::new();
    }
    let body = simplified(&analyzed.body, &analyzed.names);
    let prediction = Prediction::of(analyzed, &body);
    let mut builder = Builder { analyzed, prediction: &prediction, steps: Vec::new(), ended: false };
    builder.visit_block(&body);
    let steps = builder.steps;
    let mut needed = BTreeSet::new();
    super::prune::prune(steps, &analyzed.names, &mut needed, false)
}

struct Builder<'a> {
    analyzed: &'a Analyzed,
    prediction: &'a Prediction<'a>,
    steps: Vec<Step>,
    /// Whether an unpredictable jump may have been taken.
    ended: bool,
}

impl Builder<'_> {
    fn push(&mut self, step: Step) {
        if !self.ended {
            self.steps.push(step);
        }
    }

    fn collect(&mut self, walk: impl FnOnce(&mut Self)) -> Vec<Step> {
        let outside = std::mem::take(&mut self.steps);
        walk(self);
        std::mem::replace(&mut self.steps, outside)
    }

    fn predictable(&self, expr: &Expr) -> bool {
        self.prediction.needs(expr).is_some()
    }

    /// Leaves out what cannot be predicted; if it may jump, that is the end.
    fn skip(&mut self, expr: &Expr) {
        self.ended |= jumps(expr);
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
        let changes = effects(&self.analyzed.names, expr);
        let lost = changes.iter().any(|local| self.prediction.lost.contains(local));
        if !is_control && !changes.is_empty() && !lost && self.predictable(expr) {
            self.push(Step::Change { statement: expr.clone() });
        }
    }

    fn touch(&mut self, access: &syn::ExprIndex) {
        let names = &self.analyzed.names;
        if let Some(occurrence) = names.captured_place(&access.expr)
            && self.analyzed.table.unknown_reads.contains(&occurrence)
            && self.predictable(&access.index)
            && effects(names, &access.index).is_empty()
        {
            let capture = names.occurrences[occurrence].capture;
            self.push(Step::Touch { capture, subscript: (*access.index).clone() });
        }
    }

    /// `a && b`: what `b` touches hangs on `a`.
    fn shortcut(&mut self, both: &syn::ExprBinary) {
        self.visit_expr(&both.left);
        let right = self.collect(|inner| inner.visit_expr(&both.right));
        let harmless = effects(&self.analyzed.names, &both.left).is_empty();
        if !right.is_empty() && harmless && self.predictable(&both.left) {
            let (then, otherwise) = match both.op {
                BinOp::And(_) => (right, Vec::new()),
                _ => (Vec::new(), right),
            };
            self.push(Step::If { condition: (*both.left).clone(), then, otherwise });
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
        self.push(Step::If { condition: (*branch.cond).clone(), then, otherwise });
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
        self.push(Step::Match { value: (*choice.expr).clone(), arms });
        self.ended |= ended;
    }

    /// The body of a loop, unless what decides on its rounds cannot be predicted.
    fn repeated(&mut self, whole: &Expr, header: Option<&Expr>, body: &Block) -> Option<Vec<Step>> {
        if !header.is_none_or(|header| self.predictable(header)) || self.prediction.may_jump_unseen(body) {
            self.skip(whole);
            return None;
        }
        Some(self.collect(|inner| inner.visit_block(body)))
    }

    /// `iterator.map(|pattern| body)`: the body runs for elements of the iterator.
    fn adaptor(&mut self, call: &syn::ExprMethodCall) -> bool {
        let arguments: Vec<&Expr> = call.args.iter().collect();
        let closure = match (call.method.to_string().as_str(), &arguments[..]) {
            ("map" | "for_each" | "filter_map" | "flat_map", [Expr::Closure(closure)]) if closure.inputs.len() == 1 => {
                closure
            }
            ("fold", [_, Expr::Closure(closure)]) if closure.inputs.len() == 2 => closure,
            _ => return false,
        };
        if !is_iterator(&call.receiver) || !self.predictable(&call.receiver) || jumps(&closure.body) {
            return false;
        }
        if !effects(&self.analyzed.names, &call.receiver).is_empty() {
            return false;
        }
        let Some(element) = closure.inputs.last() else { return false };
        let pattern = Box::new(match element {
            Pat::Type(typed) => (*typed.pat).clone(),
            other => other.clone(),
        });
        self.visit_expr(&call.receiver);
        let body = self.collect(|inner| inner.visit_expr(&closure.body));
        // What the closure gets from step to step is not followed.
        let given = closure.inputs.iter().take(closure.inputs.len() - 1);
        let given: BTreeSet<usize> = given.flat_map(|input| bindings(&self.analyzed.names, input)).collect();
        let body = without(body, &self.analyzed.names, &given);
        self.push(Step::For { label: None, pattern, iterator: call.receiver.clone(), body });
        true
    }
}

impl<'ast> Visit<'ast> for Builder<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        for statement in &block.stmts {
            if let Stmt::Item(item) = statement {
                self.push(Step::Item(Box::new(item.clone())));
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
            return self.push(Step::Bind { local: Box::new(local.clone()), pending: false });
        };
        self.visit_expr(&init.expr);
        let bound = bindings(&self.analyzed.names, &local.pat);
        if bound.iter().any(|local| self.prediction.lost.contains(local)) {
            self.ended |= init.diverge.is_some() || jumps(&init.expr);
            return;
        }
        let pending = bound.iter().any(|local| self.prediction.pending.contains(local));
        match &init.diverge {
            Some(_) if !self.prediction.needs(&init.expr).is_some_and(|needs| needs.is_empty()) => self.ended = true,
            None if !self.predictable(&init.expr) => self.skip(&init.expr),
            _ => self.push(Step::Bind { local: Box::new(local.clone()), pending }),
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
                    self.push(Step::For { label, pattern, iterator, body });
                }
            }
            Expr::While(nested) => {
                if let Some(body) = self.repeated(expr, Some(&nested.cond), &nested.body) {
                    self.push(Step::While { label: nested.label.clone(), condition: (*nested.cond).clone(), body });
                }
            }
            Expr::Loop(nested) => {
                if let Some(body) = self.repeated(expr, None, &nested.body) {
                    self.push(Step::Loop { label: nested.label.clone(), body });
                }
            }
            Expr::Block(nested) => {
                let body = self.collect(|inner| inner.visit_block(&nested.block));
                self.push(Step::Block { label: nested.label.clone(), body });
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                visit::visit_expr(self, expr);
                let mut jump = expr.clone();
                if let Expr::Break(jump) = &mut jump {
                    jump.expr = None; // the value of a loop is not followed
                }
                self.push(Step::Jump(jump));
            }
            Expr::MethodCall(call) => {
                if !self.adaptor(call) {
                    visit::visit_expr(self, expr);
                }
            }
            Expr::Macro(call) => self.visit_macro(&call.mac),
            // When and how often a closure is called is not known, and unsafe code is not for guessing.
            Expr::Closure(_) | Expr::Async(_) | Expr::Unsafe(_) | Expr::Const(_) | Expr::TryBlock(_) => self.skip(expr),
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let Some(arguments) = known_macros::arguments(call) else { return };
        if known_macros::is_call_of(call, "panic") || known_macros::is_call_of(call, "unreachable") {
            return self.push(Step::Jump(syn::parse_quote!(return)));
        }
        for (_, argument) in &arguments.list {
            self.visit_expr(Arguments::value(argument));
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}
}

/// Whether an expression is, by its looks, an iterator: something that `for` takes, too.
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

/// The steps without those that mention `locals`.
fn without(steps: Vec<Step>, names: &Names, locals: &BTreeSet<usize>) -> Vec<Step> {
    if locals.is_empty() {
        return steps;
    }
    let mentions = |step: &Step| uses(step, names).iter().any(|local| locals.contains(local));
    steps.into_iter().filter(|step| !mentions(step)).collect()
}

/// The locals that a step mentions, its inner steps included.
pub(super) fn uses(step: &Step, names: &Names) -> BTreeSet<usize> {
    let inner = |steps: &[Step]| steps.iter().flat_map(|step| uses(step, names)).collect::<BTreeSet<_>>();
    let (mut found, steps): (BTreeSet<usize>, Vec<&[Step]>) = match step {
        Step::Touch { subscript, .. } => (mentioned(names, subscript), vec![]),
        Step::Bind { local, .. } => (mentioned(names, local), vec![]),
        Step::Change { statement } => (mentioned(names, statement), vec![]),
        Step::If { condition, then, otherwise } => (mentioned(names, condition), vec![then, otherwise]),
        Step::Match { value, arms } => {
            let mut found = mentioned(names, value);
            for (arm, _) in arms {
                found.extend(arm.guard.iter().flat_map(|(_, guard)| mentioned(names, guard)));
            }
            (found, arms.iter().map(|(_, steps)| &steps[..]).collect())
        }
        Step::For { iterator, body, .. } => (mentioned(names, iterator), vec![body]),
        Step::While { condition, body, .. } => (mentioned(names, condition), vec![body]),
        Step::Loop { body, .. } | Step::Block { body, .. } => (BTreeSet::new(), vec![body]),
        Step::Item(_) | Step::Jump(_) => (BTreeSet::new(), vec![]),
    };
    found.extend(steps.into_iter().flat_map(inner));
    found
}

/// Whether a step contains a jump.
pub(super) fn has_jump(step: &Step) -> bool {
    match step {
        Step::Jump(_) => true,
        Step::Bind { local, .. } => local.init.as_ref().is_some_and(|init| init.diverge.is_some()),
        Step::Item(_) | Step::Touch { .. } | Step::Change { .. } => false,
        Step::If { then, otherwise, .. } => then.iter().chain(otherwise).any(has_jump),
        Step::Match { arms, .. } => arms.iter().any(|(_, steps)| steps.iter().any(has_jump)),
        Step::For { body, .. } | Step::While { body, .. } | Step::Loop { body, .. } | Step::Block { body, .. } => {
            body.iter().any(has_jump)
        }
    }
}
