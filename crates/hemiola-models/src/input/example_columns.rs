//! Label and features of a file of separated values.
//!
//! In training, the label is the column of `--label`, or the first one. A header that also names a
//! column `label`, `target`, `class` or `y` makes that choice ambiguous, which is an error. New
//! files are matched to the schema of a model: by name if both have a header, else by the number
//! of fields.

use super::column_error::ColumnError;
use super::schema::{ColumnRole, InputColumn, InputSchema};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Names of columns that are usually labels.
const LABEL_NAMES: [&str; 4] = ["label", "target", "class", "y"];

/// Use of one field of a line of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FieldUse {
    Label,
    /// Weight of the example.
    Weight,
    /// Feature with this index.
    Feature(usize),
    Skip,
}

/// Header and width of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileHead<'a> {
    pub(crate) path: &'a Path,
    /// Names in the header, if there is one.
    pub(crate) header: Option<&'a [String]>,
    /// Number of fields of the header or the first record.
    pub(crate) fields: usize,
}

impl FileHead<'_> {
    /// Returns the names of the columns, or their numbers. Columns without a name, or with a
    /// repeated one, get their number appended.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.fields);
        for column in 0..self.fields {
            let own = self.header.and_then(|header| header.get(column)).map(|name| name.trim());
            let mut name = match own {
                None => (column + 1).to_string(),
                Some("") => format!("({})", column + 1),
                Some(own) => own.to_owned(),
            };
            if names.contains(&name) {
                name = format!("{name} ({})", column + 1);
            }
            names.push(name);
        }
        names
    }

    /// Returns the position of a column, given by its name or by its number counted from 1.
    pub(crate) fn position(&self, names: &[String], wanted: &str) -> Result<usize, ColumnError> {
        let wanted = wanted.trim();
        let by_name = names.iter().position(|name| name == wanted).or_else(|| {
            let mut alike = names.iter().enumerate().filter(|(_, name)| name.eq_ignore_ascii_case(wanted));
            alike.next().filter(|_| alike.next().is_none()).map(|(position, _)| position)
        });
        let by_number = || wanted.parse::<usize>().ok().filter(|number| (1..=names.len()).contains(number));
        by_name.or_else(|| by_number().map(|number| number - 1)).ok_or_else(|| ColumnError::Unknown {
            file: self.path.to_owned(),
            column: wanted.to_owned(),
            columns: names.to_vec(),
        })
    }
}

/// Columns of a file of examples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExampleColumns {
    /// Use of each field, in file order.
    pub(crate) fields: Vec<FieldUse>,
    /// Names of columns that the model does not know.
    pub(crate) extra: Vec<String>,
}

impl ExampleColumns {
    /// Returns the schema of training data by flags: `label`, `ignore` and `weight` are names or
    /// numbers. With `needs_label`, the first column is the label if none is named.
    pub(crate) fn choose(
        head: FileHead<'_>,
        separator: &str,
        (label, needs_label): (Option<&str>, bool),
        ignore: &[String],
        weight: Option<&str>,
    ) -> Result<InputSchema, ColumnError> {
        let names = head.names();
        let label_position = match label {
            Some(wanted) => Some(head.position(&names, wanted)?),
            None if needs_label => {
                check_first_is_label(head, &names)?;
                Some(0)
            }
            None => None,
        };
        let mut roles = vec![ColumnRole::Feature; names.len()];
        for wanted in ignore {
            roles[head.position(&names, wanted)?] = ColumnRole::Ignored;
        }
        if let Some(position) = label_position
            && let Some(role) = roles.get_mut(position)
        {
            if *role == ColumnRole::Ignored {
                return Err(ColumnError::Repeated { column: names[position].clone() });
            }
            *role = ColumnRole::Label;
        }
        if let Some(wanted) = weight {
            let position = head.position(&names, wanted)?;
            if roles[position] != ColumnRole::Feature {
                return Err(ColumnError::Repeated { column: names[position].clone() });
            }
            roles[position] = ColumnRole::Weight;
        }
        if !roles.contains(&ColumnRole::Feature) {
            return Err(ColumnError::NoFeatures { file: head.path.to_owned() });
        }
        let columns = names.into_iter().zip(roles).map(|(name, role)| InputColumn { name, role }).collect();
        Ok(InputSchema {
            zero_based: false,
            separator: Some(separator.to_owned()),
            header: head.header.is_some(),
            columns,
            preparation: None,
        })
    }

    /// Matches the columns of a file to a schema. Without `needs_label` the label may be missing.
    pub(crate) fn match_file(head: FileHead<'_>, schema: &InputSchema, needs_label: bool) -> Result<Self, ColumnError> {
        if schema.header && head.header.is_some() {
            Self::match_names(head, schema, needs_label)
        } else {
            Self::match_positions(head, schema, needs_label)
        }
    }

    fn match_names(head: FileHead<'_>, schema: &InputSchema, needs_label: bool) -> Result<Self, ColumnError> {
        let names = head.names();
        let mut fields = vec![FieldUse::Skip; names.len()];
        let mut feature = 0;
        for column in &schema.columns {
            let field = match column.role {
                ColumnRole::Label => FieldUse::Label,
                // New files need no weights.
                ColumnRole::Weight => FieldUse::Weight,
                ColumnRole::Feature => {
                    feature += 1;
                    FieldUse::Feature(feature - 1)
                }
                _ => continue,
            };
            match names.iter().position(|name| *name == column.name) {
                Some(position) => fields[position] = field,
                None if field == FieldUse::Weight || field == FieldUse::Label && !needs_label => {}
                None => {
                    return Err(ColumnError::Missing {
                        file: head.path.to_owned(),
                        column: column.name.clone(),
                        columns: names,
                    });
                }
            }
        }
        let known = |name: &String| schema.columns.iter().any(|column| column.name == *name);
        let extra = names.into_iter().filter(|name| !known(name)).collect();
        Ok(Self { fields, extra })
    }

