//! Macros of the standard library whose arguments are ordinary expressions.
//!
//! A macro call hides its arguments from syntax: only who knows the macro knows what they are. For the macros here we do, so
//! `assert!(w[u] > 0.0)` is an access like any other. Other macros are left as they are.
//!
//! **Invariant:** what [`with_arguments`] writes back parses again.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Macro, Pat, Token};

/// What a macro does with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Takes its value.
    Value,
    /// Borrows it.
    Place,
    /// Borrows it to change it.
    Update,
}

/// The arguments of a known macro.
pub(crate) struct Arguments {
    /// What the macro does with each, and each.
    pub(crate) list: Vec<(Argument, Expr)>,
    /// `matches!(.., PATTERN if GUARD)`.
    pub(crate) pattern: Option<(Pat, Option<Expr>)>,
    /// `vec![value; length]` instead of commas.
    repeat: bool,
}

/// Whether `call` calls the macro `name`, by whatever path.
pub(crate) fn is_call_of(call: &Macro, name: &str) -> bool {
    call.path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The arguments, if the macro is known and they parse.
pub(crate) fn arguments(call: &Macro) -> Option<Arguments> {
    let name = call.path.segments.last()?.ident.to_string();
    match name.as_str() {
        "assert" | "debug_assert" => list(call, &[Argument::Value], Argument::Place),
        "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" | "println" | "eprintln" | "print"
        | "eprint" | "format" | "format_args" | "panic" | "unreachable" => list(call, &[], Argument::Place),
        "write" | "writeln" => list(call, &[Argument::Update], Argument::Place),
        "dbg" => list(call, &[], Argument::Value),
        "vec" => repeated(call).or_else(|| list(call, &[], Argument::Value)),
        "matches" => call.parse_body::<Matches>().ok().map(|matches| matches.0),
        _ => None,
    }
}

/// Lets `change` change the arguments of a known macro. Returns whether it is one.
pub(crate) fn with_arguments(call: &mut Macro, change: impl FnOnce(&mut Arguments)) -> bool {
    let Some(mut arguments) = arguments(call) else { return false };
    change(&mut arguments);
    call.tokens = arguments.into_tokens();
    true
}

impl Arguments {
    fn into_tokens(self) -> TokenStream {
        let expressions = self.list.iter().map(|(_, expression)| expression);
        if self.repeat {
            return quote!(#(#expressions);*);
        }
        let Some((pattern, guard)) = &self.pattern else { return quote!(#(#expressions),*) };
        let guard = guard.as_ref().map(|guard| quote!(if #guard));
        quote!(#(#expressions),*, #pattern #guard)
    }

    /// `name = value` in a format macro: the value, which is all that is an expression.
    pub(crate) fn value_mut(argument: &mut Expr) -> &mut Expr {
        if !matches!(argument, Expr::Assign(named) if super::names::lone_ident(&named.left).is_some()) {
            return argument;
        }
        match argument {
            Expr::Assign(named) => &mut named.right,
            other => other,
        }
    }

    /// The same, to look at.
    pub(crate) fn value(argument: &Expr) -> &Expr {
        match argument {
            Expr::Assign(named) if super::names::lone_ident(&named.left).is_some() => &named.right,
            other => other,
        }
    }
}

fn list(call: &Macro, first: &[Argument], rest: Argument) -> Option<Arguments> {
    let expressions = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?;
    let uses = first.iter().copied().chain(std::iter::repeat(rest));
    Some(Arguments { list: uses.zip(expressions).collect(), pattern: None, repeat: false })
}

fn repeated(call: &Macro) -> Option<Arguments> {
    let parser = |input: ParseStream<'_>| {
        let value: Expr = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok([value, input.parse()?])
    };
    let both = parser.parse2(call.tokens.to_token_stream()).ok()?;
    Some(Arguments { list: both.map(|expr| (Argument::Value, expr)).into(), pattern: None, repeat: true })
}

struct Matches(Arguments);

impl Parse for Matches {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = if input.parse::<Option<Token![if]>>()?.is_some() { Some(input.parse()?) } else { None };
        input.parse::<Option<Token![,]>>()?;
        let list = vec![(Argument::Place, value)];
        Ok(Self(Arguments { list, pattern: Some((pattern, guard)), repeat: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_parsing_and_writing() {
        for source in [
            "assert!(a[i] > 0, \"{} {x}\", b, x = c)",
            "vec![0.0; n]",
            "vec![a, b]",
            "matches!(x, Some(y) | Ok(y) if y > 0)",
            "std::println!(\"{}\", x)",
            "write!(out, \"{x}\")",
        ] {
            let mut call: Macro = syn::parse_str(source).unwrap();
            assert!(with_arguments(&mut call, |_| ()), "{source}");
            let expected: Macro = syn::parse_str(source).unwrap();
            assert_eq!(call.to_token_stream().to_string(), expected.to_token_stream().to_string());
        }
    }

    #[test]
    fn unknown_macros_and_unparsable_arguments_are_left_alone() {
        for source in ["mine!(a => b)", "assert!(a => b)", "matches!(a b)"] {
            assert!(arguments(&syn::parse_str(source).unwrap()).is_none(), "{source}");
        }
    }
}
