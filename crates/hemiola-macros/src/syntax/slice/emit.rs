//! Code generation for the steps of a slice.
//!
//! Recorders are variables of the expansion. Code that needs a captured name or a pending local
//! stands inside `if let Some(..)`, which binds it under the user's name. If such code contains
//! jumps and cannot be evaluated, the slice returns, because nothing after it is certain.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr};

use super::effects::bindings;
use super::prediction::{EvaluationNeeds, SlicePrediction};
use super::steps::{SliceStep, has_jump};
use crate::syntax::AnalyzedLoop;
use crate::syntax::accesses::is_comparison;
use crate::syntax::expansion::variable;
use crate::syntax::names::{NameMeaning, NameTable};
use crate::syntax::rewrite::simplified;

/// Methods that take their receiver by value, if it is an iterator or an option.
const BY_VALUE_METHODS: &[&str] = &[
    "and_then",
    "chain",
    "collect",
    "enumerate",
    "expect",
    "filter",
    "fold",
    "map",
    "ok_or",
    "rev",
    "skip",
    "sum",
    "take",
    "unwrap",
    "unwrap_or",
    "unwrap_or_default",
    "unwrap_or_else",
    "zip",
];

/// Returns the statements of the slice, and the captured names whose recorders they use.
pub(super) fn emit(analyzed: &AnalyzedLoop, steps: &[SliceStep]) -> (TokenStream, BTreeSet<usize>) {
    let body = simplified(&analyzed.body, &analyzed.names);
    let prediction = SlicePrediction::of(analyzed, &body);
    let mut emitter = SliceEmitter { names: &analyzed.names, prediction: &prediction, recorders: BTreeSet::new() };
    let tokens = emitter.steps(steps);
    (tokens, emitter.recorders)
}

/// Variable of a captured name's recorder.
pub(super) fn recorder(capture: usize) -> TokenStream {
    Ident::new(&format!("__recorder_{capture}"), Span::mixed_site()).into_token_stream()
}

struct SliceEmitter<'a> {
    names: &'a NameTable,
    prediction: &'a SlicePrediction<'a>,
    recorders: BTreeSet<usize>,
}

