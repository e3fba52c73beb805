//! Formatting of tokens as source text.
//!
//! Messages and plans quote the user's expressions. The compiler passes tokens to a macro without
//! the spaces between them, and printing those gives `w [[u , i]]`; this file gives `w[[u, i]]`.
//! **Invariant:** different tokens give different texts, because
//! [`Subscript::Invariant`](hemiola_analysis::Subscript::Invariant) compares texts.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Formats `tokens` as one line of text.
pub(crate) fn text_of(tokens: TokenStream) -> String {
    let mut out = String::new();
    write(tokens, &mut out);
    out
}

/// Kind of the last token, which decides on the next space.
#[derive(Clone, Copy, PartialEq)]
enum LastToken {
    Nothing,
    /// An identifier that can be a value.
    Word,
    /// `mut`, `as`, `in` and similar: a space must follow.
    Keyword,
    /// A literal or a closed group.
    Value,
    /// A prefix such as `&` or `.`: no space follows.
    Tight,
    /// An infix operator: a space follows.
    Infix,
}

fn write(tokens: TokenStream, out: &mut String) {
    let mut last = LastToken::Nothing;
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{ ", " }"),
                    // An invisible group keeps its contents together, which only parentheses can
                    // show.
                    Delimiter::Parenthesis | Delimiter::None => ("(", ")"),
                };
                let calls = matches!(last, LastToken::Word | LastToken::Value) && group.delimiter() != Delimiter::Brace;
                if !calls && last != LastToken::Nothing && last != LastToken::Tight {
                    out.push(' ');
                }
                out.push_str(open);
                write(group.stream(), out);
                out.push_str(close);
                last = LastToken::Value;
            }
            TokenTree::Ident(ident) => {
                if !matches!(last, LastToken::Nothing | LastToken::Tight) {
                    out.push(' ');
                }
                let name = ident.to_string();
                out.push_str(&name);
                last = if is_keyword(&name) { LastToken::Keyword } else { LastToken::Word };
            }
            TokenTree::Literal(literal) => {
                if !matches!(last, LastToken::Nothing | LastToken::Tight) {
                    out.push(' ');
                }
                out.push_str(&literal.to_string());
                last = LastToken::Value;
            }
            TokenTree::Punct(first) => {
                let mut operator = String::from(first.as_char());
                let mut joint = first.spacing() == Spacing::Joint;
                while joint && let Some(TokenTree::Punct(next)) = trees.peek() {
                    // `..` may be followed by a prefix: `..-1` does not occur, `..&x` does.
                    if "&*-!".contains(next.as_char()) && next.as_char() != first.as_char() {
                        break;
                    }
                    operator.push(next.as_char());
                    joint = next.spacing() == Spacing::Joint;
                    trees.next();
                }
                last = punctuate(&operator, last, out);
            }
        }
    }
}

fn punctuate(operator: &str, last: LastToken, out: &mut String) -> LastToken {
    let after_value = matches!(last, LastToken::Word | LastToken::Value);
    match operator {
        "." | "::" | "?" | ".." | "..=" => {
            if matches!(last, LastToken::Infix | LastToken::Keyword) {
                out.push(' ');
            }
            out.push_str(operator);
            if operator == "?" { LastToken::Value } else { LastToken::Tight }
        }
        "," | ";" | ":" => {
            out.push_str(operator);
            LastToken::Infix
        }
        "'" | "#" | "$" => {
            if !matches!(last, LastToken::Nothing | LastToken::Tight) {
                out.push(' ');
            }
            out.push_str(operator);
            LastToken::Tight
        }
        "!" if after_value => {
            out.push('!');
            LastToken::Word
        }
        "&" | "*" | "-" | "!" | "&&" | "|" if !after_value => {
            if !matches!(last, LastToken::Nothing | LastToken::Tight) {
                out.push(' ');
            }
            out.push_str(operator);
            LastToken::Tight
        }
        _ => {
            out.push(' ');
            out.push_str(operator);
            LastToken::Infix
        }
    }
}

fn is_keyword(name: &str) -> bool {
    matches!(name, "as" | "else" | "for" | "if" | "in" | "let" | "match" | "move" | "mut" | "ref" | "return" | "while")
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn expressions_are_formatted_like_source() {
        for source in [
            "&mut w[[u, i + 1]]",
            "w[u].push(x * -1.0)",
            "self.w[(i - 1) as usize]",
            "a[..4]",
            "a[1..=n]",
            "x[f(a, b)?]",
            "&ratings",
            "!done && a == b",
            "vec![0; n]",
            "[1..n - 1, 1..m]",
            "Shape::<3>::LEN",
            "*x",
            "a & b",
        ] {
            let normal = |text: &str| text.replace(' ', "");
            let written = text_of(source.parse().unwrap());
            assert_eq!(normal(&written), normal(source));
            if !source.contains('<') {
                assert_eq!(written, source);
            }
        }
    }

    #[test]
    fn different_tokens_stay_different() {
        assert_ne!(text_of("a - -b".parse().unwrap()), text_of("a -- b".parse().unwrap()));
        assert_ne!(text_of("a b".parse().unwrap()), text_of("ab".parse().unwrap()));
    }
}
