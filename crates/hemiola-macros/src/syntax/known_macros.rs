//! Macros of the standard library whose arguments are ordinary expressions.
//!
//! A macro call hides its arguments: only a list of known macros says which of them are
//! expressions. For the macros listed here, `assert!(w[u] > 0.0)` is an access like any other.
//! Other macros are left unchanged.
//!
//! **Invariant:** the tokens that [`with_arguments`] writes back parse again.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Macro, Pat, Token};

/// Use of an argument by the macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentUse {
    /// The value is taken.
    Value,
    /// The place is borrowed.
    Place,
    /// The place is borrowed mutably.
    Update,
}

/// Arguments of a known macro.
pub(crate) struct MacroArguments {
    /// Each argument with its use.
    pub(crate) list: Vec<(ArgumentUse, Expr)>,
    /// Pattern and guard of `matches!(.., PATTERN if GUARD)`.
    pub(crate) pattern: Option<(Pat, Option<Expr>)>,
    /// True for `vec![value; length]`, false for a list with commas.
    repeat: bool,
}

/// Returns whether `call` calls the macro `name`, under any path.
pub(crate) fn is_call_of(call: &Macro, name: &str) -> bool {
    call.path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// Parses the arguments, if the macro is known.
pub(crate) fn arguments(call: &Macro) -> Option<MacroArguments> {
    let name = call.path.segments.last()?.ident.to_string();
    match name.as_str() {
        "assert" | "debug_assert" => list(call, &[ArgumentUse::Value], ArgumentUse::Place),
        "assert_eq" | "assert_ne" | "debug_assert_eq" | "debug_assert_ne" | "println" | "eprintln" | "print"
        | "eprint" | "format" | "format_args" | "panic" | "unreachable" => list(call, &[], ArgumentUse::Place),
        "write" | "writeln" => list(call, &[ArgumentUse::Update], ArgumentUse::Place),
        "dbg" => list(call, &[], ArgumentUse::Value),
        "vec" => repeated(call).or_else(|| list(call, &[], ArgumentUse::Value)),
        "matches" => call.parse_body::<MatchesArguments>().ok().map(|matches| matches.0),
        _ => None,
    }
}

/// Applies `change` to the arguments of a known macro. Returns whether the macro is known.
pub(crate) fn with_arguments(call: &mut Macro, change: impl FnOnce(&mut MacroArguments)) -> bool {
    let Some(mut arguments) = arguments(call) else { return false };
    change(&mut arguments);
    call.tokens = arguments.into_tokens();
    true
}

impl MacroArguments {
    fn into_tokens(self) -> TokenStream {
        let expressions = self.list.iter().map(|(_, expression)| expression);
        if self.repeat {
            return quote!(#(#expressions);*);
        }
        let Some((pattern, guard)) = &self.pattern else { return quote!(#(#expressions),*) };
        let guard = guard.as_ref().map(|guard| quote!(if #guard));
        quote!(#(#expressions),*, #pattern #guard)
    }

    /// Returns the value of `name = value` in a format macro, which is the only expression in it.
    pub(crate) fn value_mut(argument: &mut Expr) -> &mut Expr {
        if !matches!(argument, Expr::Assign(named) if super::names::lone_ident(&named.left).is_some()) {
            return argument;
        }
        match argument {
            Expr::Assign(named) => &mut named.right,
            other => other,
        }
    }

    /// Shared version of [`value_mut`](Self::value_mut).
    pub(crate) fn value(argument: &Expr) -> &Expr {
        match argument {
            Expr::Assign(named) if super::names::lone_ident(&named.left).is_some() => &named.right,
            other => other,
        }
    }
}

fn list(call: &Macro, first: &[ArgumentUse], rest: ArgumentUse) -> Option<MacroArguments> {
    let expressions = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated).ok()?;
    let uses = first.iter().copied().chain(std::iter::repeat(rest));
    Some(MacroArguments { list: uses.zip(expressions).collect(), pattern: None, repeat: false })
}

fn repeated(call: &Macro) -> Option<MacroArguments> {
    let parser = |input: ParseStream<'_>| {
        let value: Expr = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok([value, input.parse()?])
    };
    let both = parser.parse2(call.tokens.to_token_stream()).ok()?;
    Some(MacroArguments { list: both.map(|expr| (ArgumentUse::Value, expr)).into(), pattern: None, repeat: true })
}

struct MatchesArguments(MacroArguments);

impl Parse for MatchesArguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let value = input.parse()?;
        input.parse::<Token![,]>()?;
        let pattern = Pat::parse_multi_with_leading_vert(input)?;
        let guard = if input.parse::<Option<Token![if]>>()?.is_some() { Some(input.parse()?) } else { None };
        input.parse::<Option<Token![,]>>()?;
        let list = vec![(ArgumentUse::Place, value)];
        Ok(Self(MacroArguments { list, pattern: Some((pattern, guard)), repeat: false }))
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
    fn unknown_macros_and_unparsable_arguments_are_unchanged() {
        for source in ["mine!(a => b)", "assert!(a => b)", "matches!(a b)"] {
            assert!(arguments(&syn::parse_str(source).unwrap()).is_none(), "{source}");
        }
    }
}
