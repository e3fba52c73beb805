//! Training state on disk: values, optimizer state and the number of steps.
//!
//! The folder is written by the `save` module of `hemiola-array` (safetensors files and a
//! manifest). It has an array `values.NAME` for each variable as a matrix, `moment-K.NAME` for each
//! moment vector of the optimizer, a note, and what the caller attaches. Where peers differ, there
//! are [arrays with a row per peer](crate::peer_arrays): `residual.NAME`, and under gossip
//! averaging `copy.NAME` and `copy-moment-K.NAME`. All of it becomes visible by one rename, and if
//! the newest checkpoint is damaged, the one before is read with a warning.
//! **Invariant:** any number of peers with any strategy can resume from it, and nothing of the
//! state of a training is missing. The one exception is the state of an opaque optimizer, which is
//! saved by piece. The note keeps the strategy, so that a resumed run repeats the bits of an
//! undisturbed one.

use crate::error::Error;
use crate::peer_arrays::{self, COPY, COPY_MOMENT, PeerRows, RESIDUAL, SavedArray};
use crate::strategy_choice::StrategyRecord;
use hemiola_array::files::SharedFileSystem;
use hemiola_array::save::{Manifest, PartReader, PartWriter};
use hemiola_array::{DenseArray, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{CollectiveExt, Compressor, ReduceOp};
use hemiola_core::{ErrorKind, Rank};
use hemiola_strategy::ModelSpec;
use hemiola_sync_proto::{
    ErrorFeedback, PieceId, PieceSnapshot, SyncMethod, SyncPlan, SyncUnit, UpdateKernel, VariableId, VariablePiece,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Part of an opaque optimizer state: name, shape (empty for a count) and elements.
pub type NamedArray = (String, Vec<usize>, Vec<f32>);

/// Kernel whose optimizer state can be saved and restored.
///
/// An optimizer with *moments* has vectors as long as the piece, element by element. Their state
/// can be cut differently when it is restored. The state of any other optimizer is *opaque*: it is
/// saved by piece, and restored with the same strategy only.
pub trait StateArchive: UpdateKernel + Clone + Send + 'static {
    /// Returns the name of the rule, without its rates, which may change between runs.
    fn rule_name(&self) -> String;

    /// Returns the number of moment vectors of the rule, or `None` if its state is opaque.
    fn moment_count(&self) -> Option<usize>;

    /// Returns a moment vector of a state, or `None` before the first update.
    fn moment<'a>(&self, state: &'a Self::State, index: usize) -> Option<&'a [f32]>;

    /// Creates the state of a piece from its moment vectors and the number of updates.
    fn state_of(&self, updates: u64, moments: Vec<Vec<f32>>) -> Self::State;

    /// Returns the number of updates of a state. `None`, the default, takes the number of steps; in
    /// tables that apply the gradients of peers one by one, there are more.
    fn update_count(&self, state: &Self::State) -> Option<u64> {
        let _ = state;
        None
    }

    /// Returns the parts of an opaque state.
    fn save_opaque(&self, state: &Self::State) -> std::result::Result<Vec<NamedArray>, String>;

    /// Restores an opaque state from its parts.
    fn load_opaque(&self, saved: Vec<NamedArray>, state: &mut Self::State) -> std::result::Result<(), String>;
}

/// Values that a program stores with a checkpoint, by key, such as the history of its training run.
pub type Attachments = BTreeMap<String, Value>;

/// Key of the note in the manifest.
const NOTE: &str = "net";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct NetNote {
    format: u32,
    step: u64,
    optimizer: String,
    variables: ModelSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<StrategyRecord>,
    /// Opaque optimizer state, by variable and shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    foreign: BTreeMap<String, Vec<NamedArray>>,
    /// Number of updates by variable, where it differs from the number of steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    updates: BTreeMap<String, u64>,
    /// Compressors without their residuals, by variable and shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    compressors: BTreeMap<String, Compressor>,
}

/// Piece with the unit that tells which peer owns its state.
#[derive(Clone, Copy)]
struct OwnedPiece<'a> {
    piece: &'a VariablePiece,
    unit: &'a SyncUnit,
}

