//! Writers of synthetic data in the text formats that [`read`](crate::read) reads.
//!
//! **Invariant:** written data is read back bit for bit: floats are printed with enough digits.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes separated values `user,item,rating`, with ids counted from `base`.
pub fn write_csv<T: Display, const N: usize>(
    out: &mut impl Write,
    separator: &str,
    base: usize,
    entries: impl IntoIterator<Item = ([usize; N], T)>,
) -> io::Result<()> {
    for (key, value) in entries {
        for index in key {
            write!(out, "{}{separator}", index + base)?;
        }
        writeln!(out, "{value}")?;
    }
    Ok(())
}

/// Writes LIBSVM text, with columns counted from 1.
pub fn write_libsvm<L: Display, T: Display>(
    out: &mut impl Write,
    rows: impl IntoIterator<Item = (L, impl IntoIterator<Item = (usize, T)>)>,
) -> io::Result<()> {
    for (label, features) in rows {
        write!(out, "{label}")?;
        for (column, value) in features {
            write!(out, " {}:{value}", column + 1)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the vocabulary of synthetic documents: `word0`, `word1`, ...
pub fn write_vocabulary(out: &mut impl Write, words: usize) -> io::Result<()> {
    (0..words).try_for_each(|word| writeln!(out, "word{word}"))
}
