//! Tokens as a person would write them.
//!
//! Messages and plans quote the user's expressions. The compiler hands a macro tokens without the spaces between them, and
//! printing those gives `w [[u , i]]`; this file gives `w[[u, i]]`. **Invariant:** tokens that differ give texts that differ,
//! because [`Subscript::Invariant`](crate::Subscript::Invariant) compares texts.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// One line of text for `tokens`.
pub(crate) fn text(tokens: TokenStream) -> String {
    let mut out = String::new();
    write(tokens, &mut out);
    out
}

/// What was written last, as far as the next space depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    /// An identifier that can be a value.
    Word,
    /// `mut`, `as`, `in` and the like: a space must follow.
    Keyword,
    /// A literal or a closed group.
    Value,
    /// A prefix such as `&` or `.`: no space follows.
    Tight,
    /// An infix operator: a space follows.
    Infix,
}

fn write(tokens: TokenStream, out: &mut String) {
    let mut last = Last::Nothing;
    let mut trees = tokens.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{ ", " }"),
                    // An invisible group keeps its contents together, which only parentheses can show.
                    Delimiter::Parenthesis | Delimiter::None => ("(", ")"),
                };
                let calls = matches!(last, Last::Word | Last::Value) && group.delimiter() != Delimiter::Brace;
                if !calls && last != Last::Nothing && last != Last::Tight {
                    out.push(' ');
                }
                out.push_str(open);
                write(group.stream(), out);
                out.push_str(close);
                last = Last::Value;
            }
            TokenTree::Ident(ident) => {
                if !matches!(last, Last::Nothing | Last::Tight) {
                    out.push(' ');
                }
                let name = ident.to_string();
                out.push_str(&name);
                last = if is_keyword(&name) { Last::Keyword } else { Last::Word };
            }
            TokenTree::Literal(literal) => {
                if !matches!(last, Last::Nothing | Last::Tight) {
                    out.push(' ');
                }
                out.push_str(&literal.to_string());
                last = Last::Value;
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

fn punctuate(operator: &str, last: Last, out: &mut String) -> Last {
    let after_value = matches!(last, Last::Word | Last::Value);
    match operator {
        "." | "::" | "?" | ".." | "..=" => {
            if matches!(last, Last::Infix | Last::Keyword) {
                out.push(' ');
            }
            out.push_str(operator);
            if operator == "?" { Last::Value } else { Last::Tight }
        }
        "," | ";" | ":" => {
            out.push_str(operator);
            Last::Infix
        }
        "'" | "#" | "$" => {
            if !matches!(last, Last::Nothing | Last::Tight) {
                out.push(' ');
            }
            out.push_str(operator);
            Last::Tight
        }
        "!" if after_value => {
            out.push('!');
            Last::Word
        }
        "&" | "*" | "-" | "!" | "&&" | "|" if !after_value => {
            if !matches!(last, Last::Nothing | Last::Tight) {
                out.push(' ');
            }
            out.push_str(operator);
            Last::Tight
        }
        _ => {
            out.push(' ');
            out.push_str(operator);
            Last::Infix
        }
    }
}

fn is_keyword(name: &str) -> bool {
    matches!(name, "as" | "else" | "for" | "if" | "in" | "let" | "match" | "move" | "mut" | "ref" | "return" | "while")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn expressions_read_as_people_write_them() {
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
            let written = text(source.parse().unwrap());
            assert_eq!(normal(&written), normal(source));
            if !source.contains('<') {
                assert_eq!(written, source);
            }
        }
    }

    #[test]
    fn different_tokens_stay_different() {
        assert_ne!(text("a - -b".parse().unwrap()), text("a -- b".parse().unwrap()));
        assert_ne!(text("a b".parse().unwrap()), text("ab".parse().unwrap()));
    }
}
