//! Writers of synthetic data in the text formats that [`read`](crate::read) reads.
//!
//! **Invariant:** written data is read back bit for bit: floats are printed with enough digits.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes separated values `user,item,rating`, with ids counted from `base`.
pub fn write_csv<T: Display, const N: usize>(
    out: &mut impl Write,
    separator: &str,
    base: u64,
    entries: impl IntoIterator<Item = ([u64; N], T)>,
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
    rows: impl IntoIterator<Item = (L, impl IntoIterator<Item = (u64, T)>)>,
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

/// Writes LDA-C text: the number of words and `id:count` pairs, with ids counted from 0.
pub fn write_ldac(out: &mut impl Write, documents: impl IntoIterator<Item = Vec<(u64, u32)>>) -> io::Result<()> {
    for document in documents {
        write!(out, "{}", document.len())?;
        for (word, count) in document {
            write!(out, " {word}:{count}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes a UCI bag of words. The header counts the entries, so the documents are generated twice
/// rather than kept.
pub fn write_docword<I: IntoIterator<Item = Vec<(u64, u32)>>>(
    out: &mut impl Write,
    words: u64,
    documents: impl Fn() -> I,
) -> io::Result<()> {
    let (mut count, mut entries) = (0_u64, 0_u64);
    for document in documents() {
        count += 1;
        entries += document.len() as u64;
    }
    writeln!(out, "{count}\n{words}\n{entries}")?;
    for (number, document) in (1_u64..).zip(documents()) {
        for (word, times) in document {
            writeln!(out, "{number} {} {times}", word + 1)?;
        }
    }
    Ok(())
}

/// Writes a matching vocabulary: `word0`, `word1`, ...
pub fn write_vocabulary(out: &mut impl Write, words: u64) -> io::Result<()> {
    (0..words).try_for_each(|word| writeln!(out, "word{word}"))
}

/// Writes a Matrix Market file in coordinate format; `entries` must yield `count` entries.
pub fn write_matrix_market<T: Display>(
    out: &mut impl Write,
    shape: [u64; 2],
    count: u64,
    entries: impl IntoIterator<Item = ([u64; 2], T)>,
) -> io::Result<()> {
    writeln!(out, "%%MatrixMarket matrix coordinate real general\n{} {} {count}", shape[0], shape[1])?;
    for ([row, column], value) in entries {
        writeln!(out, "{} {} {value}", row + 1, column + 1)?;
    }
    Ok(())
}
