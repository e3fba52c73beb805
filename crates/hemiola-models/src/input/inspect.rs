//! Inspection of files by the root, before all peers read them.

use super::column_error::ColumnError;
use hemiola_array::read::{Csv, InputFile};
use serde::{Deserialize, Serialize};

/// Error of the inspection, broadcast to all peers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InspectError {
    Read(hemiola_array::Error),
    Columns(ColumnError),
}

impl From<hemiola_array::Error> for InspectError {
    fn from(error: hemiola_array::Error) -> Self {
        Self::Read(error)
    }
}

impl From<ColumnError> for InspectError {
    fn from(error: ColumnError) -> Self {
        Self::Columns(error)
    }
}

/// Returns the header and the number of fields of a file; 0 if it is empty.
pub(crate) fn head_of(csv: &Csv, source: &InputFile) -> hemiola_array::Result<(Option<Vec<String>>, usize)> {
    let header = csv.column_names(source)?;
    let fields = match &header {
        Some(header) => header.len(),
        None => csv.first_records(source, 1)?.first().map_or(0, Vec::len),
    };
    Ok((header, fields))
}
