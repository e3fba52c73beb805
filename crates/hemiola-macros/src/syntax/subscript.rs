//! Classification of subscripts: index plus constant, constant, invariant, range, or unknown.
//!
//! Names are resolved, so an expression has the same meaning everywhere: a variable bound by an
//! immutable `let j = i + 1;` is replaced by its definition. **Invariant:** a class claims only
//! facts that hold in every iteration; in case of doubt it is [`Subscript::Unknown`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hemiola_analysis::Subscript;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, Lit, RangeLimits, Type, UnOp};

use super::names::{NameMeaning, NameTable};

/// Classifier of subscripts, with the facts known about names.
pub(crate) struct SubscriptClassifier<'a> {
    pub(crate) names: &'a NameTable,
    /// Immutable locals and the expressions they are bound to.
    pub(crate) definitions: BTreeMap<usize, Expr>,
    /// Captured names that the body writes or indexes: their value may differ between iterations.
    pub(crate) changing: BTreeSet<usize>,
}

impl SubscriptClassifier<'_> {
    /// Classifies the expression between brackets: `[i, j]` and `(i, j)` are several subscripts,
    /// all others are one.
    pub(crate) fn subscripts(&self, index: &Expr) -> Vec<Subscript> {
        match index {
            Expr::Array(several) => several.elems.iter().map(|one| self.class(one)).collect(),
            Expr::Tuple(several) => several.elems.iter().map(|one| self.class(one)).collect(),
            one => vec![self.class(one)],
        }
    }

    fn class(&self, subscript: &Expr) -> Subscript {
        let mut expr = subscript.clone();
        LocalInliner(self).visit_expr_mut(&mut expr);
        if let Expr::Range(range) = bare(&expr) {
            return self.range(range.start.as_deref(), range.end.as_deref(), &range.limits);
        }
        match self.sum(&expr) {
            Some(AffineSum { index: Some(dimension), constant }) => Subscript::Index { dimension, offset: constant },
            Some(AffineSum { index: None, constant }) if constant >= 0 => Subscript::Constant(constant),
            None if self.is_invariant(&expr) => Subscript::Invariant(Cow::Owned(self.names.text(bare(&expr)))),
            Some(_) | None => Subscript::Unknown,
        }
    }

    fn range(&self, start: Option<&Expr>, end: Option<&Expr>, limits: &RangeLimits) -> Subscript {
        let literal = |end: &Expr| match self.sum(end) {
            Some(AffineSum { index: None, constant }) => Some(constant),
            _ => None,
        };
        let behind = i64::from(matches!(limits, RangeLimits::Closed(_)));
        let (from, to) = (start.map(literal), end.map(|end| literal(end)?.checked_add(behind)));
        match (from, to) {
            (Some(None), _) | (_, Some(None)) => Subscript::Unknown,
            _ => Subscript::Range { from: from.flatten(), to: to.flatten() },
        }
    }

    /// Returns `expr` as a loop index plus a constant, either of which may be missing.
    fn sum(&self, expr: &Expr) -> Option<AffineSum> {
        match expr {
            Expr::Paren(inner) => self.sum(&inner.expr),
            Expr::Group(inner) => self.sum(&inner.expr),
            // Every index fits these types, so a cast keeps its value.
            Expr::Cast(cast) if is_wide(&cast.ty) => self.sum(&cast.expr),
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => Some(AffineSum { index: None, constant: number.base10_parse().ok()? }),
                _ => None,
            },
            Expr::Binary(both) => {
                let (left, right) = (self.sum(&both.left)?, self.sum(&both.right)?);
                match both.op {
                    BinOp::Add(_) if left.index.is_none() || right.index.is_none() => Some(AffineSum {
                        index: left.index.or(right.index),
                        constant: left.constant.checked_add(right.constant)?,
                    }),
                    BinOp::Sub(_) if right.index.is_none() => {
                        Some(AffineSum { index: left.index, constant: left.constant.checked_sub(right.constant)? })
                    }
                    BinOp::Mul(_) if left.index.is_none() && right.index.is_none() => {
                        Some(AffineSum { index: None, constant: left.constant.checked_mul(right.constant)? })
                    }
                    _ => None,
                }
            }
            _ => match self.names.meaning_of(expr)? {
                NameMeaning::Index(dimension) => Some(AffineSum { index: Some(dimension), constant: 0 }),
                _ => None,
            },
        }
    }

    /// Returns whether `expr` has one value in all iterations: constants and captured values,
    /// without calls.
    fn is_invariant(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(inner) => self.is_invariant(&inner.expr),
            Expr::Group(inner) => self.is_invariant(&inner.expr),
            Expr::Cast(cast) => matches!(&*cast.ty, Type::Path(_)) && self.is_invariant(&cast.expr),
            Expr::Lit(_) => true,
            Expr::Unary(one) => {
                matches!(one.op, UnOp::Deref(_) | UnOp::Neg(_) | UnOp::Not(_)) && self.is_invariant(&one.expr)
            }
            Expr::Binary(both) => {
                is_arithmetic(&both.op) && self.is_invariant(&both.left) && self.is_invariant(&both.right)
            }
            Expr::Path(path) => match self.names.meaning_of(expr) {
                Some(NameMeaning::Captured(occurrence)) => {
                    !self.changing.contains(&self.names.occurrences[occurrence].capture)
                }
                Some(_) => false,
                // A constant. One that the body defines could mean different things in different
                // blocks.
                None => path.path.segments.iter().all(|part| !self.names.items.contains(&part.ident.to_string())),
            },
            _ => false,
        }
    }
}

