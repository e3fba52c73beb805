//! Arrays written by `numpy.save`, versions 1 to 3 of the format.
//!
//! The header is a Python literal: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}`.
//! Elements follow without padding, so any range of elements of a plain file can be read on its
//! own. **Invariant:** elements are visited with their *row-major* linear index, in any file order,
//! so a Fortran-ordered file gives the same array.

use super::field::NonFiniteHandling;
use super::input::{FileCompression, InputFile};
use crate::error::Extents;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Type that can be read from `NumPy` files of any numeric type.
pub trait FromNumber: Sized {
    /// Converts an integer; `None` if it does not fit.
    fn from_whole(value: i128) -> Option<Self>;
    /// Converts a float; `None` if it would lose more than rounding.
    fn from_float(value: f64) -> Option<Self>;
    /// NaN or an infinity as text; `None` for all other numbers.
    fn not_finite(&self) -> Option<String> {
        None
    }
}

macro_rules! from_number {
    (whole: $($whole:ty),*; float: $($float:ty),*) => {
        $(impl FromNumber for $whole {
            fn from_whole(value: i128) -> Option<Self> {
                Self::try_from(value).ok()
            }
            fn from_float(value: f64) -> Option<Self> {
                // Exact for every integral float below 2^127; the range is checked after.
                let whole = value as i128;
                #[expect(clippy::float_cmp, reason = "exactness is the question")]
                let exact = whole as f64 == value;
                if exact { Self::try_from(whole).ok() } else { None }
            }
        })*
        $(impl FromNumber for $float {
            fn from_whole(value: i128) -> Option<Self> {
                Some(value as Self)
            }
            fn from_float(value: f64) -> Option<Self> {
                Some(value as Self)
            }
            #[inline]
            fn not_finite(&self) -> Option<String> {
                if self.is_finite() { None } else { Some(self.to_string()) }
            }
        })*
    };
}
from_number!(whole: u8, u16, u32, u64, i8, i16, i32, i64; float: f32, f64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NumberClass {
    Float,
    Signed,
    Unsigned,
}

/// `NumPy` file with its header read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Npy {
    source: InputFile,
    class: NumberClass,
    size: usize,
    big_endian: bool,
    fortran: bool,
    shape: Vec<usize>,
    /// Offset of the first element.
    body: u64,
    non_finite: NonFiniteHandling,
}

