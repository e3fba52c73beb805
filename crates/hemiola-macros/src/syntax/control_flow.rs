//! Jumps out of the body.
//!
//! The body becomes a closure that is called once per iteration, so `continue` becomes `return`.
//! Jumps that would end the loop (`break`, `return`, `?`) have no meaning if iterations run on many
//! machines at once, and are reported. Inside nested loops and closures all of them keep their
//! meaning.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprReturn, Item, Label, Lifetime};

use super::diagnostics::Diagnostics;
use super::known_macros::{self, MacroArguments};
use super::names::generated;

/// Turns the `continue` of the parallel loop into `return` and reports all other jumps out of it.
pub(crate) fn check_jumps(body: &mut Block, diagnostics: &mut Diagnostics) {
    JumpChecker { diagnostics, loops: 0, labels: Vec::new(), closed: false, asynchronous: false }.visit_block_mut(body);
}

struct JumpChecker<'a> {
    diagnostics: &'a mut Diagnostics,
    /// Number of enclosing nested loops that an unlabelled jump could refer to.
    loops: usize,
    /// Labels of the enclosing nested loops and blocks.
    labels: Vec<Lifetime>,
    /// True inside a nested closure or async block, which `return` and `?` leave.
    closed: bool,
    /// True inside an async block.
    asynchronous: bool,
}

impl JumpChecker<'_> {
    fn nested(&mut self, label: Option<&Label>, is_loop: bool, walk: impl FnOnce(&mut Self)) {
        self.loops += usize::from(is_loop);
        self.labels.extend(label.map(|label| label.name.clone()));
        walk(self);
        self.labels.truncate(self.labels.len() - usize::from(label.is_some()));
        self.loops -= usize::from(is_loop);
    }

    /// Visits code with its own frame: no jump in it can reach the loops around it.
    fn closed(&mut self, asynchronous: bool, walk: impl FnOnce(&mut Self)) {
        let outside =
            (std::mem::take(&mut self.loops), std::mem::take(&mut self.labels), self.closed, self.asynchronous);
        (self.closed, self.asynchronous) = (true, asynchronous);
        walk(self);
        (self.loops, self.labels, self.closed, self.asynchronous) = outside;
    }

    /// Returns whether a jump with this label, or without one, stays inside the body.
    fn stays(&mut self, jump: &Expr, label: Option<&Lifetime>) -> bool {
        let Some(label) = label else { return self.loops > 0 };
        if !self.closed && !self.labels.contains(label) {
            self.diagnostics.at(
                jump,
                format_args!("`{label}` is outside the parallel loop: its iterations run at the same time and cannot end other loops"),
            );
        }
        true
    }
}

