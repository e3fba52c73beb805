//! Arrays of a checkpoint of which every peer has its own: residuals of compressors, and copies
//! under gossip averaging with their moments.
//!
//! Such an array is a matrix with one row per peer. On as many peers, each takes its own row back
//! and repeats the bits of an undisturbed run. On another number of peers the rows are combined:
//! residuals are summed and shared equally, so nothing that was not sent is lost; copies become
//! their mean, which is the value that gossip averaging approaches.
//!
//! **Invariant:** the combination is the same on all peers.

use crate::checkpoint::{CheckpointContents, StateArchive};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{Communicator, ReduceOp};
use hemiola_core::Rank;
use hemiola_sync_proto::{PieceSnapshot, VariableId};

/// Names of the arrays, before the name of the variable.
pub(crate) const RESIDUAL: &str = "residual";
pub(crate) const COPY: &str = "copy";
pub(crate) const COPY_MOMENT: &str = "copy-moment";

/// Array to be written: name, shape and elements.
pub(crate) type SavedArray = (String, [usize; 2], Vec<f32>);

/// Part of the snapshot of a piece.
type PiecePart<'a, S> = dyn Fn(&PieceSnapshot<S>) -> Option<Vec<f32>> + 'a;

/// Rows of one array after reading.
#[derive(Clone, Debug)]
pub(crate) struct PeerRows {
    /// Row of this peer, if as many peers have saved the array.
    pub(crate) own: Option<Vec<f32>>,
    /// Sum of all rows.
    sum: Vec<f64>,
    /// Number of rows.
    rows: usize,
}

impl PeerRows {
    /// Mean of all rows.
    pub(crate) fn mean(&self) -> Vec<f32> {
        self.sum.iter().map(|sum| (sum / self.rows as f64) as f32).collect()
    }

    /// Row of this peer or, on another number of peers, its equal share of the sum.
    pub(crate) fn share(&self, peers: usize) -> Vec<f32> {
        let equal = || self.sum.iter().map(|sum| (sum / peers as f64) as f32).collect();
        self.own.clone().unwrap_or_else(equal)
    }
}

/// *Collective.* Adds the arrays that have a row per peer.
pub(crate) fn add<K: StateArchive>(
    cluster: &Cluster,
    collectives: &Communicator,
    saved: &CheckpointContents<'_, K>,
    snapshot: &[PieceSnapshot<K::State>],
    arrays: &mut Vec<SavedArray>,
) -> Result<()> {
    let plan = saved.plan;
    let names: Vec<&str> = plan.model.variables.iter().map(|variable| variable.name.as_str()).collect();
    let kept = |variable: usize| {
        let mut pieces = snapshot.iter().zip(&plan.pieces);
        pieces.any(|(snapshot, piece)| piece.variable.index() == variable && !snapshot.residual.is_empty())
    };
    let kept = cluster.all_gather((0..names.len()).map(kept).collect::<Vec<bool>>())?;
    for (index, name) in names.iter().enumerate() {
        let length = plan.model.variables[index].elements() as usize;
        let whole = |part: &PiecePart<'_, K::State>| {
            let mut whole = vec![0.0; length];
            let pieces = snapshot.iter().zip(&plan.pieces).filter(|(_, piece)| piece.variable.index() == index);
            for (snapshot, piece) in pieces {
                if let Some(numbers) = part(snapshot).filter(|numbers| !numbers.is_empty()) {
                    piece.layout.scatter(&numbers, &mut whole);
                }
            }
            whole
        };
        let mut add = |prefix: String, mine: Vec<f32>| -> Result<()> {
            let rows = gather(cluster, collectives, &mine)?;
            arrays.push((format!("{prefix}.{name}"), [cluster.size(), length], rows));
            Ok(())
        };
        if kept.iter().any(|peer| peer[index]) {
            add(RESIDUAL.to_owned(), whole(&|snapshot| Some(snapshot.residual.clone())))?;
        }
        if plan.is_gossip(VariableId::new(index)) {
            add(COPY.to_owned(), whole(&|snapshot| Some(snapshot.values.clone())))?;
            for moment in 0..saved.kernel.moment_count().unwrap_or(0) {
                let of_piece = |snapshot: &PieceSnapshot<K::State>| {
                    saved.kernel.moment(snapshot.state.as_ref()?, moment).map(<[f32]>::to_vec)
                };
                add(format!("{COPY_MOMENT}-{moment}"), whole(&of_piece))?;
            }
        }
    }
    Ok(())
}

/// *Collective.* Gathers the rows of all peers on the root. Returns an empty vector elsewhere.
fn gather(cluster: &Cluster, collectives: &Communicator, mine: &[f32]) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for rank in Rank::all(cluster.size()) {
        // Every element is nonzero on its owner only, so the sum is the owner's row.
        let mut row = if rank == cluster.rank() { mine.to_vec() } else { vec![0.0; mine.len()] };
        collectives.reduce(Rank::ROOT, &mut row, ReduceOp::Sum)?;
        if cluster.is_root() {
            all.append(&mut row);
        }
    }
    Ok(all)
}

/// *Collective.* Sends the rows of an array from the root to all peers. `all` is empty elsewhere.
pub(crate) fn scatter(
    cluster: &Cluster,
    collectives: &Communicator,
    (rows, length): (usize, usize),
    all: &[f32],
) -> Result<PeerRows> {
    let (mut own, mut sum) = (None, vec![0.0; length]);
    for index in 0..rows {
        let mut row = all.get(index * length..(index + 1) * length).map_or_else(|| vec![0.0; length], <[f32]>::to_vec);
        collectives.broadcast(Rank::ROOT, &mut row)?;
        sum.iter_mut().zip(&row).for_each(|(sum, number)| *sum += f64::from(*number));
        if rows == cluster.size() && index == cluster.rank().index() {
            own = Some(row);
        }
    }
    Ok(PeerRows { own, sum, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_collective::CollectiveExt as _;

    #[test]
    fn rows_return_to_their_peers_or_are_combined() {
        let outcomes = hemiola_cluster::standalone(3).run(|cluster| {
            let collectives = cluster.communicator()?;
            let all = gather(cluster, &collectives, &[1.0 + cluster.rank().index() as f32, -1.0])?;
            let same = scatter(cluster, &collectives, (3, 2), &all)?;
            let fewer = scatter(cluster, &collectives, (2, 2), all.get(..4).unwrap_or_default())?;
            Ok((all, same.share(3), fewer.own.clone(), fewer.share(3), fewer.mean()))
        });
        for (rank, (all, own, none, share, mean)) in outcomes.unwrap().into_iter().enumerate() {
            assert_eq!(all.is_empty(), rank > 0);
            assert_eq!(own, [1.0 + rank as f32, -1.0]);
            assert_eq!((none, share, mean), (None, vec![1.0, -2.0 / 3.0], vec![1.5, -1.0]));
        }
    }
}
