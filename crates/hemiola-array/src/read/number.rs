//! Parsers of numbers at the start of a text, fast and correctly rounded.
//!
//! Ids and counts have few digits, and a simple loop over them beats anything clever: SIMD parsers
//! (`atoi_simd`) target numbers of eight digits and more. Floats take the exact fast path of
//! Clinger (1990): if the digits form an integer that the type represents exactly and the power of
//! ten is exact too, one division rounds once, so the result is correct. Everything else, exponents
//! and long mantissas, goes to `fast-float2` (Eisel and Lemire 2020), which takes bytes and reports
//! where the number ends. The standard library has the same algorithm but needs an isolated `str`.
//!
//! **Invariant:** every float is the nearest one to the decimal number, as `str::parse` gives it.

/// Parses an unsigned integer at the start of the text; returns it with its length in bytes. `None`
/// without a digit and beyond 19 digits.
#[must_use]
#[inline]
pub fn unsigned(text: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut at = 0;
    while let Some(digit) = digit(text, at) {
        value = value.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    // Nineteen digits are below 2^64.
    (1..=19).contains(&at).then_some((value, at))
}

/// Parses a signed integer at the start of the text; returns it with its length in bytes.
#[must_use]
#[inline]
pub fn signed(text: &[u8]) -> Option<(i64, usize)> {
    let start = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let (magnitude, length) = unsigned(&text[start..])?;
    let value = i64::try_from(magnitude).ok()?;
    Some((if text[0] == b'-' { -value } else { value }, start + length))
}

#[inline]
fn digit(text: &[u8], at: usize) -> Option<u64> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

macro_rules! float {
    ($name:ident, $float:ty, $exact_whole:expr, $powers:expr) => {
        /// Parses a finite number at the start of the text; returns it with its length in bytes.
        #[must_use]
        #[inline]
        pub fn $name(text: &[u8]) -> Option<($float, usize)> {
            const POWERS: &[$float] = &$powers;
            let negative = text.first() == Some(&b'-');
            let start = usize::from(negative || text.first() == Some(&b'+'));
            let mut at = start;
            let mut whole = 0_u64;
            while let Some(digit) = digit(text, at) {
                whole = whole.wrapping_mul(10).wrapping_add(digit);
                at += 1;
            }
            let mut digits = at - start;
            let mut fraction = 0;
            if text.get(at) == Some(&b'.') {
                at += 1;
                while let Some(digit) = digit(text, at) {
                    whole = whole.wrapping_mul(10).wrapping_add(digit);
                    at += 1;
                    fraction += 1;
                }
                digits += fraction;
            }
            if digits == 0 {
                return None;
            }
            let simple = digits <= 19
                && whole <= $exact_whole
                && fraction < POWERS.len()
                && !matches!(text.get(at), Some(b'e' | b'E'));
            let value = if simple {
                // The cast and the power are exact, so the division is the only rounding.
                if fraction == 0 { whole as $float } else { whole as $float / POWERS[fraction] }
            } else {
                let (value, length) = fast_float2::parse_partial::<$float, _>(&text[start..]).ok()?;
                at = start + length;
                if !value.is_finite() {
                    return None;
                }
                value
            };
            Some((if negative { -value } else { value }, at))
        }
    };
}

float!(float32, f32, 1 << 24, [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]);
float!(
    float64,
    f64,
    1 << 53,
    [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20, 1e21, 1e22
    ]
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(text: &str) {
        let followed = format!("{text}\t7");
        let (single, double): (f32, f64) = (text.parse().unwrap(), text.parse().unwrap());
        if single.is_finite() {
            let (value, length) = float32(followed.as_bytes()).unwrap();
            assert_eq!((value.to_bits(), length), (single.to_bits(), text.len()), "{text}");
        } else {
            assert_eq!(float32(followed.as_bytes()), None, "{text}");
        }
        if double.is_finite() {
            let (value, length) = float64(followed.as_bytes()).unwrap();
            assert_eq!((value.to_bits(), length), (double.to_bits(), text.len()), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn floats_equal_the_standard_library_bit_for_bit(
            text in "[+-]?([0-9]{1,25}(\\.[0-9]{0,25})?|\\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?",
        ) {
            same(&text);
        }

        #[test]
        fn printed_floats_come_back(single: f32, double: f64) {
            if single.is_finite() { same(&single.to_string()); }
            if double.is_finite() { same(&format!("{double:e}")); }
        }

        #[test]
        fn whole_numbers_equal_the_standard_library(value: u64, negative: i64) {
            let text = value.to_string();
            let expected = (text.len() <= 19).then_some((value, text.len()));
            prop_assert_eq!(unsigned(format!("{text}:1").as_bytes()), expected);
            let text = negative.to_string();
            prop_assert_eq!(signed(text.as_bytes()), (negative != i64::MIN).then_some((negative, text.len())));
        }
    }

    #[test]
    fn hard_cases_round_correctly() {
        let cases = [
            "16777216",
            "16777217",
            "16777217.0",
            "0.1",
            "3.4028235e38",
            "1e39",
            "-0",
            "-0.0",
            "1e-46",
            "7.0064923e-46",
            "9007199254740993",
            "1.00000005960464477539062500",
            "0.000000000000000000000000000000000000011754944",
        ];
        cases.into_iter().for_each(same);
    }

    #[test]
    fn text_without_a_number_is_none() {
        for text in ["", "+", "-", ".", "e5", "nan", "inf", "-inf", "x1"] {
            assert_eq!((float32(text.as_bytes()), float64(text.as_bytes())), (None, None), "{text}");
            assert_eq!(unsigned(text.as_bytes()), None);
        }
        assert_eq!(float32(b"1e5x"), Some((1e5, 3)));
        assert_eq!(float32(b"5 6"), Some((5.0, 1)));
    }
}