impl VisitMut for JumpChecker<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Loop(nested) => {
                let label = nested.label.clone();
                self.nested(label.as_ref(), true, |inner| inner.visit_block_mut(&mut nested.body));
            }
            Expr::While(nested) => {
                let label = nested.label.clone();
                self.nested(label.as_ref(), true, |inner| visit_mut::visit_expr_while_mut(inner, nested));
            }
            Expr::ForLoop(nested) => {
                self.visit_expr_mut(&mut nested.expr);
                let label = nested.label.clone();
                self.nested(label.as_ref(), true, |inner| inner.visit_block_mut(&mut nested.body));
            }
            Expr::Block(block) => {
                let label = block.label.clone();
                self.nested(label.as_ref(), false, |inner| inner.visit_block_mut(&mut block.block));
            }
            Expr::Closure(closure) => {
                let asynchronous = closure.asyncness.is_some();
                self.closed(asynchronous, |inner| inner.visit_expr_mut(&mut closure.body));
            }
            Expr::Async(block) => self.closed(true, |inner| inner.visit_block_mut(&mut block.block)),
            Expr::Continue(jump) => {
                let (label, span) = (jump.label.clone(), jump.continue_token.span);
                if !self.stays(expr, label.as_ref()) {
                    *expr = leave(span);
                }
            }
            Expr::Break(jump) => {
                let label = jump.label.clone();
                if let Some(value) = &mut jump.expr {
                    self.visit_expr_mut(value);
                }
                if !self.stays(expr, label.as_ref()) && !self.closed {
                    self.diagnostics.at(
                        &*expr,
                        "`break` cannot end a parallel loop: its iterations run at the same time; \
                         use `continue` to skip the rest of this iteration, and a smaller iteration space to stop early",
                    );
                }
            }
            Expr::Return(jump) if !self.closed => {
                self.diagnostics.at(
                    jump,
                    "`return` cannot leave a parallel loop: its iterations run at the same time; \
                     use `continue` to end this iteration, and an accumulator (`cluster.accumulator`) to bring a result out",
                );
            }
            Expr::Try(attempt) if !self.closed => {
                self.diagnostics.at(
                    attempt.question_token,
                    "`?` cannot leave a parallel loop: its iterations run at the same time; handle the error in the body, \
                     or count failures in an accumulator (`cluster.accumulator`) and return after the loop",
                );
                self.visit_expr_mut(&mut attempt.expr);
            }
            Expr::Await(wait) if !self.asynchronous => {
                self.diagnostics.at(
                    wait.await_token,
                    "`.await` cannot stand in a parallel loop: its body is computed by worker threads that never wait",
                );
                self.visit_expr_mut(&mut wait.base);
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_macro_mut(&mut self, call: &mut syn::Macro) {
        if known_macros::is_call_of(call, "parallel_for") {
            self.diagnostics.at(
                &call.path,
                "a parallel loop cannot contain another one: give the loop more indices \
                 (`for [i, j] in [0..n, 0..m]`), or make the inner loop an ordinary `for`",
            );
        }
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

fn leave(span: Span) -> Expr {
    Expr::Return(ExprReturn { attrs: Vec::new(), return_token: syn::Token![return](generated(span)), expr: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::tests::support::same_tokens;
    use quote::ToTokens;

    fn checked(source: &str) -> (String, Vec<String>) {
        let mut diagnostics = Diagnostics::default();
        let mut body: Block = syn::parse_str(&format!("{{ {source} }}")).unwrap();
        check_jumps(&mut body, &mut diagnostics);
        (body.to_token_stream().to_string(), diagnostics.messages())
    }

    #[test]
    fn continue_ends_this_iteration_only_where_it_means_the_parallel_loop() {
        let (body, diagnostics) = checked("if a { continue; } for k in v { continue; } 'x: loop { continue 'x; }");
        assert!(diagnostics.is_empty());
        same_tokens(&body, "{ if a { return; } for k in v { continue; } 'x: loop { continue 'x; } }");
    }

    #[test]
    fn jumps_inside_loops_closures_and_blocks_are_unchanged() {
        for source in [
            "for k in v { if k { break; } }",
            "while a { break }",
            "'x: { if a { break 'x; } }",
            "'x: for k in v { loop { break 'x; } }",
            "v.map(|x| { if x { return 1; } f(x)?; 2 })",
            "let f = async { g().await? };",
            "fn f() -> Option<u8> { return None; }",
        ] {
            let (body, diagnostics) = checked(source);
            assert!(diagnostics.is_empty(), "{source}: {diagnostics:?}");
            same_tokens(&body, &format!("{{ {source} }}"));
        }
    }

    #[test]
    fn all_jumps_out_of_the_loop_are_reported_together() {
        let (_, diagnostics) = checked(
            "if a { break; } f(x)?; if b { return; } 'x: loop { break 'outer; } g().await; \
             parallel_for!(c, for i in 0..n {}); println!(\"{}\", h?); loop { v.map(|x| x?); return }",
        );
        let starts = [
            "`break` cannot",
            "`?` cannot",
            "`return` cannot",
            "`'outer` is outside",
            "`.await` cannot",
            "a parallel loop cannot contain",
            "`?` cannot",
            "`return` cannot",
        ];
        assert_eq!(diagnostics.len(), starts.len(), "{diagnostics:?}");
        for (diagnostic, start) in diagnostics.iter().zip(starts) {
            assert!(diagnostic.starts_with(start), "{diagnostic}");
        }
    }
}
