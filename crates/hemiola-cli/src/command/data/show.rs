//! Text form of a description: one fact per line, grouped digits, the first rows as a table.

use super::description::{ColumnDescription, DataSetDescription, FirstRows};
use super::tally::ColumnStatistics;
use crate::readable::{bytes, grouped};
use hemiola_core::printable;
use std::fmt::Write as _;

/// Maximum width of a cell in characters.
const MAX_CELL_WIDTH: usize = 28;
/// Maximum number of cells shown of a row.
const MAX_CELLS: usize = 10;
/// Maximum number of columns and of bad lines listed.
const MAX_LISTED: usize = 40;

/// Formats a description as text.
pub(super) fn text(set: &DataSetDescription) -> String {
    let mut out = format!("{}\n", set.path);
    let contents = &set.contents;
    let mut fact = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<11} {text}");
    };
    let size = format!("{} on disk, {}", bytes(set.bytes), set.compression);
    fact("files", if set.files == 1 { size } else { format!("{}; {size}", set.files) });
    let mut format = set.format.to_owned();
    if let Some(separator) = &set.separator {
        let _ = write!(format, ", separated by {separator}");
    }
    if let Some(header) = set.header {
        format.push_str(if header { ", with a header" } else { ", no header" });
    }
    fact("format", format);
    fact("detected by", set.recognized_by.clone());
    fact("read as", view(contents.view).to_owned());
    let shape: Vec<_> = contents.shape.iter().map(|&extent| grouped(extent as u64)).collect();
    let mut shape = shape.join(" x ");
    if let Some([rows, columns]) = contents.counted_from {
        let _ = write!(shape, " (rows counted from {rows}, columns from {columns})");
    }
    fact("shape", shape);
    if let Some([Some(rows), Some(columns)]) = contents.occupied {
        fact("occupied", format!("{} rows and {} columns have entries", grouped(rows), grouped(columns)));
    }
    fact("entries", format!("{}, density {}", grouped(contents.entries), percent(contents.density)));
    if let Some(duplicates) = contents.duplicates {
        fact("duplicates", grouped(duplicates));
    }
    for (name, stats) in [("values", &contents.values), ("labels", &contents.labels)] {
        if let Some(stats) = stats {
            fact(name, numbers(stats));
        }
    }
    let memory = &contents.memory;
    let mut kinds = Vec::new();
    kinds.extend(memory.sparse_bytes.map(|sparse| format!("{} as sparse array", bytes(sparse))));
    kinds.push(match memory.dense_bytes {
        Some(dense) => format!("{} as dense array", bytes(dense)),
        None => "too large for a dense array".to_owned(),
    });
    fact("memory", format!("{}, of {}", kinds.join(", "), memory.element));
    if let Some(skew) = &contents.skew {
        let bin = |bin: usize| if bin == 1 { String::new() } else { format!(" (in bins of {})", grouped(bin as u64)) };
        let rows = format!("the top 1 % of rows have {}{}", percent(skew.busiest_rows), bin(skew.row_bin));
        let columns = format!("of columns {}{}", percent(skew.busiest_columns), bin(skew.column_bin));
        fact("skew", format!("{rows}, {columns} of all entries"));
    }
    list(&mut out, set);
    table(&mut out, &contents.first_rows);
    out
}

fn list(out: &mut String, set: &DataSetDescription) {
    let more = |out: &mut String, count: usize| {
        if count > MAX_LISTED {
            let _ = writeln!(out, "    and {} more, see --report", count - MAX_LISTED);
        }
    };
    let (columns, skipped) = (&set.contents.columns, &set.contents.skipped);
    if !columns.is_empty() {
        let _ = writeln!(out, "\n  columns");
        let rows: Vec<_> = columns.iter().take(MAX_LISTED).map(column).collect();
        lay_out(out, &rows);
        more(out, columns.len());
    }
    if !skipped.is_empty() {
        let _ = writeln!(out, "\n  skipped lines: {}", grouped(skipped.len() as u64));
        for line in skipped.iter().take(MAX_LISTED) {
            let _ = writeln!(out, "    {line}");
        }
        more(out, skipped.len());
    }
}

fn column(column: &ColumnDescription) -> Vec<String> {
    let mut cells = vec![column.name.clone(), column.r#type.to_owned()];
    cells.push(match (column.min, column.mean, column.max) {
        (Some(min), Some(mean), Some(max)) => {
            format!("{} to {}, mean {}", number(min), number(max), number(mean))
        }
        _ => column.numbers.map_or(String::new(), |numbers| format!("{} are numbers", grouped(numbers))),
    });
    cells.push(if column.missing > 0 { format!("{} missing", grouped(column.missing)) } else { String::new() });
    cells
}

fn table(out: &mut String, first: &FirstRows) {
    if first.rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  first rows");
    let shortened = |row: &Vec<String>| {
        let mut row = row.clone();
        if row.len() > MAX_CELLS {
            let omitted = row.len() - (MAX_CELLS - 1);
            row.truncate(MAX_CELLS - 1);
            row.push(format!("… {omitted} more"));
        }
        row
    };
    let rows: Vec<_> = std::iter::once(&first.names).chain(&first.rows).map(shortened).collect();
    lay_out(out, &rows);
}

/// Appends rows with aligned columns.
fn lay_out(out: &mut String, rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let width =
        |index: usize| rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    for row in &rows {
        let mut line = String::from("   ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} ");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Escapes control characters of a cell, and truncates it.
fn shown(cell: &str) -> String {
    match cell.char_indices().nth(MAX_CELL_WIDTH) {
        Some((end, _)) if cell.chars().count() > MAX_CELL_WIDTH + 10 => format!("{}…", printable(&cell[..end])),
        _ => printable(cell).into_owned(),
    }
}

fn view(view: &str) -> &'static str {
    match view {
        "entries" => "entries: row, column, value",
        "table" => "table: rows of fields",
        _ => "dense array: a number in every cell",
    }
}

fn numbers(stats: &ColumnStatistics) -> String {
    let mut text =
        format!("{}, {} to {}, mean {}", stats.r#type, number(stats.min), number(stats.max), number(stats.mean));
    if stats.not_finite > 0 {
        let _ = write!(text, "; {} more are NaN or infinite", grouped(stats.not_finite));
    }
    text
}

/// Formats a number with a readable number of digits.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    if value.abs() >= 1e6 || value.abs() < 1e-3 { format!("{value:.3e}") } else { format!("{value:.4}") }
}

/// Formats a fraction as a percentage: `4.19 %`.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.01 { format!("{percent:.1e} %") } else { format!("{percent:.2} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_readable_form() {
        assert_eq!((number(5.0), number(3.58156), number(1e-5)), ("5".into(), "3.5816".into(), "1.000e-5".into()));
        assert_eq!(
            (percent(0.0419), percent(1.0), percent(1e-6)),
            ("4.19 %".into(), "100.00 %".into(), "1.0e-4 %".into())
        );
    }

    #[test]
    fn cells_are_truncated_and_escaped() {
        assert_eq!(shown("a\tb\x1b[31m"), "a\\tb\\u{1b}[31m");
        assert_eq!(shown(&"é".repeat(100)), format!("{}…", "é".repeat(MAX_CELL_WIDTH)));
    }
}
