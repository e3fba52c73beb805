//! `hemiola export`: writes a trained model for other programs.
//!
//! | file | concept |
//! |---|---|
//! | `linear_graph` | ONNX graph of a linear model |
//! | `features` | ONNX nodes for the stored preparation of features |
//! | `super::nets::export` | safetensors and ONNX of nets |

mod features;
mod linear_graph;

use super::example_models::ExampleModelKind;
use super::nets;
use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::output;
use crate::output::{OutputCompression, StagedFile};
use crate::readable;
use clap::{Args, ValueHint};
use hemiola_models::Predictor as _;
use hemiola_models::linear::LinearModel;
use hemiola_models::ridge::RidgeModel;
use hemiola_models::softmax::SoftmaxModel;
use hemiola_models::sparse::SparseModel;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola export net net.safetensors          weights of a net, for load_state_dict of PyTorch
  hemiola export net net.onnx                 an mlp or cnn, with the normalization of images
  hemiola export model model.onnx             a linear model, with its scaling of features

The format is that of the file name. docs/guides/export.md has the PyTorch module of each kind of net, and the inputs and outputs \
of ONNX files.";

/// Arguments of `hemiola export`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExportArgs {
    /// Folder of the trained model.
    #[arg(value_name = "MODEL", value_hint = ValueHint::DirPath)]
    model: PathBuf,

    /// File to write: `.safetensors` or `.onnx`.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// Format of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExportFormat {
    Safetensors,
    Onnx,
}

impl ExportFormat {
    /// Returns the format of a file name.
    fn of(file: &Path) -> anyhow::Result<Self> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("safetensors") => Ok(Self::Safetensors),
            Some("onnx") => Ok(Self::Onnx),
            _ => {
                let message = format!("`{}` is no file of a known format", file.display());
                let hint = "end its name with `.safetensors` (nets, for PyTorch) or `.onnx`";
                Err(CommandError::usage(message).hint(hint).into())
            }
        }
    }
}

impl ExportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { model, file } = self;
        let format = ExportFormat::of(&file)?;
        let bytes = if nets::is_net(&model) {
            nets::export_net(&model, format)?
        } else {
            export_model(&ModelArgs::of(model), format)?
        };
        let mut staged = StagedFile::create(&file, OutputCompression::None)?;
        staged.write(&bytes)?;
        staged.finish()?.publish()?;
        output::note(&format!("wrote {} to `{}`", readable::bytes(bytes.len() as u64), file.display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Encodes a model other than a net.
fn export_model(model: &ModelArgs, format: ExportFormat) -> anyhow::Result<Vec<u8>> {
    let family = model.family()?;
    let folder = model.model.display();
    if format == ExportFormat::Safetensors {
        let message = format!("`{folder}` is no net, and only nets are exported for PyTorch");
        let hint = "the arrays in its folder are safetensors files already; or export a linear model as `.onnx`";
        return Err(CommandError::usage(message).hint(hint).into());
    }
    match family {
        ModelFamily::Classes => model.with_model(LinearModel::load, |_, model| linear_graph::of_classifier(model)),
        ModelFamily::Sparse => model.with_model(SparseModel::load, |_, model| linear_graph::of_sparse(model)),
        ModelFamily::Examples(ExampleModelKind::Ridge) => {
            model.with_model(RidgeModel::load, |_, model| linear_graph::of_ridge(model))
        }
        ModelFamily::Examples(ExampleModelKind::Softmax) => {
            model.with_model(SoftmaxModel::load, |_, model| linear_graph::of_softmax(model))
        }
        ModelFamily::Ratings | ModelFamily::Topics | ModelFamily::Examples(_) => {
            let message = format!("`{folder}` is not a model that ONNX files are written for");
            let hint = "`hemiola export` takes models of `train lasso`, `elastic-net`, `ridge`, `svm`, `logistic`, `softmax`, \
                        `mlp` and `cnn`";
            Err(CommandError::usage(message).hint(hint).into())
        }
    }
}