impl<'a> OwnedPiece<'a> {
    /// Returns all pieces of a plan, in order.
    fn all(plan: &'a SyncPlan) -> impl Iterator<Item = Self> {
        let pieces = plan.pieces.iter().enumerate();
        pieces.map(|(index, piece)| Self { piece, unit: plan.unit_of(PieceId::new(index)) })
    }

    /// Sets elements to zero whose optimizer state another peer saves.
    fn zero_unowned(&self, numbers: &mut [f32], me: Rank) {
        match &self.unit.method {
            SyncMethod::ServedRows { owners } => {
                let (rows, width) = (self.piece.rows, self.piece.width);
                for row in (0..rows).filter(|row| owners[row % owners.len()] != me) {
                    numbers[row * width..(row + 1) * width].fill(0.0);
                }
            }
            _ if me == self.unit.first_updater() => {}
            _ => numbers.fill(0.0),
        }
    }

    fn is_saved_by(&self, me: Rank) -> bool {
        me == self.unit.first_updater()
    }
}

/// Key of the opaque state of a piece.
fn piece_key(piece: &VariablePiece, plan: &SyncPlan) -> String {
    format!("{}#{}", plan.name(piece.variable), piece.shard)
}

/// Contents of a checkpoint besides the snapshot of the pieces.
pub(crate) struct CheckpointContents<'a, K> {
    pub(crate) step: u64,
    pub(crate) attachments: &'a Attachments,
    pub(crate) kernel: &'a K,
    pub(crate) plan: &'a SyncPlan,
    pub(crate) strategy: &'a StrategyRecord,
}

/// Folder of a checkpoint, and the file system that it lies on.
#[derive(Clone, Copy)]
pub(crate) struct CheckpointFolder<'a> {
    pub(crate) files: &'a SharedFileSystem,
    pub(crate) path: &'a Path,
}

impl CheckpointFolder<'_> {
    fn failed(self, problem: CheckpointProblem) -> hemiola_cluster::Error {
        let CheckpointProblem { text, is_external } = problem;
        let kind = if is_external { ErrorKind::External } else { ErrorKind::Usage };
        Error::Checkpoint { path: self.path.to_owned(), problem: text, kind }.into()
    }
}

/// Reason why a checkpoint cannot be written or read. Peer 0 sends it to the others.
#[derive(Clone, Serialize, Deserialize)]
struct CheckpointProblem {
    text: String,
    /// The system failed. Otherwise, the user has to change something, also where a file is damaged.
    is_external: bool,
}

impl CheckpointProblem {
    fn usage(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_external: false }
    }
}

impl From<hemiola_array::Error> for CheckpointProblem {
    fn from(error: hemiola_array::Error) -> Self {
        Self { text: error.to_string(), is_external: error.kind() == ErrorKind::External }
    }
}

