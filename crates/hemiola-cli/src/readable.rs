//! Counts and sizes in readable form.

/// Formats an integer with grouped digits: `1,000,209`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes: `12.0 MB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut units = ["bytes", "kB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.95 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    if unit == "bytes" { format!("{count} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_have_a_readable_form() {
        assert_eq!((grouped(0), grouped(999), grouped(1_000_209)), ("0".into(), "999".into(), "1,000,209".into()));
        assert_eq!(
            (bytes(999), bytes(12_002_508), bytes(999_960)),
            ("999 bytes".into(), "12.0 MB".into(), "1.0 MB".into())
        );
    }
}
