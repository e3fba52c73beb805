//! Devices and precision, as written on the command line.
//!
//! Precision is a setting of a device: tensors created there, variables and batches alike, have
//! that data type. With *mixed precision*, only forward and backward passes use `bf16` or `f16`. A
//! [`Trainer`](crate::Trainer) keeps values, gradient sums and optimizer state in `f32`, so that
//! small updates are not lost.

use burn::tensor::{Device, DeviceConfig, FloatDType};
use hemiola_core::Rank;
use std::fmt;
use std::str::FromStr;

/// Device on which a peer computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The CPU, through Burn's Flex backend.
    #[default]
    Cpu,
    /// A CUDA GPU by index. Without an index, the peers of a machine take its GPUs in turn.
    Cuda(Option<usize>),
}

/// Data type of forward and backward passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ComputePrecision {
    /// Single precision: 24 significant bits.
    #[default]
    F32,
    /// bfloat16: 8 significant bits, with the exponent range of `f32`.
    Bf16,
    /// Half precision: 11 significant bits, values up to 65,504.
    F16,
}

/// A device that does not exist or does not support the precision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceError(String);

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown =
            || DeviceError(format!("`{text}` is no device; use `cpu`, `cuda` or `cuda:N`, for example `cuda:0`"));
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(None)),
            Some(("cuda", number)) => number.parse().map(|number| Self::Cuda(Some(number))).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(None) => formatter.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(formatter, "cuda:{number}"),
        }
    }
}

impl DeviceSpec {
    /// Opens the device of a peer, for inference; `Device::autodiff` makes it one for training. All
    /// tensors created there have this precision from now on, and all peers of a process must use
    /// the same.
    pub fn open(self, peer: Rank, precision: ComputePrecision) -> Result<Device, DeviceError> {
        let mut device = match self {
            Self::Cpu => Device::flex(),
            Self::Cuda(number) => cuda_device(number, peer)?,
        };
        let wanted = match precision {
            ComputePrecision::F32 => FloatDType::F32,
            ComputePrecision::Bf16 => FloatDType::BF16,
            ComputePrecision::F16 => FloatDType::F16,
        };
        let refused = device.configure(DeviceConfig::default().float_dtype(wanted));
        // Another peer of this process may have set it before.
        match refused {
            Err(problem) if device.settings().float_dtype != wanted => {
                Err(DeviceError(format!("device `{self}` does not support {wanted:?}: {problem}")))
            }
            _ => Ok(device),
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda_device(number: Option<usize>, peer: Rank) -> Result<Device, DeviceError> {
    use burn::tensor::DeviceType;
    let gpus = Device::enumerate(DeviceType::Cuda).into_vec().len();
    let number = number.unwrap_or(peer.index() % gpus.max(1));
    if number >= gpus {
        return Err(DeviceError(format!("there is no GPU {number}; this machine has {gpus}")));
    }
    Ok(Device::cuda(number))
}

#[cfg(not(feature = "cuda"))]
fn cuda_device(_: Option<usize>, _: Rank) -> Result<Device, DeviceError> {
    let how = "rebuild with `cargo build --release --features cuda --bin hemiola`";
    Err(DeviceError(format!("this build does not support GPUs; {how}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_parse_as_they_display() {
        for spec in [DeviceSpec::Cpu, DeviceSpec::Cuda(None), DeviceSpec::Cuda(Some(3))] {
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
        for wrong in ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x"] {
            assert!(wrong.parse::<DeviceSpec>().unwrap_err().to_string().contains("no device"), "{wrong}");
        }
    }

    #[test]
    fn a_precision_can_be_requested_again_but_not_changed() {
        let (peer, single) = (Rank::ROOT, ComputePrecision::F32);
        DeviceSpec::Cpu.open(peer, single).unwrap();
        DeviceSpec::Cpu.open(peer, single).unwrap();
        let problem = DeviceSpec::Cpu.open(peer, ComputePrecision::Bf16).unwrap_err().to_string();
        assert!(problem.contains("BF16"), "{problem}");
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_cuda_says_how_to_get_it() {
        let problem = DeviceSpec::Cuda(None).open(Rank::ROOT, ComputePrecision::F32).unwrap_err().to_string();
        assert!(problem.contains("--features cuda"), "{problem}");
    }
}