#[derive(Clone, Copy)]
struct AffineSum {
    index: Option<usize>,
    constant: i64,
}

/// Replaces immutable locals by their definitions.
struct LocalInliner<'a>(&'a SubscriptClassifier<'a>);

impl VisitMut for LocalInliner<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Some(NameMeaning::Local(local)) = self.0.names.meaning_of(expr)
            && let Some(definition) = self.0.definitions.get(&local)
        {
            let mut definition = definition.clone();
            // Definitions come before uses, so the recursion ends.
            self.visit_expr_mut(&mut definition);
            *expr = match definition {
                simple @ (Expr::Path(_) | Expr::Lit(_) | Expr::Paren(_)) => simple,
                other => syn::parse_quote!((#other)),
            };
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        other => other,
    }
}

fn is_wide(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    ["usize", "u64", "u128", "isize", "i64", "i128"].iter().any(|wide| path.path.is_ident(wide))
}

fn is_arithmetic(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::BitXor(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_)
    )
}

#[cfg(test)]
mod tests {
    use hemiola_analysis::Subscript;

    use crate::syntax::tests::support::table;

    /// Subscripts of the first access to `t`, in a body that also writes `w`.
    fn subscripts(body: &str) -> String {
        let table = table(&format!("c, for ([i, j], v) in &m {{ w[0] += 1.0; {body} }}"));
        let access = table.accesses.iter().find(|access| access.text.starts_with("t[")).expect("an access to t");
        access.subscripts.iter().map(Subscript::to_string).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn sums_of_an_index_and_constants_are_folded() {
        for (body, expected) in [
            ("t[i];", "#0"),
            ("t[[i, j]];", "#0, #1"),
            ("t[(j - 2, 1 + i)];", "#1 - 2, #0 + 1"),
            ("t[((i) + 1) - 3];", "#0 - 2"),
            ("t[(i as i64 - 1) as usize];", "#0 - 1"),
            ("t[2 * 3 + j];", "#1 + 6"),
            ("t[7];", "7"),
            ("t[0x10_usize];", "16"),
        ] {
            assert_eq!(subscripts(body), expected, "{body}");
        }
    }

    #[test]
    fn immutable_lets_are_seen_through() {
        for (body, expected) in [
            ("let k = i + 1; t[k];", "#0 + 1"),
            ("let (p, q) = (i, j - 1); let r = p + 2; t[[r, q]];", "#0 + 2, #1 - 1"),
            ("let k = n - 1; t[k];", "n - 1"),
            ("let k = n - 1; t[k * 2];", "(n - 1) * 2"),
            ("let mut k = i + 1; t[k];", "?"),
            ("let i = j; t[i];", "#1"),
            ("let i = v.0; t[i];", "?"),
            ("for i in 0..3 { t[i]; }", "?"),
        ] {
            assert_eq!(subscripts(body), expected, "{body}");
        }
    }

    #[test]
    fn invariants_are_texts_of_what_does_not_change() {
        for (body, expected) in [
            ("t[n];", "n"),
            ("t[(n)];", "n"),
            ("t[K * 2 + self.offset];", "K * 2 + self.offset"),
            ("t[config::WIDTH - 1];", "config::WIDTH - 1"),
            ("t[*n as usize];", "*n as usize"),
            ("t[f(n)];", "?"),
            ("t[n.len()];", "?"),
            ("t[w];", "?"),    // written elsewhere
            ("t[q[3]];", "?"), // indexed
            ("n.push(1); t[n];", "?"),
            ("{ const K: usize = 1; t[K]; }", "?"),
            ("t[i + n];", "?"),
            ("t[i * 2];", "?"),
            ("t[i as u8];", "?"),
            ("t[3 - 4];", "?"),
        ] {
            assert_eq!(subscripts(body), expected, "{body}");
        }
    }

    #[test]
    fn ranges_need_literal_ends() {
        for (body, expected) in [
            ("t[..];", ".."),
            ("t[1..4];", "1..4"),
            ("t[1..=4];", "1..5"),
            ("t[..=4];", "..5"),
            ("t[(i, 2..)];", "#0, 2.."),
            ("t[0..n];", "?"),
            ("t[i..];", "?"),
        ] {
            assert_eq!(subscripts(body), expected, "{body}");
        }
    }
}
