//! Where nets are computed, and with how many digits, as people write it.
//!
//! Precision is a setting of a device: what is made there is made of such numbers, variables and batches alike. A [`Trainer`](crate::Trainer) keeps values, sums and what optimizers remember in single precision all the same, so that small updates are not
//! lost (*mixed precision*): passes alone are computed with half of the digits.

use burn::tensor::{Device, DeviceConfig, FloatDType};
use hemiola_core::Rank;
use std::fmt;
use std::str::FromStr;

/// Where a peer computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On the processor.
    #[default]
    Processor,
    /// On a graphics card by its number; without one, peers take those of their machine in turn.
    Cuda(Option<usize>),
}

/// What passes are computed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 24 binary digits.
    #[default]
    F32,
    /// 8 binary digits, and numbers as large and as small as with 24.
    Bf16,
    /// 11 binary digits, and numbers up to 65,504.
    F16,
}

/// There is no such device here, or it cannot compute so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoDevice(String);

impl FromStr for Place {
    type Err = NoDevice;

    fn from_str(text: &str) -> Result<Self, NoDevice> {
        let unknown =
            || NoDevice(format!("`{text}` is no device: they are `cpu`, `cuda` and `cuda:N`, such as `cuda:0`"));
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Processor),
            None if text == "cuda" => Ok(Self::Cuda(None)),
            Some(("cuda", number)) => number.parse().map(|number| Self::Cuda(Some(number))).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor => formatter.write_str("cpu"),
            Self::Cuda(None) => formatter.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(formatter, "cuda:{number}"),
        }
    }
}

impl Place {
    /// The device of a peer, for nets that are used; `autodiff` makes it one for nets that are trained. What is made there is of this precision from now on, which all peers of a process must agree on.
    pub fn device(self, peer: Rank, precision: Precision) -> Result<Device, NoDevice> {
        let mut device = match self {
            Self::Processor => Device::flex(),
            Self::Cuda(number) => card(number, peer)?,
        };
        let wanted = match precision {
            Precision::F32 => FloatDType::F32,
            Precision::Bf16 => FloatDType::BF16,
            Precision::F16 => FloatDType::F16,
        };
        let refused = device.configure(DeviceConfig::default().float_dtype(wanted));
        // It may have been set before, by another peer of this process.
        match refused {
            Err(problem) if device.settings().float_dtype != wanted => {
                Err(NoDevice(format!("{self} does not compute with {wanted:?}: {problem}")))
            }
            _ => Ok(device),
        }
    }
}

#[cfg(feature = "cuda")]
fn card(number: Option<usize>, peer: Rank) -> Result<Device, NoDevice> {
    use burn::tensor::DeviceType;
    let cards = Device::enumerate(DeviceType::Cuda).into_vec().len();
    let number = number.unwrap_or(peer.index() % cards.max(1));
    if number >= cards {
        return Err(NoDevice(format!("there is no graphics card {number}: this machine shows {cards}")));
    }
    Ok(Device::cuda(number))
}

#[cfg(not(feature = "cuda"))]
fn card(_: Option<usize>, _: Rank) -> Result<Device, NoDevice> {
    let how = "build one that can: cargo build --release --features cuda --bin hemiola";
    Err(NoDevice(format!("this build cannot use graphics cards; {how}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for place in [Place::Processor, Place::Cuda(None), Place::Cuda(Some(3))] {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for wrong in ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x"] {
            assert!(wrong.parse::<Place>().unwrap_err().to_string().contains("no device"), "{wrong}");
        }
    }

    #[test]
    fn what_is_set_once_is_asked_for_again_but_not_changed() {
        let (peer, single) = (Rank::ROOT, Precision::F32);
        Place::Processor.device(peer, single).unwrap();
        Place::Processor.device(peer, single).unwrap();
        let problem = Place::Processor.device(peer, Precision::Bf16).unwrap_err().to_string();
        assert!(problem.contains("BF16"), "{problem}");
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_cards_says_how_to_get_one() {
        let problem = Place::Cuda(None).device(Rank::ROOT, Precision::F32).unwrap_err().to_string();
        assert!(problem.contains("--features cuda"), "{problem}");
    }
}
