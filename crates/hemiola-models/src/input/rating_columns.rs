//! User, item and rating of a file of separated values.

use super::column_error::ColumnError;
use super::example_columns::FileHead;
use super::schema::{ColumnRole, InputColumn, InputSchema};
use serde::{Deserialize, Serialize};

/// Roles in the order of `--columns`.
const ROLES: [ColumnRole; 3] = [ColumnRole::User, ColumnRole::Item, ColumnRole::Rating];

/// Positions of user, item and rating in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RatingColumns {
    pub(crate) user: usize,
    pub(crate) item: usize,
    /// Position of the rating; `None` for events without weights.
    pub(crate) rating: Option<usize>,
}

impl RatingColumns {
    /// Chooses columns by flags: names or numbers of user, item and rating. By default these are
    /// the first three columns; events need no third.
    pub(crate) fn choose(head: FileHead<'_>, wanted: &[String]) -> Result<Self, ColumnError> {
        let names = head.names();
        let mut positions = Vec::new();
        for column in wanted {
            let position = head.position(&names, column)?;
            if positions.contains(&position) {
                return Err(ColumnError::Repeated { column: names[position].clone() });
            }
            positions.push(position);
        }
        Ok(match positions[..] {
            [user, item, ref rating @ ..] => Self { user, item, rating: rating.first().copied() },
            _ => Self { user: 0, item: 1, rating: (head.fields != 2).then_some(2) },
        })
    }

    /// Matches a file to the schema of a model: by name if both have a header, else by position.
    /// Without `needs_rating` the rating may be missing.
    pub(crate) fn match_file(
        head: FileHead<'_>,
        schema: &InputSchema,
        needs_rating: bool,
    ) -> Result<Self, ColumnError> {
        let names = head.names();
        let by_name = schema.header && head.header.is_some();
        let position = |role: ColumnRole| -> Result<Option<usize>, ColumnError> {
            let Some((trained, column)) = schema.with_role(role).next() else { return Ok(None) };
            let found = if by_name {
                names.iter().position(|name| *name == column.name)
            } else {
                Some(trained).filter(|position| *position < head.fields)
            };
            match found {
                None if role != ColumnRole::Rating || needs_rating => Err(ColumnError::Missing {
                    file: head.path.to_owned(),
                    column: column.name.clone(),
                    columns: names.clone(),
                }),
                found => Ok(found),
            }
        };
        let [user, item, rating] = [position(ROLES[0])?, position(ROLES[1])?, position(ROLES[2])?];
        Ok(Self { user: user.unwrap_or(0), item: item.unwrap_or(1), rating })
    }

    /// Returns the names of these columns in a file.
    pub(crate) fn names_in(&self, head: FileHead<'_>) -> Vec<String> {
        let names = head.names();
        let positions = [Some(self.user), Some(self.item), self.rating];
        positions.into_iter().flatten().filter_map(|position| names.get(position).cloned()).collect()
    }

    /// Returns the schema of these columns.
    pub(crate) fn schema(&self, head: FileHead<'_>, separator: &str) -> InputSchema {
        let role = |position: usize| match position {
            position if position == self.user => ColumnRole::User,
            position if position == self.item => ColumnRole::Item,
            position if Some(position) == self.rating => ColumnRole::Rating,
            _ => ColumnRole::Ignored,
        };
        let columns = head.names().into_iter().enumerate();
        InputSchema {
            zero_based: false,
            separator: Some(separator.to_owned()),
            header: head.header.is_some(),
            columns: columns.map(|(position, name)| InputColumn { name, role: role(position) }).collect(),
            preparation: None,
        }
    }
}