impl Npy {
    /// Reads the header of a file.
    pub fn open(source: &InputFile) -> Result<Self> {
        let bad = |problem: String| Error::BadFile { file: source.path().to_owned(), problem };
        let mut reader = source.reader()?;
        let mut start = [0; 12];
        let length = reader.fill(&mut start)?;
        if length < 10 || !start.starts_with(b"\x93NUMPY") {
            return Err(bad("expected a file written by numpy.save, found something else".to_owned()));
        }
        let (header_length, body) = match start[6] {
            1 => (u64::from(u16::from_le_bytes([start[8], start[9]])), 10),
            2 | 3 => (u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]])), 12),
            version => return Err(bad(format!("expected version 1, 2 or 3 of the npy format, found {version}"))),
        };
        if header_length > 1 << 20 {
            return Err(bad(format!("a header of {header_length} bytes is not plausible; is the file damaged?")));
        }
        // The part of the header that was read already, then the rest.
        let mut header = start.get(body..length).unwrap_or_default().to_vec();
        let had = header.len();
        header.resize(header_length as usize, 0);
        if length < body || header.len() < had || reader.fill(&mut header[had..])? < header.len() - had {
            return Err(bad("the file ends inside its header; is it complete?".to_owned()));
        }
        let header = String::from_utf8_lossy(&header).into_owned();
        let field = |name: &str| {
            let (_, rest) = header.split_once(&format!("'{name}':"))?;
            Some(rest.trim_start())
        };
        let descr = field("descr").and_then(|rest| rest.strip_prefix('\'')?.split('\'').next());
        let descr =
            descr.ok_or_else(|| bad("expected one numeric `descr`; structured arrays are not read".to_owned()))?;
        let unsupported = || bad(format!("expected elements f4, f8, i1 to i8 or u1 to u8, found `{descr}`"));
        let (order, rest) = descr.split_at_checked(1).ok_or_else(unsupported)?;
        let (class, size) = match rest {
            "f4" => (NumberClass::Float, 4),
            "f8" => (NumberClass::Float, 8),
            "i1" => (NumberClass::Signed, 1),
            "i2" => (NumberClass::Signed, 2),
            "i4" => (NumberClass::Signed, 4),
            "i8" => (NumberClass::Signed, 8),
            "u1" | "b1" => (NumberClass::Unsigned, 1),
            "u2" => (NumberClass::Unsigned, 2),
            "u4" => (NumberClass::Unsigned, 4),
            "u8" => (NumberClass::Unsigned, 8),
            _ => return Err(unsupported()),
        };
        let fortran = match field("fortran_order") {
            Some(rest) if rest.starts_with("True") => true,
            Some(rest) if rest.starts_with("False") => false,
            _ => return Err(bad("expected `fortran_order` in the header".to_owned())),
        };
        let shape = field("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).and_then(|extents| {
            let extents = extents.split(',').map(str::trim).filter(|extent| !extent.is_empty());
            extents.map(|extent| extent.trim_end_matches('L').parse().ok()).collect::<Option<Vec<usize>>>()
        });
        let shape = shape.ok_or_else(|| bad("expected a `shape` in the header".to_owned()))?;
        let npy = Self {
            source: source.clone(),
            class,
            size,
            big_endian: order == ">",
            fortran,
            shape,
            body: body as u64 + header_length,
            non_finite: NonFiniteHandling::Reject,
        };
        let needed = npy
            .shape
            .iter()
            .try_fold(npy.size as u64, |bytes, &extent| bytes.checked_mul(extent as u64))
            .and_then(|bytes| bytes.checked_add(npy.body))
            .ok_or_else(|| bad("the shape has more cells than a file can hold".to_owned()))?;
        if source.compression() == FileCompression::Plain && needed != source.bytes() {
            return Err(bad(format!(
                "the header requires {needed} bytes, the file has {}; is it complete?",
                source.bytes()
            )));
        }
        Ok(npy)
    }

    /// Sets the handling of NaN, infinity and numbers too large for the requested type. Default: an
    /// error that names the position.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFiniteHandling) -> Self {
        self.non_finite = policy;
        self
    }

    /// Extents, one per dimension of the file.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Name of the element type: `f32`, `u8`.
    #[must_use]
    pub fn element_type(&self) -> String {
        let class = match self.class {
            NumberClass::Float => 'f',
            NumberClass::Signed => 'i',
            NumberClass::Unsigned => 'u',
        };
        format!("{class}{}", 8 * self.size)
    }

    /// Number of elements, the product of the extents.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true if elements are stored column by column (first index fastest).
    #[must_use]
    pub fn is_fortran_ordered(&self) -> bool {
        self.fortran
    }

    /// Calls `visit` with a range of elements, numbered *in file order*, each with its row-major
    /// linear index.
    pub fn read<T: FromNumber>(&self, elements: Range<usize>, mut visit: impl FnMut(usize, T)) -> Result<()> {
        let mut reader = self.source.reader()?;
        let skip = self.body + (elements.start * self.size) as u64;
        let mut buffer = vec![0; 64 * 1024];
        if self.source.compression() == FileCompression::Plain {
            reader.seek(skip)?;
        } else {
            let mut left = skip;
            while left > 0 {
                let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                match reader.fill(&mut buffer[..wanted])? {
                    0 => break,
                    count => left -= count as u64,
                }
            }
        }
        let mut at = elements.start;
        while at < elements.end {
            let wanted = (elements.end - at).min(buffer.len() / self.size) * self.size;
            let count = reader.fill(&mut buffer[..wanted])?;
            if count < wanted {
                return Err(self.bad(format!(
                    "it ends after {} of {} elements",
                    at + count / self.size,
                    self.elements()
                )));
            }
            for element in buffer[..count].chunks_exact(self.size) {
                let value: T = self.decode(element).ok_or_else(|| {
                    self.bad(format!("the element at {} does not fit the requested type", self.index_text(at)))
                })?;
                if self.non_finite == NonFiniteHandling::Reject
                    && let Some(found) = value.not_finite()
                {
                    return Err(Error::NotFinite {
                        file: self.source.path().to_owned(),
                        position: self.index_text(at),
                        found,
                    });
                }
                visit(self.row_major(at), value);
                at += 1;
            }
        }
        reader.check_unchanged()
    }

    fn decode<T: FromNumber>(&self, element: &[u8]) -> Option<T> {
        let mut bytes = [0_u8; 8];
        bytes[..element.len()].copy_from_slice(element);
        if self.big_endian {
            bytes[..element.len()].reverse();
        }
        let unsigned = u64::from_le_bytes(bytes);
        match self.class {
            NumberClass::Unsigned => T::from_whole(i128::from(unsigned)),
            NumberClass::Signed => {
                let shift = u64::BITS - 8 * element.len() as u32;
                T::from_whole(i128::from((unsigned << shift).cast_signed() >> shift))
            }
            NumberClass::Float if element.len() == 4 => T::from_float(f64::from(f32::from_bits(unsigned as u32))),
            NumberClass::Float => T::from_float(f64::from_bits(unsigned)),
        }
    }

    fn row_major(&self, number: usize) -> usize {
        if !self.fortran {
            return number;
        }
        let (mut left, mut linear, mut step) = (number, 0, self.elements());
        for &extent in &self.shape {
            step /= extent;
            linear += left % extent * step;
            left /= extent;
        }
        linear
    }

    /// Index of an element as `NumPy` writes it: `[1, 2]`.
    #[cold]
    fn index_text(&self, number: usize) -> String {
        let mut left = self.row_major(number);
        let mut index = self.shape.clone();
        for coordinate in index.iter_mut().rev() {
            let extent = *coordinate;
            *coordinate = left % extent;
            left /= extent;
        }
        Extents(&index).to_string()
    }

    fn bad(&self, problem: String) -> Error {
        Error::BadFile { file: self.source.path().to_owned(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_whole_numbers_only_when_nothing_is_lost() {
        assert_eq!(u8::from_float(255.0), Some(255));
        assert_eq!((u8::from_float(256.0), u8::from_float(-1.0), u8::from_float(0.5)), (None, None, None));
        assert_eq!(u64::from_float(18_446_744_073_709_551_616.0), None);
        assert_eq!(i64::from_float(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!((i32::from_float(f64::NAN), i32::from_float(f64::INFINITY)), (None, None));
    }
}
