//! Training state on disk: values, optimizer state and the number of steps.
//!
//! The folder is written by the `save` module of `hemiola-array` (safetensors files and a
//! manifest). It has an array `values.NAME` for each variable as a matrix, `moment-K.NAME` for each
//! moment vector of the optimizer, and a note. **Invariant:** nothing in it depends on peers or
//! strategy, so any number of peers with any strategy can resume from it. The one exception is the
//! state of a Burn optimizer, which is saved by piece.

use crate::error::Error;
use crate::ids::{PieceId, VariableId};
use crate::optimizer::{self, Optimizer};
use crate::sync::{SyncMethod, SyncSnapshot, SyncUnit, VariablePiece};
use hemiola_array::save::{Manifest, PartReader, PartWriter};
use hemiola_array::{DenseArray, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{CollectiveExt, ReduceOp};
use hemiola_core::Rank;
use hemiola_strategy::ModelSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Key of the note in the manifest.
const NOTE: &str = "net";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct NetNote {
    format: u32,
    step: u64,
    optimizer: String,
    variables: ModelSpec,
    /// State of a Burn optimizer, by variable and shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    foreign: BTreeMap<String, Vec<optimizer::NamedArray>>,
}

/// Position of a piece in its variable, and the rank that owns its state.
#[derive(Clone, Debug)]
pub(crate) struct PieceLocation {
    variable: VariableId,
    shard: usize,
    width: usize,
    rows: usize,
    method: SyncMethod,
    block: crate::sync::ShardLayout,
}

impl PieceLocation {
    pub(crate) fn new(piece: &VariablePiece, id: PieceId, units: &[SyncUnit]) -> Self {
        let unit = units.iter().find(|unit| unit.pieces.contains(&id)).expect("every piece belongs to a unit");
        let VariablePiece { variable, shard, width, rows, block, .. } = piece;
        Self {
            variable: *variable,
            shard: *shard,
            width: *width,
            rows: *rows,
            method: unit.method.clone(),
            block: block.clone(),
        }
    }

    /// Sets elements to zero whose optimizer state another peer owns.
    fn zero_unowned(&self, numbers: &mut [f32], me: Rank) {
        match &self.method {
            SyncMethod::AllReduce { .. } | SyncMethod::SufficientFactors | SyncMethod::Gossip { .. }
                if me == Rank::ROOT => {}
            SyncMethod::ParameterServer { owner } if *owner == me => {}
            SyncMethod::ServedRows { owners } => {
                for row in (0..self.rows).filter(|row| owners[row % owners.len()] != me) {
                    numbers[row * self.width..(row + 1) * self.width].fill(0.0);
                }
            }
            _ => numbers.fill(0.0),
        }
    }

    fn is_saved_by(&self, me: Rank) -> bool {
        match &self.method {
            SyncMethod::ParameterServer { owner } => *owner == me,
            _ => me == Rank::ROOT,
        }
    }

    fn key(&self, variables: &ModelSpec) -> String {
        format!("{}#{}", variables.variables[self.variable].name, self.shard)
    }
}

/// Contents of a checkpoint besides the [`SyncSnapshot`].
pub(crate) struct CheckpointContents<'a> {
    pub(crate) step: u64,
    pub(crate) optimizer: &'a Optimizer,
    pub(crate) variables: &'a ModelSpec,
    pub(crate) locations: &'a [PieceLocation],
}

