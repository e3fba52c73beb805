//! Description and weights of a saved net.
//!
//! **Invariant:** a net that is created from a folder has the weights of all its variables from
//! there; sizes that contradict the saved weights are an error before any memory is taken for them.

use super::description::DESCRIPTION_KEY;
use super::{ImageClassifier, LanguageModel, NetDescription, RatingModel};
use crate::error::Error;
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hemiola_array::files::OsFileSystem;
use hemiola_array::save::{PartReader, TensorElement};
use hemiola_strategy::ModelSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folder of the checkpoint, within that of the net.
const CHECKPOINT: &str = "net";
/// Manifest key of the note of the trainer, with the variables.
const NOTE_KEY: &str = "net";

/// Values of a variable of a net.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedWeights {
    /// Extents; a linear layer has `[inputs, outputs]`.
    pub shape: Vec<usize>,
    /// Elements in row-major order.
    pub values: Vec<f32>,
}

/// A net that was saved by [`NetFit`](crate::training::NetFit): its description and its weights.
#[derive(Clone, Debug)]
pub struct SavedNet {
    folder: PathBuf,
    description: NetDescription,
    weights: BTreeMap<String, SavedWeights>,
    warning: Option<String>,
}

impl SavedNet {
    /// Returns whether the folder has a saved net.
    #[must_use]
    pub fn exists(folder: &Path) -> bool {
        PartReader::exists(&folder.join(CHECKPOINT))
    }

    /// Reads the net of a folder: the newest checkpoint, or the one before it if the newest is
    /// damaged.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        if !Self::exists(folder) {
            return Err(Error::NoSavedNet { folder: folder.to_owned() });
        }
        let mut warning = None;
        let mut warn = |text: &str| warning = Some(text.to_owned());
        let files = OsFileSystem::shared();
        let read = |reader: &PartReader| read(folder, reader);
        let (description, weights) = PartReader::read_intact(&files, &folder.join(CHECKPOINT), &mut warn, read)?;
        Ok(Self { folder: folder.to_owned(), description, weights, warning })
    }

    /// Returns the architecture and the input of the net.
    #[must_use]
    pub fn description(&self) -> &NetDescription {
        &self.description
    }

    /// Returns the weights by the path of their variable, such as `hidden.0.weight`.
    #[must_use]
    pub fn weights(&self) -> &BTreeMap<String, SavedWeights> {
        &self.weights
    }

    /// Returns the reason why an older checkpoint than the newest was read, if it was.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Creates the image classifier on `device`, or returns an error if the net is of another kind.
    pub fn image_classifier(&self, device: &Device) -> Result<ImageClassifier, Error> {
        ImageClassifier::new(self, device)
    }

    /// Creates the language model on `device`, or returns an error if the net is of another kind.
    pub fn language_model(&self, device: &Device) -> Result<LanguageModel, Error> {
        LanguageModel::new(self, device)
    }

    /// Creates the model of ratings on `device`, or returns an error if the net is of another kind.
    pub fn rating_model(&self, device: &Device) -> Result<RatingModel, Error> {
        RatingModel::new(self, device)
    }

    /// Returns the error for a net that is not of the wanted kind.
    pub(super) fn other_kind(&self, needed: &'static str) -> Error {
        let kind = self.description.architecture.kind();
        Error::OtherKind { folder: self.folder.clone(), kind, needed }
    }

    /// Returns the error for a contradiction within the folder.
    pub(super) fn damaged(&self, problem: impl Into<String>) -> Error {
        Error::DamagedNet { folder: self.folder.clone(), problem: problem.into() }
    }

    /// Replaces the parameters of a new net by the saved ones.
    pub(super) fn restore<M: Module>(&self, net: M, device: &Device) -> Result<M, Error> {
        let mut loader = WeightLoader { weights: &self.weights, device, path: Vec::new(), problem: None, used: 0 };
        let net = net.map(&mut loader);
        if let Some(problem) = loader.problem {
            return Err(self.damaged(problem));
        }
        if loader.used != self.weights.len() {
            let problem = format!("it has {} variables, and the net has {}", self.weights.len(), loader.used);
            return Err(self.damaged(problem));
        }
        Ok(net)
    }
}

/// Reads description and weights of one generation.
fn read(folder: &Path, reader: &PartReader) -> Result<(NetDescription, BTreeMap<String, SavedWeights>), Error> {
    let damaged = |problem: String| Error::DamagedNet { folder: folder.to_owned(), problem };
    let metadata = &reader.manifest().metadata;
    let missing = || Error::OldNet { folder: folder.to_owned() };
    let description = metadata.get(DESCRIPTION_KEY).ok_or_else(missing)?;
    let description: NetDescription = serde_json::from_value(description.clone())
        .map_err(|error| damaged(format!("its `{DESCRIPTION_KEY}`: {error}")))?;
    let variables = metadata.get(NOTE_KEY).and_then(|note| note.get("variables")).cloned().unwrap_or_default();
    let variables: ModelSpec =
        serde_json::from_value(variables).map_err(|error| damaged(format!("its variables: {error}")))?;
    let saved: u128 = variables.variables.iter().map(|variable| u128::from(variable.elements())).sum();
    let architecture = &description.architecture;
    if let Some(problem) = architecture.problem() {
        return Err(damaged(problem));
    }
    if architecture.parameters() != saved {
        let expected = architecture.parameters();
        return Err(damaged(format!("its weights are {saved} numbers, and its sizes make {expected}")));
    }
    let mut weights = BTreeMap::new();
    for variable in variables.variables {
        let (rows, width) = variable.matrix();
        let name = format!("values.{}", variable.name);
        let (_, array) = reader.read_dense::<f32, 2>(&name, 0)?;
        let values = array.to_cells();
        if array.shape().extents() != [rows, width] {
            return Err(damaged(format!("array `{name}` has the shape {:?}", array.shape().extents())));
        }
        if let Some(value) = values.iter().find_map(TensorElement::non_finite) {
            return Err(damaged(format!("array `{name}` has an element `{value}`, which no net can use")));
        }
        weights.insert(variable.name, SavedWeights { shape: variable.shape, values });
    }
    Ok((description, weights))
}

/// Mapper that replaces every parameter by the saved one of its path.
struct WeightLoader<'a> {
    weights: &'a BTreeMap<String, SavedWeights>,
    device: &'a Device,
    path: Vec<String>,
    problem: Option<String>,
    used: usize,
}

impl ModuleMapper for WeightLoader<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let shape = param.lazy_shape().to_vec();
        let Some(saved) = self.weights.get(&name) else {
            self.problem.get_or_insert(format!("the weights of `{name}` are missing"));
            return param;
        };
        if saved.shape != shape {
            self.problem.get_or_insert(format!("`{name}` has the shape {:?}, and {shape:?} is expected", saved.shape));
            return param;
        }
        self.used += 1;
        Param::from_data(TensorData::new(saved.values.clone(), shape), self.device)
    }
}