/// *Collective.* Peer 0 writes; the other peers send it the state that they own.
pub(crate) fn save<K: StateArchive>(
    cluster: &Cluster,
    folder: CheckpointFolder<'_>,
    saved: &CheckpointContents<'_, K>,
    snapshot: &[PieceSnapshot<K::State>],
) -> Result<()> {
    let me = cluster.rank();
    let collectives = cluster.communicator()?;
    let mut foreign = BTreeMap::new();
    let moments = saved.kernel.moment_count();
    if moments.is_none() {
        let own = snapshot.iter().zip(OwnedPiece::all(saved.plan)).filter(|(_, owned)| owned.is_saved_by(me));
        let mine: std::result::Result<Vec<_>, String> = own
            .filter_map(|(snapshot, owned)| Some((snapshot.state.as_ref()?, owned.piece)))
            .map(|(state, piece)| Ok((piece_key(piece, saved.plan), saved.kernel.save_opaque(state)?)))
            .collect();
        let all = cluster.all_gather(mine)?;
        for part in all {
            foreign.extend(part.map_err(|problem| folder.failed(CheckpointProblem::usage(problem)))?);
        }
    }
    let mut arrays: Vec<SavedArray> = Vec::new();
    for (index, variable) in saved.plan.model.variables.iter().enumerate() {
        let (rows, width) = variable.matrix();
        let pieces = || snapshot.iter().zip(OwnedPiece::all(saved.plan));
        let own = || pieces().filter(|(_, owned)| owned.piece.variable.index() == index);
        let mut values = vec![0.0; rows * width];
        own().for_each(|(snapshot, owned)| owned.piece.layout.scatter(&snapshot.values, &mut values));
        arrays.push((format!("values.{}", variable.name), [rows, width], values));
        for moment in 0..moments.unwrap_or(0) {
            let mut whole = vec![0.0; rows * width];
            for (snapshot, owned) in own() {
                let own = snapshot.state.as_ref().and_then(|state| saved.kernel.moment(state, moment));
                let mut own = own.map_or_else(|| vec![0.0; snapshot.values.len()], <[f32]>::to_vec);
                owned.zero_unowned(&mut own, me);
                owned.piece.layout.scatter(&own, &mut whole);
            }
            // Every element is nonzero on its owner only, so the sum is the owner's value.
            collectives.reduce(Rank::ROOT, &mut whole, ReduceOp::Sum)?;
            arrays.push((format!("moment-{moment}.{}", variable.name), [rows, width], whole));
        }
    }
    peer_arrays::add(cluster, &collectives, saved, snapshot, &mut arrays)?;
    let notes = SavedNotes {
        foreign,
        updates: gather_updates(cluster, saved, snapshot)?,
        // They are equal on all peers.
        compressors: snapshot
            .iter()
            .zip(&saved.plan.pieces)
            .filter_map(|(snapshot, piece)| Some((piece_key(piece, saved.plan), snapshot.compressor.clone()?)))
            .collect(),
    };
    let written = if cluster.is_root() { write(folder, saved, notes, arrays).err() } else { None };
    let problem = cluster.broadcast(written.map(CheckpointProblem::from))?;
    problem.map_or(Ok(()), |problem| Err(folder.failed(problem)))
}

/// *Collective.* Returns the numbers of updates that differ from the number of steps, by variable.
fn gather_updates<K: StateArchive>(
    cluster: &Cluster,
    saved: &CheckpointContents<'_, K>,
    snapshot: &[PieceSnapshot<K::State>],
) -> Result<BTreeMap<String, u64>> {
    let count = |snapshot: &PieceSnapshot<K::State>| saved.kernel.update_count(snapshot.state.as_ref()?);
    let pieces = snapshot.iter().zip(&saved.plan.pieces);
    let counts = pieces.filter_map(|(snapshot, piece)| Some((piece.variable.index() as u64, count(snapshot)?)));
    let mine: Vec<(u64, u64)> = counts.filter(|(_, count)| *count != saved.step).collect();
    let mut updates = BTreeMap::new();
    for (variable, count) in cluster.all_gather(mine)?.into_iter().flatten() {
        let most: &mut u64 = updates.entry(saved.plan.name(VariableId::new(variable as usize)).to_owned()).or_default();
        *most = count.max(*most);
    }
    Ok(updates)
}

/// Parts of the note that peers have gathered.
struct SavedNotes {
    foreign: BTreeMap<String, Vec<NamedArray>>,
    updates: BTreeMap<String, u64>,
    compressors: BTreeMap<String, Compressor>,
}

fn write<K: StateArchive>(
    folder: CheckpointFolder<'_>,
    saved: &CheckpointContents<'_, K>,
    SavedNotes { foreign, updates, compressors }: SavedNotes,
    arrays: Vec<SavedArray>,
) -> hemiola_array::Result<()> {
    let saving = PartWriter::begin_on(folder.files, folder.path)?;
    let mut manifest = Manifest { metadata: saved.attachments.clone(), ..Manifest::default() };
    let (step, variables) = (saved.step, saved.plan.model.clone());
    let (optimizer, strategy) = (saved.kernel.rule_name(), Some(saved.strategy.clone()));
    let note = NetNote { format: FORMAT, step, optimizer, variables, strategy, foreign, updates, compressors };
    manifest.metadata.insert(NOTE.to_owned(), serde_json::to_value(note).expect("a note is plain data"));
    for (name, shape, numbers) in arrays {
        let array = DenseArray::from_cells(Shape::new(shape), &numbers)?;
        manifest.add_dense::<f32, 2>(&name, array.shape(), vec![saving.write_dense(&name, 0, 0, &array)?]);
    }
    saving.commit(&manifest)
}