fn rule(optimizer: &Optimizer) -> String {
    // Only the name of the rule: its state does not depend on rates, which may change between runs.
    let text = format!("{optimizer:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

fn failed(folder: &Path, problem: impl Into<String>) -> hemiola_cluster::Error {
    Error::Checkpoint { path: folder.to_owned(), problem: problem.into() }.into()
}

/// *Collective.* Peer 0 writes; the other peers send it the state that they own.
pub(crate) fn save(
    cluster: &Cluster,
    folder: &Path,
    saved: &CheckpointContents<'_>,
    snapshot: &SyncSnapshot,
) -> Result<()> {
    let me = cluster.rank();
    let collectives = cluster.communicator()?;
    let mut foreign = BTreeMap::new();
    let moments = saved.optimizer.moments();
    if moments.is_none() {
        let own = snapshot.pieces.iter().zip(saved.locations).filter(|(_, place)| place.is_saved_by(me));
        let mine: std::result::Result<Vec<_>, String> = own
            .filter_map(|((_, state), place)| Some((state.as_ref()?, place)))
            .map(|(state, place)| Ok((place.key(saved.variables), saved.optimizer.save_burn_state(state)?)))
            .collect();
        let all = cluster.all_gather(mine)?;
        for part in all {
            foreign.extend(part.map_err(|problem| failed(folder, problem))?);
        }
    }
    let mut arrays: Vec<(String, [usize; 2], Vec<f32>)> = Vec::new();
    for (place, variable) in saved.variables.variables.iter().enumerate() {
        let (rows, width) = variable.matrix();
        let own = || snapshot.pieces.iter().zip(saved.locations).filter(|(_, piece)| piece.variable.index() == place);
        let mut values = vec![0.0; rows * width];
        own().for_each(|((numbers, _), piece)| piece.block.scatter(numbers, &mut values));
        arrays.push((format!("values.{}", variable.name), [rows, width], values));
        for moment in 0..moments.unwrap_or(0) {
            let mut whole = vec![0.0; rows * width];
            for ((numbers, state), piece) in own() {
                let own = state.as_ref().and_then(|state| state.moments.get(moment));
                let mut own = own.cloned().unwrap_or_else(|| vec![0.0; numbers.len()]);
                piece.zero_unowned(&mut own, me);
                piece.block.scatter(&own, &mut whole);
            }
            // Every element is nonzero on its owner only, so the sum is the owner's value.
            collectives.reduce(Rank::ROOT, &mut whole, ReduceOp::Sum)?;
            arrays.push((format!("moment-{moment}.{}", variable.name), [rows, width], whole));
        }
    }
    let written = if cluster.is_root() { write(folder, saved, foreign, arrays).err() } else { None };
    let problem = cluster.broadcast(written.map(|error| error.to_string()))?;
    problem.map_or(Ok(()), |problem| Err(failed(folder, problem)))
}

fn write(
    folder: &Path,
    saved: &CheckpointContents<'_>,
    foreign: BTreeMap<String, Vec<optimizer::NamedArray>>,
    arrays: Vec<(String, [usize; 2], Vec<f32>)>,
) -> hemiola_array::Result<()> {
    let saving = PartWriter::begin(folder)?;
    let mut manifest = Manifest::default();
    let (step, variables) = (saved.step, saved.variables.clone());
    let note = NetNote { format: FORMAT, step, optimizer: rule(saved.optimizer), variables, foreign };
    manifest.metadata.insert(NOTE.to_owned(), serde_json::to_value(note).expect("a note is plain data"));
    for (name, shape, numbers) in arrays {
        let array = DenseArray::from_cells(Shape::new(shape.map(|extent| extent as u64)), &numbers)?;
        manifest.add_dense::<f32, 2>(&name, array.shape(), vec![saving.write_dense(&name, 0, 0, &array)?]);
    }
    saving.commit(&manifest)
}

/// Contents of a checkpoint after reading.
pub(crate) struct RestoredNet {
    pub(crate) step: u64,
    /// Values of each variable.
    pub(crate) values: Vec<Vec<f32>>,
    /// Moment vectors, by moment and variable.
    moments: Vec<Vec<Vec<f32>>>,
    foreign: BTreeMap<String, Vec<optimizer::NamedArray>>,
}

/// *Collective.* Peer 0 reads and broadcasts. Returns `None` if there is no checkpoint.
pub(crate) fn load(
    cluster: &Cluster,
    folder: &Path,
    variables: &ModelSpec,
    optimizer: &Optimizer,
) -> Result<Option<RestoredNet>> {
    let read = if cluster.is_root() { Some(read(folder, variables, optimizer)) } else { None };
    // Everything but the arrays.
    let facts = read.as_ref().map(|read| {
        let facts = |restored: &RestoredNet| (restored.step, restored.moments.len(), restored.foreign.clone());
        read.as_ref().map(|restored| restored.as_ref().map(facts)).map_err(Clone::clone)
    });
    let Some(facts) = cluster.broadcast(facts)? else { return Ok(None) };
    let Some((step, vectors, foreign)) = facts.map_err(|problem| failed(folder, problem))? else { return Ok(None) };
    let mut restored = if let Some(Ok(Some(restored))) = read {
        restored
    } else {
        let empty = || variables.variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
        RestoredNet { step, values: empty(), moments: (0..vectors).map(|_| empty()).collect(), foreign }
    };
    let collectives = cluster.communicator()?;
    for numbers in restored.values.iter_mut().chain(restored.moments.iter_mut().flatten()) {
        collectives.broadcast(Rank::ROOT, numbers)?;
    }
    Ok(Some(restored))
}

fn read(
    folder: &Path,
    variables: &ModelSpec,
    optimizer: &Optimizer,
) -> std::result::Result<Option<RestoredNet>, String> {
    if !folder.join("manifest.json").exists() {
        return Ok(None);
    }
    let text = |error: hemiola_array::Error| error.to_string();
    let loading = PartReader::open(folder).map_err(text)?;
    let note = loading.manifest().metadata.get(NOTE).ok_or("it was not written by a trainer; choose another folder")?;
    let note: NetNote =
        serde_json::from_value(note.clone()).map_err(|error| format!("its note is damaged: {error}"))?;
    if note.format != FORMAT {
        return Err(format!(
            "it has format {}, and this version reads format {FORMAT}; use the version that wrote it",
            note.format
        ));
    }
    if let Some(difference) = variables.first_difference(&note.variables) {
        return Err(format!(
            "it was made with another model: {difference}; build that model, or choose another folder"
        ));
    }
    if note.optimizer != rule(optimizer) {
        let (saved, now) = (note.optimizer, rule(optimizer));
        return Err(format!(
            "it was made with the optimizer `{saved}`, and this is `{now}`; use that optimizer, or choose another folder"
        ));
    }
    let array = |name: String| {
        let (_, array) = loading.read_dense::<f32, 2>(&name, 0).map_err(text)?;
        Ok(array.to_cells())
    };
    let of_all = |prefix: String| -> std::result::Result<Vec<Vec<f32>>, String> {
        variables.variables.iter().map(|variable| array(format!("{prefix}.{}", variable.name))).collect()
    };
    let values = of_all("values".to_owned())?;
    let vectors = optimizer.moments().unwrap_or(0);
    let moments =
        (0..vectors).map(|vector| of_all(format!("moment-{vector}"))).collect::<std::result::Result<_, String>>()?;
    Ok(Some(RestoredNet { step: note.step, values, moments, foreign: note.foreign }))
}

impl RestoredNet {
    /// Gives every piece its part of the optimizer state.
    pub(crate) fn restore_into(
        mut self,
        pieces: &mut [VariablePiece],
        variables: &ModelSpec,
        optimizer: &Optimizer,
    ) -> Result<()> {
        for piece in pieces {
            piece.state.updates = self.step;
            for vector in &self.moments {
                let mut own = Vec::with_capacity(piece.block.len());
                piece.block.gather(&vector[piece.variable], &mut own);
                piece.state.moments.push(own);
            }
            let key = format!("{}#{}", variables.variables[piece.variable].name, piece.shard);
            if let Some(saved) = self.foreign.remove(&key) {
                optimizer.load_burn_state(saved, &mut piece.state).map_err(Error::Failed)?;
            }
        }
        if let Some(key) = self.foreign.keys().next() {
            let what = format!("the state of a Burn optimizer for `{key}`");
            let reason =
                "the checkpoint was made with a strategy that partitions variables differently; use that strategy"
                    .to_owned();
            return Err(Error::Unsupported { feature: what, reason }.into());
        }
        Ok(())
    }
}
