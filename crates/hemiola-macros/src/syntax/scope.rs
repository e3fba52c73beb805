//! Name resolution: Rust's scoping rules for locals, without types.
//!
//! A *captured name* is an identifier, or a path of fields that starts at one (`model.w`, `self.w`,
//! `pair.0`), in expression position, that nothing inside the loop binds. Constants and types are
//! recognized by their upper-case first letter. The callee of `f(x)` stays unchanged, whether it is
//! a function or a closure. Macro names and paths with `::` are not variables.
//!
//! [`resolve`] visits the loop once, in the order in which Rust opens and closes scopes, and
//! records the result as tags in the body (see [`names`](super::names)). Blocks, `let` (also
//! `let .. else`), closures, `match` arms, `if let` and `while let` with chains, `for`, and items
//! open scopes or bind names. Nested functions see nothing of the body.

use std::collections::BTreeMap;

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Item, Member, Pat, Stmt, UseTree};

use super::header::LoopHeader;
use super::known_macros::{self, MacroArguments};
use super::names::{NameTable, lone_ident};

/// Tags every name in the header's value pattern and in the body.
pub(crate) fn resolve(header: &mut LoopHeader, body: &mut Block) -> NameTable {
    let mut resolver = NameResolver { names: NameTable::default(), scopes: vec![BTreeMap::new()] };
    for (dimension, index) in header.indices.each().iter().enumerate() {
        if let Some(index) = index {
            resolver.bind(index.to_string(), Binding::Index(dimension));
        }
    }
    resolver.bind_pattern(&mut header.value);
    resolver.visit_block_mut(body);
    resolver.names
}

/// Binding of a name.
#[derive(Clone, Copy)]
enum Binding {
    Index(usize),
    Local(usize),
    /// A function, constant or import of the body, which is not tagged.
    Item,
}

struct NameResolver {
    names: NameTable,
    /// Open scopes, the innermost last. Never empty.
    scopes: Vec<BTreeMap<String, Binding>>,
}

impl NameResolver {
    fn bind(&mut self, name: String, bound: Binding) {
        self.scopes.last_mut().expect("the outermost scope stays").insert(name, bound);
    }

    fn bound(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn scoped(&mut self, walk: impl FnOnce(&mut Self)) {
        self.scopes.push(BTreeMap::new());
        walk(self);
        self.scopes.pop();
    }

    /// Binds all names of a pattern, each once, even if `|` repeats it.
    fn bind_pattern(&mut self, pattern: &mut Pat) {
        let mut binder = PatternBinder { names: &mut self.names, new: BTreeMap::new() };
        binder.visit_pat_mut(pattern);
        for (name, local) in binder.new {
            self.bind(name, Binding::Local(local));
        }
    }

    /// Replaces `ident` by its tag if it is bound inside the loop. Returns whether it is bound
    /// there, by a variable or an item.
    fn tag_bound(&mut self, expr: &mut Expr) -> bool {
        let Some(ident) = lone_ident(expr) else { return false };
        let tag = match self.bound(&ident.to_string()) {
            None => return false,
            Some(Binding::Item) => return true,
            Some(Binding::Index(dimension)) => self.names.index(dimension, ident),
            Some(Binding::Local(local)) => NameTable::local_tag(local, ident.span()),
        };
        *expr = as_expr(tag);
        true
    }

    /// Replaces a path of fields by a tag if it comes from outside. Returns whether it did.
    fn capture(&mut self, expr: &mut Expr) -> bool {
        let Some((text, start, end)) = field_path(expr) else { return false };
        let root = text.split('.').next().unwrap_or_default();
        if self.bound(root).is_some() || root.starts_with(char::is_uppercase) {
            return false;
        }
        let tag = self.names.occurrence(expr, text, (start, end));
        *expr = as_expr(tag);
        true
    }

    fn items(&mut self, statements: &[Stmt]) {
        for statement in statements {
            let mut found = Vec::new();
            match statement {
                Stmt::Item(Item::Fn(item)) => found.push(item.sig.ident.to_string()),
                Stmt::Item(Item::Const(item)) => found.push(item.ident.to_string()),
                Stmt::Item(Item::Static(item)) => found.push(item.ident.to_string()),
                Stmt::Item(Item::Use(item)) => imported(&item.tree, &mut found),
                _ => {}
            }
            for name in found {
                self.names.items.insert(name.clone());
                self.bind(name, Binding::Item);
            }
        }
    }
}

impl VisitMut for NameResolver {
    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scoped(|inner| {
            inner.items(&block.stmts);
            visit_mut::visit_block_mut(inner, block);
        });
    }