/// Contents of a checkpoint after reading.
pub(crate) struct RestoredModel {
    pub(crate) step: u64,
    /// Values of each variable.
    pub(crate) values: Vec<Vec<f32>>,
    /// Values that were stored with the checkpoint.
    pub(crate) attachments: Attachments,
    /// Strategy of the run that saved it; `None` in older checkpoints.
    pub(crate) strategy: Option<StrategyRecord>,
    /// Moment vectors, by moment and variable.
    moments: Vec<Vec<Vec<f32>>>,
    foreign: BTreeMap<String, Vec<NamedArray>>,
    updates: BTreeMap<String, u64>,
    compressors: BTreeMap<String, Compressor>,
    /// On the root until the arrays are sent to all: arrays with a row per peer, by name.
    read_rows: BTreeMap<String, (usize, Vec<f32>)>,
    /// Arrays with a row per peer, by name.
    rows: BTreeMap<String, PeerRows>,
}

/// Facts of a checkpoint that peer 0 sends to the others, besides the arrays.
#[derive(Serialize, Deserialize)]
struct RestoredFacts {
    step: u64,
    vectors: usize,
    foreign: BTreeMap<String, Vec<NamedArray>>,
    updates: BTreeMap<String, u64>,
    compressors: BTreeMap<String, Compressor>,
    /// Arrays with a row per peer: name, number of rows, and length of a row.
    rows: Vec<(String, usize, usize)>,
    /// As text, because JSON describes itself, which the wire format cannot carry.
    attachments: String,
    /// As text, too: the wire format does not support the tagged enums of a strategy.
    strategy: String,
}

/// *Collective.* Peer 0 reads and broadcasts. Returns `None` if there is no checkpoint.
pub(crate) fn load<K: StateArchive>(
    cluster: &Cluster,
    folder: CheckpointFolder<'_>,
    variables: &ModelSpec,
    kernel: &K,
) -> Result<Option<RestoredModel>> {
    let read = if cluster.is_root() { Some(read(cluster, folder, variables, kernel)) } else { None };
    let facts = read.as_ref().map(|read| {
        let facts = |restored: &RestoredModel| RestoredFacts {
            step: restored.step,
            vectors: restored.moments.len(),
            foreign: restored.foreign.clone(),
            updates: restored.updates.clone(),
            compressors: restored.compressors.clone(),
            rows: restored
                .read_rows
                .iter()
                .map(|(name, (rows, numbers))| (name.clone(), *rows, numbers.len() / rows.max(&1)))
                .collect(),
            attachments: serde_json::to_string(&restored.attachments).expect("attachments are plain data"),
            strategy: serde_json::to_string(&restored.strategy).expect("a strategy is plain data"),
        };
        read.as_ref().map(|restored| restored.as_ref().map(facts)).map_err(CheckpointProblem::clone)
    });
    let Some(facts) = cluster.broadcast(facts)? else { return Ok(None) };
    let Some(facts) = facts.map_err(|problem| folder.failed(problem))? else { return Ok(None) };
    let RestoredFacts { step, vectors, foreign, updates, compressors, rows, attachments, strategy } = facts;
    let mut restored = if let Some(Ok(Some(restored))) = read {
        restored
    } else {
        let empty = || variables.variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
        let parse = |error: serde_json::Error| folder.failed(CheckpointProblem::usage(format!("its notes: {error}")));
        RestoredModel {
            step,
            values: empty(),
            attachments: serde_json::from_str(&attachments).map_err(parse)?,
            strategy: serde_json::from_str(&strategy).map_err(parse)?,
            moments: (0..vectors).map(|_| empty()).collect(),
            foreign,
            updates,
            compressors,
            read_rows: BTreeMap::new(),
            rows: BTreeMap::new(),
        }
    };
    let collectives = cluster.communicator()?;
    for numbers in restored.values.iter_mut().chain(restored.moments.iter_mut().flatten()) {
        collectives.broadcast(Rank::ROOT, numbers)?;
    }
    for (name, count, length) in rows {
        let (_, all) = restored.read_rows.remove(&name).unwrap_or_default();
        let rows = peer_arrays::scatter(cluster, &collectives, (count, length), &all)?;
        restored.rows.insert(name, rows);
    }
    Ok(Some(restored))
}