    fn match_positions(head: FileHead<'_>, schema: &InputSchema, needs_label: bool) -> Result<Self, ColumnError> {
        let uses = |keep: &dyn Fn(ColumnRole) -> bool| -> Vec<FieldUse> {
            let mut feature = 0;
            let kept = schema.columns.iter().filter(|column| keep(column.role));
            kept.map(|column| match column.role {
                ColumnRole::Label => FieldUse::Label,
                ColumnRole::Weight => FieldUse::Weight,
                ColumnRole::Feature => {
                    feature += 1;
                    FieldUse::Feature(feature - 1)
                }
                _ => FieldUse::Skip,
            })
            .collect()
        };
        let all = uses(&|_| true);
        let without_label = uses(&|role| role != ColumnRole::Label);
        let features = uses(&|role| role == ColumnRole::Feature);
        let mut expected = format!("{} (with the label)", all.len());
        if !needs_label {
            expected = format!("{} (without the label) or {expected}", without_label.len());
        }
        let without_weight = uses(&|role| role != ColumnRole::Weight);
        let layouts = if needs_label { vec![all, without_weight] } else { vec![all, without_label, features] };
        match layouts.into_iter().find(|layout| layout.len() == head.fields) {
            Some(fields) => Ok(Self { fields, extra: Vec::new() }),
            None => Err(ColumnError::FieldCount { file: head.path.to_owned(), found: head.fields, expected }),
        }
    }

    /// Returns true if the file has the label.
    pub(crate) fn has_label(&self) -> bool {
        self.fields.contains(&FieldUse::Label)
    }
}

/// Returns an error if the header names another column as the label than the first one.
fn check_first_is_label(head: FileHead<'_>, names: &[String]) -> Result<(), ColumnError> {
    let is_label = |name: &String| LABEL_NAMES.iter().any(|label| name.eq_ignore_ascii_case(label));
    match (head.header, names) {
        (Some(_), [first, rest @ ..]) if !is_label(first) => match rest.iter().find(|name| is_label(name)) {
            Some(named) => Err(ColumnError::AmbiguousLabel { first: first.clone(), named: named.clone() }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(header: Option<&[String]>, fields: usize) -> FileHead<'_> {
        FileHead { path: Path::new("x.csv"), header, fields }
    }

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_matched_by_name_in_any_order() {
        let trained = names("price,size,age,id");
        let schema = ExampleColumns::choose(head(Some(&trained), 4), ",", (None, true), &names("id"), None).unwrap();
        let new = names("age,note,size");
        let found = ExampleColumns::match_file(head(Some(&new), 3), &schema, false).unwrap();
        assert_eq!(found.fields, [FieldUse::Feature(1), FieldUse::Skip, FieldUse::Feature(0)]);
        assert_eq!((found.extra.as_slice(), found.has_label()), (&["note".to_owned()][..], false));
        let missing = ExampleColumns::match_file(head(Some(&new), 3), &schema, true).unwrap_err();
        assert!(matches!(missing, ColumnError::Missing { column, .. } if column == "price"));
        let short = names("price,age");
        let missing = ExampleColumns::match_file(head(Some(&short), 2), &schema, true).unwrap_err();
        assert!(matches!(missing, ColumnError::Missing { column, .. } if column == "size"));
    }

    #[test]
    fn without_a_header_the_number_of_fields_decides() {
        let schema = ExampleColumns::choose(head(None, 3), ",", (Some("3"), true), &[], None).unwrap();
        let fields = |count, needs_label| ExampleColumns::match_file(head(None, count), &schema, needs_label);
        assert_eq!(fields(3, true).unwrap().fields, [FieldUse::Feature(0), FieldUse::Feature(1), FieldUse::Label]);
        assert_eq!(fields(2, false).unwrap().fields, [FieldUse::Feature(0), FieldUse::Feature(1)]);
        assert!(matches!(fields(2, true), Err(ColumnError::FieldCount { found: 2, .. })));
        assert!(matches!(fields(4, false), Err(ColumnError::FieldCount { found: 4, .. })));
    }

    #[test]
    fn a_label_is_chosen_by_name_number_or_position() {
        let header = names("x1,x2,y");
        let role = |label: Option<&str>| {
            let schema = ExampleColumns::choose(head(Some(&header), 3), ",", (label, true), &[], None)?;
            Ok::<_, ColumnError>(schema.with_role(ColumnRole::Label).map(|(position, _)| position).collect::<Vec<_>>())
        };
        assert_eq!(role(Some("y")), Ok(vec![2]));
        assert_eq!(role(Some("2")), Ok(vec![1]));
        assert_eq!(role(None), Err(ColumnError::AmbiguousLabel { first: "x1".into(), named: "y".into() }));
        assert!(matches!(role(Some("z")), Err(ColumnError::Unknown { .. })));
        let header = names("y,class");
        assert!(ExampleColumns::choose(head(Some(&header), 2), ",", (None, true), &[], None).is_ok());
        let all = ExampleColumns::choose(head(Some(&header), 2), ",", (None, false), &[], None).unwrap();
        assert_eq!((all.with_role(ColumnRole::Feature).count(), all.with_role(ColumnRole::Label).count()), (2, 0));
        let one = ExampleColumns::choose(head(Some(&header), 2), ",", (Some("class"), false), &[], None).unwrap();
        assert_eq!(one.with_role(ColumnRole::Label).map(|(position, _)| position).collect::<Vec<_>>(), [1]);
    }
}
