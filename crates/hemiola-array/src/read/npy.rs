//! Arrays written by `numpy.save`, versions 1 to 3 of the format.
//!
//! The header is a Python literal: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}`. Elements follow without
//! padding, so any range of elements of a plain file can be read alone. **Invariant:** elements are handed out with their
//! *row-major* linear index, whatever their order in the file, so a Fortran-ordered file makes the same array.

use super::field::NonFinite;
use super::source::{Compression, Source};
use crate::error::Extents;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A type whose elements can be read from numpy files of any numeric type.
pub trait FromNumber: Sized {
    /// From a whole number; `None` if it does not fit.
    fn from_whole(value: i128) -> Option<Self>;
    /// From a float; `None` if it would lose more than rounding.
    fn from_float(value: f64) -> Option<Self>;
    /// NaN or an infinity as it is shown, `None` for all other numbers.
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
                // Exact for every whole float below 2^127; the range is checked after.
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
enum Class {
    Float,
    Signed,
    Unsigned,
}

/// A numpy file whose header was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Npy {
    source: Source,
    class: Class,
    /// Bytes per element.
    size: usize,
    big_endian: bool,
    fortran: bool,
    shape: Vec<u64>,
    /// Where the first element begins.
    body: u64,
    non_finite: NonFinite,
}

impl Npy {
    /// Reads the header.
    pub fn open(source: &Source) -> Result<Self> {
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
            return Err(bad(format!("a header of {header_length} bytes is not believable; is the file damaged?")));
        }
        // What was read of the header already, then the rest of it.
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
            "f4" => (Class::Float, 4),
            "f8" => (Class::Float, 8),
            "i1" => (Class::Signed, 1),
            "i2" => (Class::Signed, 2),
            "i4" => (Class::Signed, 4),
            "i8" => (Class::Signed, 8),
            "u1" | "b1" => (Class::Unsigned, 1),
            "u2" => (Class::Unsigned, 2),
            "u4" => (Class::Unsigned, 4),
            "u8" => (Class::Unsigned, 8),
            _ => return Err(unsupported()),
        };
        let fortran = match field("fortran_order") {
            Some(rest) if rest.starts_with("True") => true,
            Some(rest) if rest.starts_with("False") => false,
            _ => return Err(bad("expected `fortran_order` in the header".to_owned())),
        };
        let shape = field("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next()).and_then(|extents| {
            let extents = extents.split(',').map(str::trim).filter(|extent| !extent.is_empty());
            extents.map(|extent| extent.trim_end_matches('L').parse().ok()).collect::<Option<Vec<u64>>>()
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
            non_finite: NonFinite::Refuse,
        };
        let needed = npy
            .shape
            .iter()
            .try_fold(npy.size as u64, |bytes, &extent| bytes.checked_mul(extent))
            .and_then(|bytes| bytes.checked_add(npy.body))
            .ok_or_else(|| bad("the shape has more cells than a file can hold".to_owned()))?;
        if source.compression() == Compression::Plain && needed != source.bytes() {
            return Err(bad(format!(
                "the header asks for {needed} bytes, the file has {}; is it complete?",
                source.bytes()
            )));
        }
        Ok(npy)
    }

    /// What to do with NaN, infinity and numbers too large for the type asked for. Default: an error that names the place.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// The extents, as many as the file has dimensions.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The type of the elements: `f32`, `u8`.
    #[must_use]
    pub fn element_type(&self) -> String {
        let class = match self.class {
            Class::Float => 'f',
            Class::Signed => 'i',
            Class::Unsigned => 'u',
        };
        format!("{class}{}", 8 * self.size)
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Whether the file has its elements column by column (first index fastest) rather than row by row.
    #[must_use]
    pub fn is_fortran_ordered(&self) -> bool {
        self.fortran
    }

    /// Hands elements with the given numbers *in the file* to `visit`, each with its row-major linear index.
    pub fn read<T: FromNumber>(&self, elements: Range<u64>, mut visit: impl FnMut(u64, T)) -> Result<()> {
        let mut reader = self.source.reader()?;
        let skip = self.body + elements.start * self.size as u64;
        let mut buffer = vec![0; 64 * 1024];
        if self.source.compression() == Compression::Plain {
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
            let wanted = ((elements.end - at) as usize).min(buffer.len() / self.size) * self.size;
            let count = reader.fill(&mut buffer[..wanted])?;
            if count < wanted {
                return Err(self.bad(format!(
                    "it ends after {} of {} elements",
                    at + (count / self.size) as u64,
                    self.elements()
                )));
            }
            for element in buffer[..count].chunks_exact(self.size) {
                let value: T = self.decode(element).ok_or_else(|| {
                    self.bad(format!("the element at {} does not fit the type asked for", self.place(at)))
                })?;
                if self.non_finite == NonFinite::Refuse
                    && let Some(found) = value.not_finite()
                {
                    return Err(Error::NotFinite { file: self.source.path().to_owned(), place: self.place(at), found });
                }
                visit(self.row_major(at), value);
                at += 1;
            }
        }
        reader.must_be_unchanged()
    }

    fn decode<T: FromNumber>(&self, element: &[u8]) -> Option<T> {
        let mut bytes = [0_u8; 8];
        bytes[..element.len()].copy_from_slice(element);
        if self.big_endian {
            bytes[..element.len()].reverse();
        }
        let unsigned = u64::from_le_bytes(bytes);
        match self.class {
            Class::Unsigned => T::from_whole(i128::from(unsigned)),
            Class::Signed => {
                let shift = u64::BITS - 8 * element.len() as u32;
                T::from_whole(i128::from((unsigned << shift).cast_signed() >> shift))
            }
            Class::Float if element.len() == 4 => T::from_float(f64::from(f32::from_bits(unsigned as u32))),
            Class::Float => T::from_float(f64::from_bits(unsigned)),
        }
    }

    fn row_major(&self, number: u64) -> u64 {
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

    /// The index of an element as numpy counts: `[1, 2]`.
    #[cold]
    fn place(&self, number: u64) -> String {
        let mut left = self.row_major(number);
        let mut index = self.shape.clone();
        for place in index.iter_mut().rev() {
            let extent = *place;
            *place = left % extent;
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
