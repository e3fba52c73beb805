//! Counts with a noun in singular or plural.

/// Formats a count with its noun: `1 rating`, `2 ratings`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "line")), ["0 lines", "1 line", "2 lines"]);
    }
}
