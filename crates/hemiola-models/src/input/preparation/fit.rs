//! Fit of a preparation to the rows of a training set.

use super::feature_kind::FeatureKind;
use super::feature_scan::{ColumnScan, FeatureScan, MAX_CATEGORIES, MAX_TERMS, NumberScan, TextCounts};
use super::fitted::{Preparation, PreparedColumn};
use super::options::{FeatureScaling, MissingHandling, PreparationOptions, TermSelection};
use super::rank_scan::{PASSES, RankScan};
use crate::input::column_error::ColumnError;
use hemiola_cluster::Result;
use std::cmp::Reverse;

/// *Collective.* Pass over the training rows of all peers that adds each to a scan, starting from an
/// empty one.
pub(crate) type ScanPass<'a> = &'a dyn Fn(FeatureScan) -> Result<FeatureScan>;

/// *Collective.* Fits a preparation to columns with these names. Returns it with notes for the user.
pub(crate) fn fit(
    options: &PreparationOptions,
    (kinds, names): (&[FeatureKind], &[String]),
    pass: ScanPass<'_>,
) -> Result<std::result::Result<(Preparation, Vec<String>), ColumnError>> {
    let hashes = options.hash_bits.is_some();
    let fills_frequent = options.missing == MissingHandling::MostFrequent;
    let empty = |kind: &FeatureKind| match kind {
        FeatureKind::Number => ColumnScan::Number(NumberScan::new(fills_frequent)),
        // Hashed categories need no statistics.
        FeatureKind::Category if hashes && !fills_frequent => ColumnScan::Skipped,
        FeatureKind::Category => ColumnScan::Category(TextCounts::default()),
        FeatureKind::Text => ColumnScan::Text(TextCounts::default()),
    };
    let scan = pass(FeatureScan { rows: 0, columns: kinds.iter().map(empty).collect() })?;
    let medians = if options.missing == MissingHandling::Median { medians(&scan, pass)? } else { Vec::new() };
    let mut notes = Vec::new();
    let fitted = scan.columns.iter().enumerate().map(|(index, column)| {
        let name = || names[index].clone();
        match column {
            ColumnScan::Number(scan) => fit_number(options, scan, medians.get(index).copied().flatten(), name()),
            ColumnScan::Category(counts) => {
                let (column, note) = fit_categories(options, counts, scan.rows, name())?;
                notes.extend(note);
                Ok(column)
            }
            ColumnScan::Text(counts) => fit_terms(&options.terms, counts, scan.rows, name()),
            ColumnScan::Skipped | ColumnScan::Rank(_) => Ok(PreparedColumn::Hashed { fill: None }),
        }
    });
    let fitted = fitted.collect::<std::result::Result<Vec<PreparedColumn>, ColumnError>>();
    let constant: Vec<String> = scan
        .columns
        .iter()
        .zip(names)
        .filter(|(column, _)| is_constant(column))
        .map(|(_, name)| format!("`{name}`"))
        .collect();
    if let [first, rest @ ..] = &constant[..]
        && matches!(options.scale, FeatureScaling::Standard | FeatureScaling::MinMax)
    {
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        notes.push(format!("column {first}{more} is constant in the training set and scaled to 0"));
    }
    Ok(fitted.map(|columns| (Preparation::new(options, scan.rows, columns, None), notes)))
}

fn is_constant(column: &ColumnScan) -> bool {
    matches!(column, ColumnScan::Number(scan) if scan.present > 0 && scan.least.total_cmp(&scan.most).is_eq())
}

/// *Collective.* Returns the medians of the columns of numbers that have missing values.
fn medians(scan: &FeatureScan, pass: ScanPass<'_>) -> Result<Vec<Option<f32>>> {
    let search = |column: &ColumnScan| match column {
        ColumnScan::Number(scan) if scan.missing > 0 && scan.present > 0 => {
            ColumnScan::Rank(RankScan::median(scan.present))
        }
        _ => ColumnScan::Skipped,
    };
    let mut ranks = FeatureScan { rows: 0, columns: scan.columns.iter().map(search).collect() };
    if ranks.columns.iter().any(|column| matches!(column, ColumnScan::Rank(_))) {
        for index in 0..PASSES.len() {
            ranks = pass(ranks)?;
            for column in &mut ranks.columns {
                if let ColumnScan::Rank(rank) = column {
                    rank.advance(PASSES.get(index + 1).copied());
                }
            }
        }
    }
    let value = |column: &ColumnScan| match column {
        ColumnScan::Rank(rank) => Some(rank.value()),
        _ => None,
    };
    Ok(ranks.columns.iter().map(value).collect())
}

