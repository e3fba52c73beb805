//! The body as the expansion runs it.
//!
//! The user's code stays unchanged, with the user's spans, except for captured names. Each becomes
//! the value that the run time passes to the iteration: `(*w)`, or `(&*w)` if the
//! [table](super::accesses) lists it as read only. Indexing, method calls, comparison and
//! arithmetic then work as on the name itself.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote_spanned};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Item, UnOp};

use super::accesses::{AccessTable, CaptureForm};
use super::known_macros::{self, MacroArguments};
use super::names::{NameTable, generated};

/// Returns the statements of the rewritten body.
pub(crate) fn rewrite_body(body: &Block, names: &NameTable, table: &AccessTable) -> TokenStream {
    let body = simplified(body, names);
    let statements = body.stmts.iter().map(ToTokens::to_token_stream).collect::<TokenStream>();
    names.restore(statements, &|occurrence| match table.forms.get(&occurrence) {
        Some(CaptureForm::Shared) => {
            let (variable, span) = (names.variable(occurrence), generated(names.occurrences[occurrence].start));
            let prefix = quote_spanned!(span=> &*);
            quote_spanned!(span=> (#prefix #variable))
        }
        _ => names.value(occurrence),
    })
}

/// Returns the body with `(*w)[i]` written as `w[i]`, for captured names.
pub(crate) fn simplified(body: &Block, names: &NameTable) -> Block {
    let mut body = body.clone();
    DerefSimplifier(names).visit_block_mut(&mut body);
    body
}

/// Removes `*` and parentheses from captured names in place expressions: the value passed in is the
/// array itself, even if the user's variable is a reference to it.
struct DerefSimplifier<'a>(&'a NameTable);

impl DerefSimplifier<'_> {
    fn simplify(&self, place: &mut Expr) {
        while self.0.captured_place(place).is_some() {
            *place = match place {
                Expr::Paren(inner) => (*inner.expr).clone(),
                Expr::Group(inner) => (*inner.expr).clone(),
                Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => (*inner.expr).clone(),
                _ => return,
            };
        }
    }
}

impl VisitMut for DerefSimplifier<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Index(access) => self.simplify(&mut access.expr),
            Expr::MethodCall(call) => self.simplify(&mut call.receiver),
            Expr::Assign(assignment) => self.simplify(&mut assignment.left),
            Expr::Binary(both) if super::accesses::is_compound(&both.op) => self.simplify(&mut both.left),
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_macro_mut(&mut self, call: &mut syn::Macro) {
        known_macros::with_arguments(call, |arguments| {
            arguments
                .list
                .iter_mut()
                .for_each(|(_, argument)| self.visit_expr_mut(MacroArguments::value_mut(argument)));
            if let Some((_, Some(guard))) = &mut arguments.pattern {
                self.visit_expr_mut(guard);
            }
        });
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::support::{analyzed, same_tokens};

    fn check(body: &str, expected: &str) {
        let loop_ = analyzed(&format!("c, for ([i, j], v) in &m {{ {body} }}"));
        same_tokens(&super::rewrite_body(&loop_.body, &loop_.names, &loop_.table).to_string(), expected);
    }

    #[test]
    fn captured_names_become_values_of_the_run_time() {
        check("let r = &mut w[i]; r[0] += h[j] * step;", "let r = &mut (*w)[i]; r[0] += (&*h)[j] * (*step);");
        check("self.w[i] = model.h.0[j];", "(*self_w)[i] = (&*model_h_0)[j];");
        check("loss += v; w.shape(); f(w, &mut loss);", "(*loss) += v; (&*w).shape(); f((*w), &mut (*loss));");
    }

    #[test]
    fn references_to_arrays_are_indexed_like_arrays() {
        check("(*w)[i] = 1.0; *loss += (*w).len(); *step", "(*w)[i] = 1.0; (*loss) += (&*w).len(); *(*step)");
    }

    #[test]
    fn continue_locals_and_macros() {
        check(
            "let x = w[i]; if x > v { continue; } println!(\"{x} {}\", h[j]); mine!(h)",
            "let x = (&*w)[i]; if x > v { return; } println!(\"{x} {}\", (&*h)[j]); mine!(h)",
        );
    }

    #[test]
    fn names_with_the_same_word_stay_distinct() {
        check("a.b[i] = a_b[j] + r#type;", "(*a_b)[i] = (&*a_b_)[j] + (*type_);");
    }
}
