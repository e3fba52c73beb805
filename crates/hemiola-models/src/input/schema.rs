//! Format and columns of the training data of a model.

use super::preparation::Preparation;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Key of the schema in a manifest.
const INPUT_KEY: &str = "input";
/// Maximum number of feature names in a summary.
const FEATURES_SHOWN: usize = 8;

/// Layout of the files that a model was trained on. New files are read by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputSchema {
    /// LIBSVM text: indices count from 0 instead of 1.
    #[serde(default)]
    pub zero_based: bool,
    /// Separated values: the field separator; `None` for other formats.
    #[serde(default)]
    pub separator: Option<String>,
    /// Separated values: the files have a header line.
    #[serde(default)]
    pub header: bool,
    /// Separated values: all columns, in file order.
    #[serde(default)]
    pub columns: Vec<InputColumn>,
    /// Preparation of the features, fitted to the training set; `None` if files are read as they are.
    #[serde(default, with = "shared")]
    pub preparation: Option<Arc<Preparation>>,
}

/// Serialization of a shared value by its content.
mod shared {
    use super::Preparation;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Arc<Preparation>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Preparation>>, D::Error> {
        Ok(Option::<Preparation>::deserialize(deserializer)?.map(Arc::new))
    }
}

/// Column of separated values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputColumn {
    /// Name in the header, or the number of the column counted from 1.
    pub name: String,
    /// Use of the column.
    pub role: ColumnRole,
}

/// Use of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnRole {
    /// Label or target of an example.
    Label,
    /// Feature of an example.
    Feature,
    /// User of a rating or an event.
    User,
    /// Item of a rating or an event.
    Item,
    /// Rating, or weight of an event.
    Rating,
    /// Weight of an example.
    Weight,
    /// Not used.
    Ignored,
}

impl InputSchema {
    /// Schema of LIBSVM text.
    #[must_use]
    pub fn libsvm(zero_based: bool) -> Self {
        Self { zero_based, ..Self::default() }
    }

    /// Returns the columns with a role, in file order, with their positions.
    pub fn with_role(&self, role: ColumnRole) -> impl Iterator<Item = (usize, &InputColumn)> {
        self.columns.iter().enumerate().filter(move |(_, column)| column.role == role)
    }

    /// Stores the schema of a model in its manifest.
    pub(crate) fn put(schema: Option<&Self>, save: &mut ArraySaver) {
        if let Some(schema) = schema {
            save.put_metadata(INPUT_KEY, schema);
        }
    }

    /// Returns the schema in the manifest of a model. Saves of older versions have none.
    pub(crate) fn get(load: &ArrayLoader) -> Result<Option<Self>> {
        let schema: Option<Self> = load.metadata(INPUT_KEY)?;
        if let Some((schema, preparation)) =
            schema.as_ref().and_then(|schema| Some((schema, schema.preparation.as_ref()?)))
        {
            preparation.check(schema)?;
        }
        Ok(schema)
    }
}

/// Summary of the columns: label `price`, features `size`, `age`.
impl fmt::Display for InputSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (role, title) in [
            (ColumnRole::Label, "label"),
            (ColumnRole::User, "user"),
            (ColumnRole::Item, "item"),
            (ColumnRole::Rating, "rating"),
            (ColumnRole::Weight, "weight"),
        ] {
            let column = if self.header { "" } else { "column " };
            parts.extend(self.with_role(role).map(|(_, found)| format!("{title} {column}`{}`", found.name)));
        }
        let features: Vec<&str> = self.with_role(ColumnRole::Feature).map(|(_, column)| column.name.as_str()).collect();
        if self.header && !features.is_empty() {
            let more = if features.len() > FEATURES_SHOWN { ", ..." } else { "" };
            let shown = &features[..features.len().min(FEATURES_SHOWN)];
            parts.push(format!("features `{}`{more}", shown.join("`, `")));
        }
        let ignored = self.with_role(ColumnRole::Ignored).count();
        // Ratings always ignore the columns that follow.
        if ignored > 0 && self.with_role(ColumnRole::Label).next().is_some() {
            parts.push(format!("{ignored} ignored"));
        }
        let summary = self.preparation.as_ref().map(|preparation| preparation.summary(self)).unwrap_or_default();
        let columns = parts.join(", ");
        formatter
            .write_str(&[columns, summary].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_older_models_have_no_preparation() {
        let stored = r#"{"zero_based":false,"separator":",","header":true,"columns":[{"name":"y","role":"label"},{"name":"a","role":"feature"}]}"#;
        let schema: InputSchema = serde_json::from_str(stored).unwrap();
        assert_eq!((schema.preparation.is_none(), schema.to_string()), (true, "label `y`, features `a`".to_owned()));
        let again: InputSchema = serde_json::from_str(&serde_json::to_string(&schema).unwrap()).unwrap();
        assert_eq!(again, schema);
        let later = r#"{"columns":[],"preparation":{"version":9,"options":OPTIONS,"rows":1,"columns":[]}}"#;
        let options = serde_json::to_string(&super::super::PreparationOptions::default()).unwrap();
        let schema: InputSchema = serde_json::from_str(&later.replace("OPTIONS", &options)).unwrap();
        let refused = schema.preparation.as_ref().unwrap().check(&schema).unwrap_err().to_string();
        assert!(refused.contains("version 9"), "{refused}");
    }
}