    fn visit_local_mut(&mut self, local: &mut syn::Local) {
        if let Some(init) = &mut local.init {
            self.visit_expr_mut(&mut init.expr);
            if let Some((_, otherwise)) = &mut init.diverge {
                self.visit_expr_mut(otherwise);
            }
        }
        self.bind_pattern(&mut local.pat);
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.tag_bound(expr) || self.capture(expr) {
            return;
        }
        match expr {
            Expr::Call(call) => {
                // The callee stays, unless it is a closure that the body itself has bound.
                if matches!(&*call.func, Expr::Path(_)) {
                    self.tag_bound(&mut call.func);
                } else {
                    self.visit_expr_mut(&mut call.func);
                }
                call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
            }
            Expr::Closure(closure) => self.scoped(|inner| {
                closure.inputs.iter_mut().for_each(|input| inner.bind_pattern(input));
                inner.visit_expr_mut(&mut closure.body);
            }),
            Expr::If(branch) => {
                self.scoped(|inner| {
                    inner.visit_expr_mut(&mut branch.cond);
                    inner.visit_block_mut(&mut branch.then_branch);
                });
                if let Some((_, otherwise)) = &mut branch.else_branch {
                    self.visit_expr_mut(otherwise);
                }
            }
            Expr::While(nested) => self.scoped(|inner| {
                inner.visit_expr_mut(&mut nested.cond);
                inner.visit_block_mut(&mut nested.body);
            }),
            Expr::ForLoop(nested) => {
                self.visit_expr_mut(&mut nested.expr);
                self.scoped(|inner| {
                    inner.bind_pattern(&mut nested.pat);
                    inner.visit_block_mut(&mut nested.body);
                });
            }
            Expr::Let(condition) => {
                // Binds into the scope of the enclosing `if`, `while` or arm.
                self.visit_expr_mut(&mut condition.expr);
                self.bind_pattern(&mut condition.pat);
            }
            Expr::Match(choice) => {
                self.visit_expr_mut(&mut choice.expr);
                for arm in &mut choice.arms {
                    self.scoped(|inner| {
                        inner.bind_pattern(&mut arm.pat);
                        if let Some((_, guard)) = &mut arm.guard {
                            inner.visit_expr_mut(guard);
                        }
                        inner.visit_expr_mut(&mut arm.body);
                    });
                }
            }
            Expr::Struct(literal) => {
                for field in &mut literal.fields {
                    self.visit_expr_mut(&mut field.expr);
                    field.colon_token.get_or_insert_default();
                }
                if let Some(rest) = &mut literal.rest {
                    self.visit_expr_mut(rest);
                }
            }
            // The length is a constant, which no variable can be part of.
            Expr::Repeat(array) => self.visit_expr_mut(&mut array.expr),
            Expr::Const(_) => {}
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_macro_mut(&mut self, call: &mut syn::Macro) {
        known_macros::with_arguments(call, |arguments| {
            for (_, argument) in &mut arguments.list {
                self.visit_expr_mut(MacroArguments::value_mut(argument));
            }
            if let Some((pattern, guard)) = &mut arguments.pattern {
                self.scoped(|inner| {
                    inner.bind_pattern(pattern);
                    if let Some(guard) = guard {
                        inner.visit_expr_mut(guard);
                    }
                });
            }
        });
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_type_mut(&mut self, _: &mut syn::Type) {}

    fn visit_path_mut(&mut self, _: &mut syn::Path) {}

    fn visit_attribute_mut(&mut self, _: &mut syn::Attribute) {}
}

/// Tags the variables that a pattern binds.
struct PatternBinder<'a> {
    names: &'a mut NameTable,
    new: BTreeMap<String, usize>,
}

impl VisitMut for PatternBinder<'_> {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        match pattern {
            Pat::Ident(binding) if !binding.ident.unraw().to_string().starts_with(char::is_uppercase) => {
                let name = binding.ident.to_string();
                binding.ident = if let Some(local) = self.new.get(&name) {
                    NameTable::local_tag(*local, binding.ident.span())
                } else {
                    self.new.insert(name, self.names.locals.len());
                    self.names.local(&binding.ident, binding.mutability.is_some())
                };
                if let Some((_, inner)) = &mut binding.subpat {
                    self.visit_pat_mut(inner);
                }
            }
            Pat::Struct(fields) => {
                for field in &mut fields.fields {
                    let is_binding = matches!(&*field.pat, Pat::Ident(_));
                    self.visit_pat_mut(&mut field.pat);
                    if is_binding {
                        field.colon_token.get_or_insert_default();
                    }
                }
            }
            // Types, and constant expressions.
            Pat::Type(typed) => self.visit_pat_mut(&mut typed.pat),
            Pat::Const(_) | Pat::Lit(_) | Pat::Macro(_) | Pat::Path(_) | Pat::Range(_) => {}
            _ => visit_mut::visit_pat_mut(self, pattern),
        }
    }
}

