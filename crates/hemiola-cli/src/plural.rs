//! Counts with a noun in singular or plural.

use std::fmt::Display;

/// Formats a count with its noun: `1 rating`, `2 ratings`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    if count == N::from(1) { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0_u64, 1, 2].map(|count| counted(count, "line")), ["0 lines", "1 line", "2 lines"]);
    }
}