fn read<K: StateArchive>(
    cluster: &Cluster,
    folder: CheckpointFolder<'_>,
    variables: &ModelSpec,
    kernel: &K,
) -> std::result::Result<Option<RestoredModel>, CheckpointProblem> {
    if !PartReader::exists_on(folder.files, folder.path) {
        return Ok(None);
    }
    let mut warn = |warning: &str| cluster.warn(warning);
    let read = |loading: &PartReader| read_generation(loading, variables, kernel);
    PartReader::read_intact(folder.files, folder.path, &mut warn, read).map(Some)
}

fn read_generation<K: StateArchive>(
    loading: &PartReader,
    variables: &ModelSpec,
    kernel: &K,
) -> std::result::Result<RestoredModel, CheckpointProblem> {
    let mut attachments = loading.manifest().metadata.clone();
    let problem = |text: &str| CheckpointProblem::usage(text);
    let note =
        attachments.remove(NOTE).ok_or_else(|| problem("it was not written by a trainer; choose another folder"))?;
    let note: NetNote = serde_json::from_value(note)
        .map_err(|error| CheckpointProblem::usage(format!("its note is damaged: {error}")))?;
    if note.format != FORMAT {
        return Err(CheckpointProblem::usage(format!(
            "it has format {}, and this version reads format {FORMAT}; use the version that wrote it",
            note.format
        )));
    }
    if let Some(difference) = variables.first_difference(&note.variables) {
        return Err(CheckpointProblem::usage(format!(
            "it was made with another model: {difference}; build that model, or choose another folder"
        )));
    }
    if note.optimizer != kernel.rule_name() {
        let (saved, now) = (note.optimizer, kernel.rule_name());
        return Err(CheckpointProblem::usage(format!(
            "it was made with the optimizer `{saved}`, and this is `{now}`; use that optimizer, or choose another folder"
        )));
    }
    let of_all = |prefix: String| -> std::result::Result<Vec<Vec<f32>>, CheckpointProblem> {
        let arrays = variables.variables.iter();
        arrays.map(|variable| read_array(loading, &format!("{prefix}.{}", variable.name), variable.matrix())).collect()
    };
    let values = of_all("values".to_owned())?;
    let vectors = kernel.moment_count().unwrap_or(0);
    let moments = (0..vectors)
        .map(|vector| of_all(format!("moment-{vector}")))
        .collect::<std::result::Result<_, CheckpointProblem>>()?;
    let NetNote { step, strategy, foreign, updates, compressors, .. } = note;
    let (read_rows, rows) = (read_peer_arrays(loading, variables)?, BTreeMap::new());
    Ok(RestoredModel { step, values, attachments, strategy, moments, foreign, updates, compressors, read_rows, rows })
}

/// Reads the arrays that have a row per peer, with their number of rows.
fn read_peer_arrays(
    loading: &PartReader,
    variables: &ModelSpec,
) -> std::result::Result<BTreeMap<String, (usize, Vec<f32>)>, CheckpointProblem> {
    let mut all = BTreeMap::new();
    for variable in &variables.variables {
        let suffix = format!(".{}", variable.name);
        let is_of_peers = |name: &&String| {
            let prefix = name.strip_suffix(&suffix);
            prefix.is_some_and(|prefix| [RESIDUAL, COPY].contains(&prefix) || prefix.starts_with(COPY_MOMENT))
        };
        for name in loading.manifest().arrays.keys().filter(is_of_peers) {
            let (_, array) = loading.read_dense::<f32, 2>(name, 0)?;
            let [rows, length] = array.shape().extents();
            if rows == 0 || length as u64 != variable.elements() {
                let problem = format!("array `{name}` has the shape {:?}", array.shape().extents());
                return Err(CheckpointProblem::usage(problem));
            }
            all.insert(name.clone(), (rows, read_array(loading, name, (rows, length))?));
        }
    }
    Ok(all)
}