/// Returns `a.b.0` with the spans of its first and last part.
fn field_path(expr: &Expr) -> Option<(String, Span, Span)> {
    if let Some(ident) = lone_ident(expr) {
        return Some((ident.to_string(), ident.span(), ident.span()));
    }
    let Expr::Field(field) = expr else { return None };
    let (base, start, _) = field_path(&field.base)?;
    let member = match &field.member {
        Member::Named(ident) => ident.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    };
    Some((format!("{base}.{member}"), start, field.member.span()))
}

fn as_expr(tag: Ident) -> Expr {
    Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: tag.into() })
}

fn imported(tree: &UseTree, found: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => imported(&path.tree, found),
        UseTree::Name(name) => found.push(name.ident.to_string()),
        UseTree::Rename(rename) => found.push(rename.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|item| imported(item, found)),
        // Imported names hide no variable: locals take precedence over imports.
        UseTree::Glob(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::tests::support::{resolved, same_tokens};

    fn captured(body: &str) -> Vec<String> {
        let (_, names, _) = resolved(&format!("c, for ([i, j], (a, b)) in &m {{ {body} }}"));
        names.captures.into_iter().map(|capture| capture.text).collect()
    }

    #[test]
    fn captured_names_are_found_in_source_order() {
        assert_eq!(captured("w[i] += h[j] * a + w[j];"), ["w", "h"]);
        assert_eq!(
            captured("self.w[i] = model.h.x[j] + pair.0 + self.step;"),
            ["self.w", "model.h.x", "pair.0", "self.step"]
        );
        assert_eq!(captured("self.update(i); model.w.fill(0.0);"), ["self", "model.w"]);
        assert_eq!(captured("f(x); y(x); Some(z); K + T::N + std::f64::consts::PI;"), ["x", "z"]);
        assert_eq!(captured("(self.f)(i); g(h)(i);"), ["self.f", "h"]);
        assert_eq!(captured("xs.iter().map(convert).sum::<f64>();"), ["xs", "convert"]);
    }

    #[test]
    fn names_bound_in_the_loop_are_not_captured() {
        assert_eq!(captured("let x = y; x; { let y = x; y; } y;"), ["y"]);
        assert_eq!(captured("let x = x; x + 1;"), ["x"]);
        assert_eq!(captured("i; j; a.b; b.c[i];"), Vec::<String>::new());
        assert_eq!(captured("for k in 0..n { k; } k;"), ["n", "k"]);
        assert_eq!(captured("(|x, (y, z): (u8, u8)| x + y + z + t)(1, (2, 3)); x;"), ["t", "x"]);
        assert_eq!(captured("let P { x, y: Q(z), .. } = p; x; z; y;"), ["p", "y"]);
        assert_eq!(captured("let [first, .., last @ K] = q; first; last;"), ["q"]);
        assert_eq!(captured("let Some(x) = o else { x; continue };  x;"), ["o", "x"]);
    }

    #[test]
    fn conditions_bind_names_for_their_branch() {
        assert_eq!(captured("if let Some(x) = o && x > t && let Some(y) = x { x; y; } else { y; }"), ["o", "t", "y"]);
        assert_eq!(captured("while let Some(x) = s.next() { x; } x;"), ["s", "x"]);
        assert_eq!(captured("match o { Some(x) | Ok(x) if x > t => x, None => x, other => other };"), ["o", "t", "x"]);
        assert_eq!(captured("assert!(matches!(o, Some(x) if x > t), \"{}\", x);"), ["o", "t", "x"]);
    }

    #[test]
    fn items_of_the_body_are_not_captured() {
        assert_eq!(captured("xs.map(twice); fn twice(x: f64) -> f64 { y + x }"), ["xs"]);
        assert_eq!(captured("use std::mem::{swap, take as grab}; swap; grab; other;"), ["other"]);
    }

    #[test]
    fn arguments_of_known_macros_are_visited_and_others_are_not() {
        assert_eq!(captured("println!(\"{} {y}\", x, y = z); mine!(q); vec![v; k];"), ["x", "z", "v", "k"]);
    }

    #[test]
    fn tags_are_restored_to_the_source() {
        for body in [
            "let S { x, mut y, r#type } = s; y += x; T { x, y: r#type, z: x + 1 };",
            "let a = &mut self.w[i]; for k in 0..a.len() { a[k] += model.step; }",
            "println!(\"{}\", v[i]); mine!(a => b); let f = |x: f64| x * y; f(2.0);",
        ] {
            let (_, names, block) = resolved(&format!("c, for (i, v) in &m {{ {body} }}"));
            let restored = names.restore(&block, &|occurrence| names.written(occurrence));
            let expected: proc_macro2::TokenStream = format!("{{ {body} }}").parse().unwrap();
            same_tokens(&restored.to_string(), &expected.to_string());
        }
    }

    #[test]
    fn shadowing_makes_another_variable() {
        let (_, names, _) = resolved("c, for (i, v) in &m { let x = 1; let x = x; { let i = x; } }");
        assert_eq!(names.locals.len(), 4); // v, x, x, i
    }
}
