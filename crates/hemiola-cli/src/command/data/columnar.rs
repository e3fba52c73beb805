//! Table view of Parquet and Arrow IPC files, one row group at a time.

use super::deal::deal;
use super::description::{DataSetContents, FIRST_ROWS, FirstRows};
use super::progress::ReadProgress;
use super::table;
use super::tally::ValueTally;
use hemiola_array::read::{Columnar, InputFile, NonFiniteHandling};
use hemiola_cluster::Cluster;

/// Computes the statistics in one pass over all row groups, column by column.
pub(super) fn survey(
    cluster: &Cluster,
    source: &InputFile,
    non_finite: NonFiniteHandling,
) -> anyhow::Result<DataSetContents> {
    let file = Columnar::open(source)?.non_finite(non_finite);
    let names = file.columns().to_vec();
    let texts: Vec<bool> = file.numeric().iter().map(|numeric| !numeric).collect();
    let progress = ReadProgress::new(cluster.env(), "rows read");
    let (_, parts) = deal(
        cluster,
        file.groups(),
        || (),
        |(), group| {
            let mut tallies = vec![ValueTally::default(); names.len()];
            let (mut rows, mut first) = (0, vec![Vec::new(); names.len()]);
            for (index, name) in names.iter().enumerate() {
                let (tally, first) = (&mut tallies[index], &mut first[index]);
                let mut keep = |value: &dyn std::fmt::Display| {
                    if first.len() < FIRST_ROWS {
                        first.push(value.to_string());
                    }
                };
                rows = if texts[index] {
                    file.read(group..group + 1, &[name], |(value,): (String,)| {
                        tally.text();
                        keep(&value);
                    })?
                } else {
                    file.read(group..group + 1, &[name], |(value,): (f64,)| {
                        tally.add(value);
                        keep(&value);
                    })?
                };
            }
            progress.add(rows);
            Ok((rows, tallies, first))
        },
    )?;
    let (mut rows, mut tallies, mut first) = (0, vec![ValueTally::default(); names.len()], Vec::new());
    for (count, part, columns) in parts {
        rows += count;
        tallies.iter_mut().zip(&part).for_each(|(tally, next)| tally.join(next));
        let height = columns.first().map_or(0, Vec::len);
        first.extend((0..height).map(|row| columns.iter().map(|column| column[row].clone()).collect::<Vec<_>>()));
    }
    first.truncate(FIRST_ROWS);
    let first_rows = FirstRows { names: names.clone(), rows: first };
    Ok(table::contents(rows, names, &texts, &tallies, first_rows))
}
