//! Texts that stand for a missing value, and numbers that may be missing.

use hemiola_array::read::FieldValue;

/// Texts that pandas reads as missing values, besides the empty one, and `?` of the UCI data sets.
const MISSING: [&str; 19] = [
    "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Returns true for a field that stands for a missing value.
pub(crate) fn is_missing(field: &[u8]) -> bool {
    let field = field.trim_ascii();
    field.is_empty() || MISSING.iter().any(|text| text.as_bytes() == field)
}

/// Number of a field, or `None` for a missing value.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionalNumber(pub(super) Option<f32>);

impl FieldValue for OptionalNumber {
    const EXPECTED: &'static str = "a number";

    #[inline]
    fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
        f32::parse_plain(text).map(|(value, length)| (Self(Some(value)), length))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        if is_missing(text) {
            Some(Self(None))
        } else {
            <f32 as FieldValue>::parse(text).map(|value| Self(Some(value)))
        }
    }

    fn is_finite(&self) -> bool {
        self.0.is_none_or(f32::is_finite)
    }
}
