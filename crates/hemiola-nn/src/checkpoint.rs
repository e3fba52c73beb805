//! A training on disk: values, what the optimizer remembers, and how many steps there were.
//!
//! The folder is a save of `hemiola-array` (safetensors files and a manifest, see its `save` module): an array `values.NAME` for each variable as a matrix, `memory-K.NAME` for each vector that the optimizer keeps,
//! and a note. **Invariant:** nothing in it depends on peers or strategy, so that any number of peers with any strategy goes on from it; only what an optimizer of Burn remembers is by piece.

use crate::error::Error;
use crate::exchange::{Holdings, Piece, Unit, Way};
use crate::optimizer::{self, Optimizer};
use hemiola_array::save::{Loading, Manifest, Saving};
use hemiola_array::{Dense, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{MakeCollectives, Operator};
use hemiola_core::Rank;
use hemiola_strategy::Model;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the note.
const NOTE: &str = "net";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Note {
    format: u32,
    step: u64,
    optimizer: String,
    variables: Model,
    /// What an optimizer of Burn remembers, by variable and shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    foreign: BTreeMap<String, Vec<optimizer::Saved>>,
}

/// Where a piece is in the whole, and who has the last word on it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    variable: usize,
    shard: usize,
    width: usize,
    rows: usize,
    way: Way,
    block: crate::exchange::Block,
}

impl Place {
    pub(crate) fn new(piece: &Piece, place: usize, units: &[Unit]) -> Self {
        let unit = units.iter().find(|unit| unit.pieces.contains(&place)).expect("every piece is of a unit");
        let Piece { variable, shard, width, rows, block, .. } = piece;
        Self {
            variable: *variable,
            shard: *shard,
            width: *width,
            rows: *rows,
            way: unit.way.clone(),
            block: block.clone(),
        }
    }

    /// Sets numbers to zero that another peer has the last word on.
    fn keep_own(&self, numbers: &mut [f32], me: Rank) {
        match &self.way {
            Way::Sum { .. } | Way::Factors | Way::Mix { .. } if me == Rank::ROOT => {}
            Way::Served { owner } if *owner == me => {}
            Way::Rows { owners } => {
                for row in (0..self.rows).filter(|row| owners[row % owners.len()] != me) {
                    numbers[row * self.width..(row + 1) * self.width].fill(0.0);
                }
            }
            _ => numbers.fill(0.0),
        }
    }

    fn is_led_by(&self, me: Rank) -> bool {
        match &self.way {
            Way::Served { owner } => *owner == me,
            _ => me == Rank::ROOT,
        }
    }

    fn key(&self, variables: &Model) -> String {
        format!("{}#{}", variables.variables[self.variable].name, self.shard)
    }
}

/// What is saved besides holdings.
pub(crate) struct Saved<'a> {
    pub(crate) step: u64,
    pub(crate) optimizer: &'a Optimizer,
    pub(crate) variables: &'a Model,
    pub(crate) places: &'a [Place],
}

