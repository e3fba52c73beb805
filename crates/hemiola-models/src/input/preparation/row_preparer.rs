//! Application of a preparation to the fields of a row.

use super::feature_hash::hashed_feature;
use super::fitted::{Preparation, PreparedColumn, inverse_document_frequency};
use super::missing::{OptionalNumber, is_missing};
use super::options::TermWeighting;
use crate::input::schema::{ColumnRole, InputSchema};
use crate::lda::Tokenizer;
use crate::mf::data::decode_text;
use hemiola_array::Dictionary;
use hemiola_array::read::{FieldValue, Fields, ParseError};
use std::borrow::Cow;

type Parsed = hemiola_array::Result<(), Box<ParseError>>;

/// Preparation in a form for fast look-ups.
#[derive(Debug)]
pub(crate) struct RowPreparer {
    columns: Vec<ColumnPreparer>,
    tokenizer: Tokenizer,
    weighting: TermWeighting,
    hash_bits: u32,
    /// First hashed feature.
    hashed: usize,
}

/// Preparation of a column whose features begin at `start`.
#[derive(Debug)]
struct ColumnPreparer {
    name: String,
    start: usize,
    rule: ColumnRule,
}

#[derive(Debug)]
enum ColumnRule {
    Number {
        fill: Option<f32>,
        indicator: bool,
        shift: f64,
        scale: f64,
    },
    Category {
        names: Dictionary,
        missing: Option<usize>,
        rare: Option<usize>,
        fill: Option<String>,
    },
    Hashed {
        fill: Option<String>,
    },
    /// Terms, and the inverse document frequency of each.
    Text {
        terms: Dictionary,
        weights: Vec<f64>,
    },
}

/// Buffers for the rows of one reader.
#[derive(Debug, Default)]
pub(crate) struct RowBuffers {
    /// Hashed features of the row.
    hashed: Vec<(usize, f32)>,
    terms: Vec<u32>,
    weighted: Vec<(u32, f64)>,
}

/// Consumer of a feature and its value.
pub(crate) type EmitFeature<'a> = &'a mut dyn FnMut(usize, f32) -> Parsed;

impl RowPreparer {
    pub(crate) fn new(preparation: &Preparation, schema: &InputSchema) -> Self {
        let mut next = 0;
        let named = schema.with_role(ColumnRole::Feature).map(|(_, column)| column.name.clone());
        let columns = named.zip(&preparation.columns).map(|(name, column)| {
            let start = next;
            next += column.width();
            let dictionary = |names: &[String]| names.iter().map(String::as_bytes).collect();
            let rule = match column {
                PreparedColumn::Number { fill, indicator, shift, scale } => {
                    ColumnRule::Number { fill: *fill, indicator: *indicator, shift: *shift, scale: *scale }
                }
                PreparedColumn::Category { names, missing, rare, fill } => ColumnRule::Category {
                    names: dictionary(names),
                    missing: missing.then_some(start + names.len()),
                    rare: rare.then_some(next - 1),
                    fill: fill.clone(),
                },
                PreparedColumn::Hashed { fill } => ColumnRule::Hashed { fill: fill.clone() },
                PreparedColumn::Text { terms, frequencies } => {
                    let weight = |of: &u64| inverse_document_frequency(preparation.rows, *of);
                    ColumnRule::Text { terms: dictionary(terms), weights: frequencies.iter().map(weight).collect() }
                }
            };
            ColumnPreparer { name, start, rule }
        });
        Self {
            columns: columns.collect(),
            tokenizer: preparation.options.terms.tokenizer.clone(),
            weighting: preparation.options.weighting,
            hash_bits: preparation.options.hash_bits.unwrap_or(0),
            hashed: next,
        }
    }