fn fit_number(
    options: &PreparationOptions,
    scan: &NumberScan,
    median: Option<f32>,
    column: String,
) -> std::result::Result<PreparedColumn, ColumnError> {
    let NumberScan { present, missing, moments, values, .. } = scan;
    let needs_value =
        matches!(options.missing, MissingHandling::Mean | MissingHandling::Median | MissingHandling::MostFrequent);
    if *present == 0 && *missing > 0 && needs_value {
        return Err(ColumnError::AllMissing { column });
    }
    if values.as_ref().is_some_and(|values| values.len() > MAX_CATEGORIES && *missing > 0) {
        return Err(ColumnError::TooManyNumbers { column, most: MAX_CATEGORIES });
    }
    let frequent = || {
        let values = values.iter().flatten();
        let best = values.map(|(bits, count)| (*count, f32::from_bits(*bits)));
        best.max_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1))).map_or(0.0, |(_, value)| value)
    };
    let mean = || moments.mean_and_variance((*present).max(1), 0, 0.0).0 as f32;
    let fill = match options.missing {
        MissingHandling::Error => None,
        MissingHandling::Mean => Some(mean()),
        // A column without missing values in training may have some later.
        MissingHandling::Median => Some(median.unwrap_or_else(mean)),
        MissingHandling::Zero => Some(0.0),
        MissingHandling::MostFrequent => Some(frequent()),
    };
    let (count, filled) = (present + missing, if fill.is_some() { *missing } else { 0 });
    let value = fill.unwrap_or(0.0);
    let (least, most) = if filled > 0 || *present == 0 {
        (scan.least.min(value), scan.most.max(value))
    } else {
        (scan.least, scan.most)
    };
    let positive = |scale: f64| if scale > 0.0 && scale.is_finite() { scale } else { 1.0 };
    let (least, most) = (f64::from(least), f64::from(most));
    let (shift, scale) = match options.scale {
        FeatureScaling::None => (0.0, 1.0),
        FeatureScaling::Standard => {
            let (mean, variance) = moments.mean_and_variance(count.max(1), filled, value);
            // All values are equal up to rounding of the mean.
            (mean, if least < most { positive(variance.sqrt()) } else { 1.0 })
        }
        FeatureScaling::MinMax => (least, positive(most - least)),
        FeatureScaling::MaxAbs => (0.0, positive(least.abs().max(most.abs()))),
    };
    let indicator = options.missing_indicator && *missing > 0;
    Ok(PreparedColumn::Number { fill, indicator, shift, scale })
}

fn fit_categories(
    options: &PreparationOptions,
    counts: &TextCounts,
    rows: u64,
    column: String,
) -> std::result::Result<(PreparedColumn, Option<String>), ColumnError> {
    if counts.overflows {
        return Err(ColumnError::TooManyCategories { column, most: MAX_CATEGORIES });
    }
    let all = counts.sorted();
    let mut fill = None;
    if options.missing == MissingHandling::MostFrequent {
        let best = all.iter().max_by_key(|(name, count)| (*count, Reverse(name)));
        let Some((name, _)) = best else { return Err(ColumnError::AllMissing { column }) };
        fill = Some(name.clone());
    }
    if options.hash_bits.is_some() {
        return Ok((PreparedColumn::Hashed { fill }, None));
    }
    // Half of the rows, as the check that labels are classes.
    let unique = rows >= 20 && 2 * all.len() as u64 > rows;
    let note = unique.then(|| {
        let count = all.len();
        format!(
            "column `{column}` has {count} categories in {rows} rows; leave out identifiers with `--ignore {column}`"
        )
    });
    let fewest = options.min_frequency;
    let rare = all.iter().any(|(_, count)| *count < fewest);
    let names = all.into_iter().filter(|(_, count)| *count >= fewest).map(|(name, _)| name).collect();
    let missing = counts.missing > 0 && fill.is_none();
    Ok((PreparedColumn::Category { names, missing, rare, fill }, note))
}

fn fit_terms(
    selection: &TermSelection,
    counts: &TextCounts,
    rows: u64,
    column: String,
) -> std::result::Result<PreparedColumn, ColumnError> {
    if counts.overflows {
        return Err(ColumnError::TooManyTerms { column, most: MAX_TERMS });
    }
    let mut kept = counts.sorted();
    kept.retain(|(_, of)| *of >= selection.min_documents && *of as f64 <= selection.max_share * rows as f64);
    if let Some(most) = selection.most
        && kept.len() > most
    {
        kept.sort_by_key(|(_, of)| Reverse(*of));
        kept.truncate(most);
        kept.sort_unstable();
    }
    if kept.is_empty() {
        return Err(ColumnError::NoTerms { column });
    }
    let (terms, frequencies) = kept.into_iter().unzip();
    Ok(PreparedColumn::Text { terms, frequencies })
}