fn rule(optimizer: &Optimizer) -> String {
    // Rates may change from run to run; what is remembered does not depend on them.
    let text = format!("{optimizer:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

fn failed(folder: &Path, problem: impl Into<String>) -> hemiola_cluster::Error {
    Error::Checkpoint { path: folder.to_owned(), problem: problem.into() }.into()
}

/// *Collective.* The first peer writes; the others tell it what they have.
pub(crate) fn save(cluster: &Cluster, folder: &Path, saved: &Saved<'_>, holdings: &Holdings) -> Result<()> {
    let me = cluster.rank();
    let collectives = cluster.collectives()?;
    let mut foreign = BTreeMap::new();
    let moments = saved.optimizer.moments();
    if moments.is_none() {
        let own = holdings.pieces.iter().zip(saved.places).filter(|(_, place)| place.is_led_by(me));
        let mine: std::result::Result<Vec<_>, String> = own
            .filter_map(|((_, state), place)| Some((state.as_ref()?, place)))
            .map(|(state, place)| Ok((place.key(saved.variables), saved.optimizer.save_foreign(state)?)))
            .collect();
        let all = cluster.all_gather(mine)?;
        for part in all {
            foreign.extend(part.map_err(|problem| failed(folder, problem))?);
        }
    }
    let mut arrays: Vec<(String, [usize; 2], Vec<f32>)> = Vec::new();
    for (place, variable) in saved.variables.variables.iter().enumerate() {
        let (rows, width) = variable.matrix();
        let own = || holdings.pieces.iter().zip(saved.places).filter(|(_, piece)| piece.variable == place);
        let mut values = vec![0.0; rows * width];
        own().for_each(|((numbers, _), piece)| piece.block.scatter(numbers, &mut values));
        arrays.push((format!("values.{}", variable.name), [rows, width], values));
        for moment in 0..moments.unwrap_or(0) {
            let mut whole = vec![0.0; rows * width];
            for ((numbers, state), piece) in own() {
                let kept = state.as_ref().and_then(|state| state.moments.get(moment));
                let mut kept = kept.cloned().unwrap_or_else(|| vec![0.0; numbers.len()]);
                piece.keep_own(&mut kept, me);
                piece.block.scatter(&kept, &mut whole);
            }
            // Each number is somebody's, and zero with all others: the sum is that number.
            collectives.reduce(Rank::ROOT, &mut whole, Operator::Sum)?;
            arrays.push((format!("memory-{moment}.{}", variable.name), [rows, width], whole));
        }
    }
    let written = if cluster.is_root() { write(folder, saved, foreign, arrays).err() } else { None };
    let problem = cluster.broadcast(written.map(|error| error.to_string()))?;
    problem.map_or(Ok(()), |problem| Err(failed(folder, problem)))
}

fn write(
    folder: &Path,
    saved: &Saved<'_>,
    foreign: BTreeMap<String, Vec<optimizer::Saved>>,
    arrays: Vec<(String, [usize; 2], Vec<f32>)>,
) -> hemiola_array::Result<()> {
    let saving = Saving::begin(folder)?;
    let mut manifest = Manifest::default();
    let (step, variables) = (saved.step, saved.variables.clone());
    let note = Note { format: FORMAT, step, optimizer: rule(saved.optimizer), variables, foreign };
    manifest.notes.insert(NOTE.to_owned(), serde_json::to_value(note).expect("plain data"));
    for (name, shape, numbers) in arrays {
        let array = Dense::from_cells(Shape::new(shape.map(|extent| extent as u64)), &numbers)?;
        manifest.add_dense::<f32, 2>(&name, array.shape(), vec![saving.write_dense(&name, 0, 0, &array)?]);
    }
    saving.commit(&manifest)
}

/// What was saved.
pub(crate) struct Restored {
    pub(crate) step: u64,
    /// By variable.
    pub(crate) values: Vec<Vec<f32>>,
    /// By vector, by variable.
    memory: Vec<Vec<Vec<f32>>>,
    foreign: BTreeMap<String, Vec<optimizer::Saved>>,
}

/// *Collective.* The first peer reads; the others hear of it. Nothing if there is no checkpoint.
pub(crate) fn load(
    cluster: &Cluster,
    folder: &Path,
    variables: &Model,
    optimizer: &Optimizer,
) -> Result<Option<Restored>> {
    let read = if cluster.is_root() { Some(read(folder, variables, optimizer)) } else { None };
    // What it is, without its numbers.
    let facts = read.as_ref().map(|read| {
        let facts = |restored: &Restored| (restored.step, restored.memory.len(), restored.foreign.clone());
        read.as_ref().map(|restored| restored.as_ref().map(facts)).map_err(Clone::clone)
    });
    let Some(facts) = cluster.broadcast(facts)? else { return Ok(None) };
    let Some((step, vectors, foreign)) = facts.map_err(|problem| failed(folder, problem))? else { return Ok(None) };
    let mut restored = if let Some(Ok(Some(restored))) = read {
        restored
    } else {
        let empty = || variables.variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
        Restored { step, values: empty(), memory: (0..vectors).map(|_| empty()).collect(), foreign }
    };
    let collectives = cluster.collectives()?;
    for numbers in restored.values.iter_mut().chain(restored.memory.iter_mut().flatten()) {
        collectives.broadcast(Rank::ROOT, numbers)?;
    }
    Ok(Some(restored))
}

fn read(folder: &Path, variables: &Model, optimizer: &Optimizer) -> std::result::Result<Option<Restored>, String> {
    if !folder.join("manifest.json").exists() {
        return Ok(None);
    }
    let text = |error: hemiola_array::Error| error.to_string();
    let loading = Loading::open(folder).map_err(text)?;
    let note = loading.manifest().notes.get(NOTE).ok_or("it is the save of something else than a net")?;
    let note: Note = serde_json::from_value(note.clone()).map_err(|error| format!("its note is damaged: {error}"))?;
    if note.format != FORMAT {
        return Err(format!("it has format {}, and this version reads format {FORMAT}", note.format));
    }
    if let Some(difference) = variables.first_difference(&note.variables) {
        return Err(format!("it was made with another model: {difference}"));
    }
    if note.optimizer != rule(optimizer) {
        let (saved, now) = (note.optimizer, rule(optimizer));
        return Err(format!(
            "it was made with the optimizer {saved}, and this is {now}; take that one, or begin in another folder"
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
    let memory =
        (0..vectors).map(|vector| of_all(format!("memory-{vector}"))).collect::<std::result::Result<_, String>>()?;
    Ok(Some(Restored { step: note.step, values, memory, foreign: note.foreign }))
}

impl Restored {
    /// Gives every piece what was remembered of it.
    pub(crate) fn put_states(mut self, pieces: &mut [Piece], variables: &Model, optimizer: &Optimizer) -> Result<()> {
        for piece in pieces {
            piece.state.updates = self.step;
            for vector in &self.memory {
                let mut own = Vec::with_capacity(piece.block.len());
                piece.block.gather(&vector[piece.variable], &mut own);
                piece.state.moments.push(own);
            }
            let key = format!("{}#{}", variables.variables[piece.variable].name, piece.shard);
            if let Some(saved) = self.foreign.remove(&key) {
                optimizer.load_foreign(saved, &mut piece.state).map_err(Error::Failed)?;
            }
        }
        if let Some(key) = self.foreign.keys().next() {
            let what = format!("what an optimizer of Burn remembers of {key}");
            let reason =
                "the checkpoint was made with a strategy that cuts variables in another way; take that one".to_owned();
            return Err(Error::Unsupported { what, reason }.into());
        }
        Ok(())
    }
}
