//! Comparison of output that documentation shows with output that a program prints.

/// Returns true if two lines have the same words, and numbers that differ by at most ten percent:
/// results depend a little on the number of workers, and under bounded staleness on the timing. A
/// shown line that ends with `...` may go on in any way.
///
/// ```
/// use hemiola_testkit::is_similar;
/// assert!(is_similar("epoch 2: rmse 0.95, ...", "epoch 2: rmse 0.97, 0.3 s"));
/// assert!(!is_similar("epoch 2: rmse 0.95", "epoch 2: rmse 1.20"));
/// assert!(!is_similar("epoch 2", "epoch two"));
/// ```
#[must_use]
pub fn is_similar(shown: &str, printed: &str) -> bool {
    let mut shown: Vec<&str> = shown.split_whitespace().collect();
    let mut printed: Vec<&str> = printed.split_whitespace().collect();
    if shown.last() == Some(&"...") {
        shown.pop();
        printed.truncate(shown.len());
    }
    let equal = |(a, b): (&&str, &&str)| {
        let number = |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit() && c != '-').parse::<f64>();
        match (number(a), number(b)) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 0.1 * a.abs().max(b.abs()) + 0.011,
            _ => a == b,
        }
    };
    shown.len() == printed.len() && shown.iter().zip(&printed).all(equal)
}
