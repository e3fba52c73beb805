//! Kinds of feature columns, decided before the rows are read.

use super::missing::is_missing;
use super::options::{CategoricalColumns, PreparationOptions};
use crate::input::column_error::ColumnError;
use crate::input::example_columns::FileHead;
use crate::input::schema::{ColumnRole, InputSchema};
use serde::{Deserialize, Serialize};

/// Number of records of the first file that are inspected.
pub(crate) const INSPECTED_RECORDS: usize = 1000;

/// Kind of a feature column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FeatureKind {
    Number,
    Category,
    Text,
}

/// Returns the kinds of the feature columns, in file order. `records` are the first ones of the
/// file. Fails for unknown columns, and for columns of words that are declared as nothing.
pub(crate) fn feature_kinds(
    options: &PreparationOptions,
    schema: &InputSchema,
    head: FileHead<'_>,
    records: &[Vec<String>],
) -> Result<Vec<FeatureKind>, ColumnError> {
    let names = head.names();
    let mut kinds = vec![FeatureKind::Number; names.len()];
    let declared = match &options.categorical {
        CategoricalColumns::Named(columns) => columns.as_slice(),
        _ => &[],
    };
    let wanted = declared.iter().map(|name| (name, FeatureKind::Category));
    for (name, kind) in wanted.chain(options.text.iter().map(|name| (name, FeatureKind::Text))) {
        let position = head.position(&names, name)?;
        let is_feature = schema.columns.get(position).is_some_and(|column| column.role == ColumnRole::Feature);
        if !is_feature || kinds[position] != FeatureKind::Number {
            return Err(ColumnError::Repeated { column: names[position].clone() });
        }
        kinds[position] = kind;
    }
    let detect = options.categorical == CategoricalColumns::Detect;
    let mut words = Vec::new();
    for (position, column) in schema.with_role(ColumnRole::Feature) {
        if kinds[position] != FeatureKind::Number {
            continue;
        }
        let texts =
            || records.iter().filter_map(|record| record.get(position)).filter(|text| !is_missing(text.as_bytes()));
        let is_word = |text: &&String| text.trim().parse::<f64>().is_err();
        let found = texts().filter(is_word).count();
        if detect && found > 0 {
            kinds[position] = FeatureKind::Category;
        } else if 2 * found > texts().count() {
            // A single word is a bad line, which the reader reports with its place.
            words.push((column.name.clone(), texts().find(is_word).cloned().unwrap_or_default()));
        }
    }
    if let Some((_, example)) = words.first() {
        let (file, example) = (head.path.to_owned(), example.clone());
        return Err(ColumnError::Words { file, example, columns: words.into_iter().map(|(name, _)| name).collect() });
    }
    Ok(schema.with_role(ColumnRole::Feature).map(|(position, _)| kinds[position]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::example_columns::ExampleColumns;
    use std::path::Path;

    fn kinds(options: &PreparationOptions, records: &[&str]) -> Result<Vec<FeatureKind>, ColumnError> {
        let split = |line: &&str| line.split(',').map(str::to_owned).collect::<Vec<String>>();
        let header = split(&"y,size,color,note");
        let head = FileHead { path: Path::new("x.csv"), header: Some(&header), fields: 4 };
        let schema = ExampleColumns::choose(head, ",", (None, true), &[], None)?;
        feature_kinds(options, &schema, head, &records.iter().map(split).collect::<Vec<_>>())
    }

    #[test]
    fn columns_of_words_are_detected_or_named_in_the_error() {
        let records = ["1,2,red,a b", "0,,blue,c", "1,3,?,d"];
        let error = kinds(&PreparationOptions::default(), &records).unwrap_err();
        assert!(
            matches!(&error, ColumnError::Words { columns, example, .. } if columns == &["color", "note"] && example == "red")
        );
        assert!(error.to_string().contains("--categorical color,note"), "{error}");
        let detect = PreparationOptions { categorical: CategoricalColumns::Detect, ..PreparationOptions::default() };
        let texts = PreparationOptions { text: vec!["note".into()], ..detect };
        assert_eq!(kinds(&texts, &records), Ok(vec![FeatureKind::Number, FeatureKind::Category, FeatureKind::Text]));
    }

    #[test]
    fn a_column_has_one_role() {
        let named = |columns: &[&str]| PreparationOptions {
            categorical: CategoricalColumns::Named(columns.iter().map(|name| (*name).to_owned()).collect()),
            text: vec!["note".into()],
            ..PreparationOptions::default()
        };
        assert!(kinds(&named(&["color", "2"]), &["1,2,red,a"]).is_ok());
        for wrong in [&["color", "color"][..], &["y"], &["note"]] {
            assert!(matches!(kinds(&named(wrong), &[]), Err(ColumnError::Repeated { .. })), "{wrong:?}");
        }
        assert!(matches!(kinds(&named(&["colour"]), &[]), Err(ColumnError::Unknown { .. })));
    }
}