/// Reads a matrix of this shape, all of whose elements must be finite.
fn read_array(
    loading: &PartReader,
    name: &str,
    (rows, width): (usize, usize),
) -> std::result::Result<Vec<f32>, CheckpointProblem> {
    let (_, array) = loading.read_dense::<f32, 2>(name, 0)?;
    if array.shape().extents() != [rows, width] {
        return Err(CheckpointProblem::usage(format!("array `{name}` has the shape {:?}", array.shape().extents())));
    }
    let cells = array.to_cells();
    match cells.iter().find_map(hemiola_array::save::TensorElement::non_finite) {
        Some(value) => {
            Err(CheckpointProblem::usage(format!("array `{name}` has an element `{value}`, which no net can use")))
        }
        None => Ok(cells),
    }
}

impl RestoredModel {
    /// Returns the values of each variable on this peer: where copies differed, its own ones under
    /// gossip averaging on as many peers, and their mean otherwise.
    pub(crate) fn values_for(&mut self, plan: &SyncPlan) -> Vec<Vec<f32>> {
        let mut values = std::mem::take(&mut self.values);
        for (index, whole) in values.iter_mut().enumerate() {
            let variable = VariableId::new(index);
            if let Some(rows) = self.rows.get(&format!("{COPY}.{}", plan.name(variable))) {
                *whole = own_or_mean(rows, plan, variable);
            }
        }
        values
    }

    /// Returns what compressors had not sent, as the share of this peer.
    pub(crate) fn feedback(&self, plan: &SyncPlan) -> ErrorFeedback {
        let mut feedback = ErrorFeedback::default();
        for (index, piece) in plan.pieces.iter().enumerate() {
            let mut own = Vec::new();
            if let Some(rows) = self.rows.get(&format!("{RESIDUAL}.{}", plan.name(piece.variable))) {
                piece.layout.gather(&rows.share(plan.peers), &mut own);
            }
            feedback.carried.push(own);
            if let Some(compressor) = self.compressors.get(&piece_key(piece, plan)) {
                feedback.saved.push((PieceId::new(index), compressor.clone()));
            }
        }
        feedback
    }

    /// Returns the optimizer state of every piece.
    pub(crate) fn piece_states<K: StateArchive>(mut self, plan: &SyncPlan, kernel: &K) -> Result<Vec<K::State>> {
        let mut states = Vec::with_capacity(plan.pieces.len());
        for (vector, moment) in self.moments.iter_mut().enumerate() {
            for (index, whole) in moment.iter_mut().enumerate() {
                let variable = VariableId::new(index);
                if let Some(rows) = self.rows.get(&format!("{COPY_MOMENT}-{vector}.{}", plan.name(variable))) {
                    *whole = own_or_mean(rows, plan, variable);
                }
            }
        }
        for piece in &plan.pieces {
            let own = |vector: &Vec<Vec<f32>>| {
                let mut own = Vec::with_capacity(piece.layout.len());
                piece.layout.gather(&vector[piece.variable], &mut own);
                own
            };
            let updates = self.updates.get(plan.name(piece.variable)).copied().unwrap_or(self.step);
            let mut state = kernel.state_of(updates, self.moments.iter().map(own).collect());
            if let Some(saved) = self.foreign.remove(&piece_key(piece, plan)) {
                kernel.load_opaque(saved, &mut state).map_err(Error::Failed)?;
            }
            states.push(state);
        }
        if let Some(key) = self.foreign.keys().next() {
            let feature = format!("the optimizer state of `{key}`");
            let reason =
                "the checkpoint was made with a strategy that partitions variables differently; use that strategy"
                    .to_owned();
            return Err(Error::Unsupported { feature, reason }.into());
        }
        Ok(states)
    }
}

/// Returns the row of this peer where the variable is averaged by gossip, and the mean of all rows
/// otherwise.
fn own_or_mean(rows: &PeerRows, plan: &SyncPlan, variable: VariableId) -> Vec<f32> {
    match &rows.own {
        Some(own) if plan.is_gossip(variable) => own.clone(),
        _ => rows.mean(),
    }
}
