//! Assignment of rows to their nearest centers: the sums from which centers move, and the rows that
//! empty clusters get.

use super::centers::ClusterCenters;
use crate::examples::{BlockedRows, ExampleBlock, add_in_place, each_block, tree_sum};
use hemiola_cluster::{Cluster, Result};

/// Sums over the rows of each cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterSums {
    /// Sum of the rows of each cluster.
    pub(super) rows: Vec<f64>,
    /// Number of rows of each cluster.
    pub(super) counts: Vec<f64>,
    /// Sum of the squared distances of all rows.
    pub(super) inertia: f64,
}

impl ClusterSums {
    /// *Collective.* Assigns rows to their nearest centers. `select` lists the rows of a block of
    /// this peer that take part.
    pub(super) fn of<I: Iterator<Item = usize>>(
        cluster: &Cluster,
        rows: &BlockedRows,
        centers: &ClusterCenters,
        [clusters, columns]: [usize; 2],
        select: impl Fn(usize) -> I + Sync,
    ) -> Result<Self> {
        let cells = clusters * columns;
        let sums = tree_sum(
            cluster,
            rows,
            |index| {
                let (block, mut squares) = (&rows.blocks[index], Vec::new());
                let mut sums = vec![0.0; cells + clusters + 1];
                for row in select(index) {
                    let nearest = centers.nearest(block, row, &mut squares);
                    let own = &mut sums[nearest.cluster * columns..][..columns];
                    block.row(row).for_each(|(column, value)| own[column] += f64::from(value));
                    sums[cells + nearest.cluster] += 1.0;
                    sums[cells + clusters] += nearest.square;
                }
                sums
            },
            add_in_place,
        )?;
        let mut sums = sums.unwrap_or_else(|| vec![0.0; cells + clusters + 1]);
        let inertia = sums.pop().unwrap_or(0.0);
        let counts = sums.split_off(cells);
        Ok(Self { rows: sums, counts, inertia })
    }

    /// *Collective.* Gives each empty cluster the row that is farthest from its center, and takes it
    /// from the cluster that had it. Rows at their center and the last row of a cluster stay.
    pub(super) fn fill_empty(
        &mut self,
        cluster: &Cluster,
        rows: &BlockedRows,
        centers: &ClusterCenters,
        columns: usize,
    ) -> Result<()> {
        let empty: Vec<usize> = (0..self.counts.len()).filter(|index| self.counts[*index] == 0.0).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let far = farthest(cluster, rows, centers, self.counts.len())?;
        let mut empty = empty.into_iter();
        for FarRow { from, entries, .. } in far {
            if self.counts[from] < 2.0 {
                continue;
            }
            let Some(to) = empty.next() else { break };
            for (column, value) in entries {
                self.rows[from * columns + column as usize] -= f64::from(value);
                self.rows[to * columns + column as usize] += f64::from(value);
            }
            self.counts[from] -= 1.0;
            self.counts[to] = 1.0;
        }
        Ok(())
    }
}

/// Row far from its center.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct FarRow {
    square: f64,
    number: usize,
    /// Cluster whose center is nearest to the row.
    from: usize,
    entries: Vec<(u32, f32)>,
}

/// *Collective.* Returns the rows of all peers that are farthest from their centers, the farthest
/// first: several for each empty cluster, as some cannot be moved.
fn farthest(cluster: &Cluster, rows: &BlockedRows, centers: &ClusterCenters, count: usize) -> Result<Vec<FarRow>> {
    let order = |left: &(f64, usize), right: &(f64, usize)| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1));
    let of_block = |index: usize| {
        let (block, mut squares) = (&rows.blocks[index], Vec::new());
        let mut all = Vec::new();
        for row in 0..block.len() {
            let nearest = centers.nearest(block, row, &mut squares);
            if nearest.square > 0.0 {
                all.push(((nearest.square, block.numbers[row]), nearest.cluster, index, row));
            }
        }
        all.sort_unstable_by(|left, right| order(&left.0, &right.0));
        all.truncate(count);
        all
    };
    let mut own: Vec<_> = each_block(cluster, &rows.blocks, of_block)?.into_iter().flatten().collect();
    own.sort_unstable_by(|left, right| order(&left.0, &right.0));
    own.truncate(count);
    let entries =
        |block: &ExampleBlock, row: usize| block.row(row).map(|(column, value)| (column as u32, value)).collect();
    let far = own.into_iter().map(|((square, number), from, index, row)| FarRow {
        square,
        number,
        from,
        entries: entries(&rows.blocks[index], row),
    });
    let mut all: Vec<FarRow> = cluster.all_gather(far.collect::<Vec<_>>())?.into_iter().flatten().collect();
    all.sort_unstable_by(|left, right| order(&(left.square, left.number), &(right.square, right.number)));
    Ok(all)
}