    /// Takes the field of a column, and emits its features.
    pub(crate) fn field(
        &self,
        column: usize,
        fields: &mut Fields<'_>,
        buffers: &mut RowBuffers,
        emit: EmitFeature<'_>,
    ) -> Parsed {
        let ColumnPreparer { name, start, rule } = &self.columns[column];
        match rule {
            ColumnRule::Number { fill, indicator, shift, scale } => {
                let OptionalNumber(number) = number_of_column(fields, Some(name))?;
                let Some(value) = number.or(*fill) else {
                    return Err(fields.reject(format!("a value in column `{name}`")));
                };
                if *indicator && number.is_none() {
                    emit(start + 1, 1.0)?;
                }
                let value = ((f64::from(value) - shift) / scale) as f32;
                if value == 0.0 { Ok(()) } else { emit(*start, value) }
            }
            ColumnRule::Category { names, missing, rare, fill } => {
                let text = fields.text()?;
                let text = category(&text, fill.as_deref());
                let Some(text) = text else { return missing.or(*rare).map_or(Ok(()), |feature| emit(feature, 1.0)) };
                let known = names.index_of(text.as_bytes()).map(|index| start + index as usize);
                known.or(*rare).map_or(Ok(()), |feature| emit(feature, 1.0))
            }
            ColumnRule::Hashed { fill } => {
                let text = fields.text()?;
                let text = category(&text, fill.as_deref()).unwrap_or_default();
                let (feature, sign) = hashed_feature(format!("{name}={text}").as_bytes(), self.hash_bits);
                buffers.hashed.push((self.hashed + feature as usize, sign));
                Ok(())
            }
            ColumnRule::Text { terms, weights } => {
                let text = decode_text(&fields.text()?);
                buffers.terms.clear();
                self.tokenizer.terms(&text, |term| buffers.terms.extend(terms.index_of(term.as_bytes())));
                self.emit_terms(*start, weights, buffers, emit)
            }
        }
    }

    /// Emits the weights of the terms in the buffer.
    fn emit_terms(&self, start: usize, weights: &[f64], buffers: &mut RowBuffers, emit: EmitFeature<'_>) -> Parsed {
        let RowBuffers { terms, weighted, .. } = buffers;
        terms.sort_unstable();
        weighted.clear();
        weighted.extend(terms.chunk_by(PartialEq::eq).map(|same| {
            let local = self.weighting.local(same.len() as f64);
            (same[0], if self.weighting.tfidf { local * weights[same[0] as usize] } else { local })
        }));
        let norm = if self.weighting.tfidf { euclidean_norm(weighted.iter().map(|(_, weight)| *weight)) } else { 1.0 };
        weighted.iter().try_for_each(|(term, weight)| emit(start + *term as usize, (weight / norm) as f32))
    }

    /// Emits the features that several columns share, at the end of a row.
    pub(crate) fn end_row(buffers: &mut RowBuffers, emit: EmitFeature<'_>) -> Parsed {
        let hashed = &mut buffers.hashed;
        hashed.sort_unstable_by_key(|(feature, _)| *feature);
        let mut found = Ok(());
        for same in hashed.chunk_by(|left, right| left.0 == right.0) {
            let sum: f32 = same.iter().map(|(_, sign)| sign).sum();
            if sum != 0.0 && found.is_ok() {
                found = emit(same[0].0, sum);
            }
        }
        hashed.clear();
        found
    }

    /// Drops what a row left behind that was not read to its end.
    pub(crate) fn begin_row(buffers: &mut RowBuffers) {
        buffers.hashed.clear();
    }
}

/// Parses the number of the next field. Errors name the column, if it has a name.
pub(crate) fn number_of_column<F: FieldValue>(
    fields: &mut Fields<'_>,
    column: Option<&str>,
) -> hemiola_array::Result<F, Box<ParseError>> {
    let ended = fields.is_empty();
    let parsed = fields.next::<F>();
    match column {
        // A field that is absent is an error of the line.
        Some(column) if !ended => parsed.map_err(|_| fields.reject(format!("a finite number in column `{column}`"))),
        _ => parsed,
    }
}

/// Returns the category of a field; `None` if it is missing.
fn category<'a>(field: &'a [u8], fill: Option<&'a str>) -> Option<Cow<'a, str>> {
    if is_missing(field) {
        return fill.map(Cow::Borrowed);
    }
    let field = field.trim_ascii();
    Some(std::str::from_utf8(field).map_or_else(|_| Cow::Owned(decode_text(field)), Cow::Borrowed))
}

/// Returns the Euclidean norm of the weights of a row, or 1 if all are 0.
pub(super) fn euclidean_norm(weights: impl Iterator<Item = f64>) -> f64 {
    let norm = weights.map(|weight| weight * weight).sum::<f64>().sqrt();
    if norm > 0.0 { norm } else { 1.0 }
}