impl SliceEmitter<'_> {
    fn steps(&mut self, steps: &[SliceStep]) -> TokenStream {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &SliceStep) -> TokenStream {
        match step {
            SliceStep::Item(item) => item.to_token_stream(),
            SliceStep::Touch { capture, subscript } => {
                self.recorders.insert(*capture);
                let recorder = recorder(*capture);
                let value = self.value(subscript);
                self.guarded(&[subscript], quote!(#recorder.touch(#value);), step)
            }
            SliceStep::Bind { local, pending: true } => self.pending(local),
            SliceStep::Bind { local, pending: false } => self.written(local),
            SliceStep::Change { statement } => {
                let statement = self.value(statement);
                quote!(#statement;)
            }
            SliceStep::If { condition, then, otherwise } => {
                let (value, then, otherwise) = (self.value(condition), self.steps(then), self.steps(otherwise));
                let otherwise = (!otherwise.is_empty()).then(|| quote!(else { #otherwise }));
                self.guarded(&[condition], quote!(if #value { #then } #otherwise), step)
            }
            SliceStep::Match { value, arms } => {
                let guards: Vec<&Expr> =
                    arms.iter().filter_map(|(arm, _)| arm.guard.as_ref().map(|(_, guard)| &**guard)).collect();
                let needing: Vec<&Expr> = std::iter::once(value).chain(guards).collect();
                let arms: Vec<TokenStream> = arms
                    .iter()
                    .map(|(arm, steps)| {
                        let guard =
                            arm.guard.as_ref().map(|(_, guard)| self.value(guard)).map(|guard| quote!(if #guard));
                        let (pattern, steps) = (self.written(&arm.pat), self.steps(steps));
                        quote!(#pattern #guard => { #steps })
                    })
                    .collect();
                let value = self.value(value);
                self.guarded(&needing, quote!(match #value { #(#arms)* }), step)
            }
            SliceStep::For { label, pattern, iterator, body } => {
                let (pattern, value, body) = (self.written(pattern), self.value(iterator), self.steps(body));
                self.guarded(&[iterator], quote!(#label for #pattern in #value { #body }), step)
            }
            SliceStep::While { label, condition, body } => {
                let (value, body) = (self.value(condition), self.steps(body));
                self.guarded(&[condition], quote!(#label while #value { #body }), step)
            }
            SliceStep::Loop { label, body } => {
                let body = self.steps(body);
                quote!(#label loop { #body })
            }
            SliceStep::Block { label, body } => {
                let body = self.steps(body);
                quote!(#label { #body })
            }
            SliceStep::Jump(jump) => quote!(#jump;),
        }
    }

    /// Wraps `inner` in a condition that all needs of `exprs` are available.
    fn guarded(&mut self, exprs: &[&Expr], inner: TokenStream, step: &SliceStep) -> TokenStream {
        let needs = exprs
            .iter()
            .filter_map(|expr| self.prediction.needs(expr))
            .fold(EvaluationNeeds::default(), EvaluationNeeds::and);
        if needs.is_empty() {
            return inner;
        }
        let known = self.known(&needs);
        let otherwise = has_jump(step).then(|| quote!(else { return; }));
        quote!(if #known { #inner } #otherwise)
    }

    /// Returns the condition that all of `needs` are available, which also binds them.
    fn known(&mut self, needs: &EvaluationNeeds) -> TokenStream {
        let captures = needs.captures.iter().map(|capture| {
            let (recorder, name) = (recorder(*capture), variable(&self.names.captures[*capture].word));
            quote!(let ::core::option::Option::Some(#name) = #recorder.peek())
        });
        let captures: Vec<TokenStream> = captures.collect();
        self.recorders.extend(&needs.captures);
        let locals = needs.locals.iter().map(|local| {
            let (option, name) = (option(*local), self.written(NameTable::local_tag(*local, Span::call_site())));
            quote!(let ::core::option::Option::Some(#name) = &#option)
        });
        let conditions = captures.into_iter().chain(locals);
        quote!(#(#conditions)&&*)
    }

    /// Emits `let (a, b) = EXPR` for an `EXPR` that may be unavailable: two options.
    fn pending(&mut self, local: &syn::Local) -> TokenStream {
        let Some(init) = &local.init else { return TokenStream::new() };
        let bound = bindings(self.names, &local.pat);
        let options: Vec<Ident> = bound.iter().map(|local| option(*local)).collect();
        let names: Vec<TokenStream> =
            bound.iter().map(|local| self.written(NameTable::local_tag(*local, Span::call_site()))).collect();
        let needs = self.prediction.needs(&init.expr).unwrap_or_default();
        let (known, pattern, value) = (self.known(&needs), self.written(&local.pat), self.value(&init.expr));
        let nothing = bound.iter().map(|_| quote!(::core::option::Option::None));
        quote! {
            let (#(#options,)*) = if #known {
                let #pattern = #value;
                (#(::core::option::Option::Some(#names),)*)
            } else {
                (#(#nothing,)*)
            };
        }
    }

    /// Emits an expression whose needs are available.
    fn value(&self, expr: &Expr) -> TokenStream {
        let mut expr = expr.clone();
        PendingLocalRewriter { names: self.names, pending: &self.prediction.pending }.visit_expr_mut(&mut expr);
        self.written(expr)
    }

    fn written(&self, tokens: impl ToTokens) -> TokenStream {
        self.names.restore(tokens, &|occurrence| self.names.value(occurrence))
    }
}

/// Variable that holds a pending local.
fn option(local: usize) -> Ident {
    Ident::new(&format!("__pending_{local}"), Span::mixed_site())
}

/// Rewrites uses of pending locals, which are bound as references: `*j` for a place, a clone for a
/// value, patterns included.
struct PendingLocalRewriter<'a> {
    names: &'a NameTable,
    pending: &'a BTreeSet<usize>,
}

impl PendingLocalRewriter<'_> {
    fn expr(&mut self, expr: &mut Expr, value: bool) {
        if let Some(NameMeaning::Local(local)) = self.names.meaning_of(expr) {
            if self.pending.contains(&local) {
                *expr = if value {
                    syn::parse_quote!(::core::clone::Clone::clone(#expr))
                } else {
                    syn::parse_quote!((*#expr))
                };
            }
            return;
        }
        match expr {
            Expr::Index(access) => {
                self.expr(&mut access.expr, false);
                self.expr(&mut access.index, true);
            }
            Expr::Field(field) => self.expr(&mut field.base, value),
            Expr::Reference(reference) => self.expr(&mut reference.expr, false),
            Expr::Unary(one) => self.expr(&mut one.expr, !matches!(one.op, syn::UnOp::Deref(_))),
            Expr::Binary(both) if is_comparison(&both.op) && !matches!(both.op, BinOp::And(_)) => {
                self.expr(&mut both.left, false);
                self.expr(&mut both.right, false);
            }
            Expr::MethodCall(call) => {
                let method = call.method.to_string();
                let consumes = method.starts_with("into") || BY_VALUE_METHODS.binary_search(&method.as_str()).is_ok();
                self.expr(&mut call.receiver, consumes);
                call.args.iter_mut().for_each(|argument| self.expr(argument, true));
            }
            Expr::Paren(inner) => self.expr(&mut inner.expr, value),
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }
}

impl VisitMut for PendingLocalRewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        self.expr(expr, true);
    }

    fn visit_macro_mut(&mut self, call: &mut syn::Macro) {
        crate::syntax::known_macros::with_arguments(call, |arguments| {
            arguments.list.iter_mut().for_each(|(_, argument)| {
                self.visit_expr_mut(crate::syntax::known_macros::MacroArguments::value_mut(argument));
            });
        });
    }

    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

#[cfg(test)]
mod tests {
    use super::BY_VALUE_METHODS;

    #[test]
    fn the_list_of_methods_can_be_searched() {
        assert!(BY_VALUE_METHODS.is_sorted());
    }
}
