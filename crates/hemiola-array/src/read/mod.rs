//! Reading files: text of several formats and numpy arrays, plain or compressed, whole or in byte ranges.
//!
//! Reading is three steps. [`Source::find`] lists the files of a path, pattern or directory in sorted order.
//! [`ByteRange::split`] cuts them into ranges of about equal size; every peer computes the same list and takes its share. A
//! format's `read` parses *one* range and hands each record to a visitor; any thread may call it. What the ranges found
//! out besides records, counts and bad lines, comes back as a [`Report`]; [`Report::settle`] joins the reports in range
//! order into one verdict that is the same however the files were cut.
//!
//! ```
//! use hemiola_array::read::{ByteRange, Csv, Report, Source};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("ratings.csv");
//! std::fs::write(&path, "user,item,rating\n1,10,4.5\n2,11,3\n").unwrap();
//! let sources = Source::find(path.to_str().unwrap())?;
//! let csv = Csv::new();
//! let (mut ratings, mut reports) = (Vec::new(), Vec::new());
//! for range in ByteRange::split(&sources, 1 << 20) {
//!     reports.push(csv.read(&range, |(user, item, rating): (u32, u32, f32)| {
//!         ratings.push(([user, item], rating));
//!         Ok(())
//!     })?);
//! }
//! let summary = Report::settle(&sources, reports, csv.bad_lines_allowed())?;
//! assert_eq!(summary.records, 2);
//! assert_eq!(ratings, [([1, 10], 4.5), ([2, 11], 3.0)]);
//! # Ok::<(), hemiola_array::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`source`] | which files, how large, compressed how |
//! | `url`, `object`, `object_http` | paths and URLs; objects of stores and web servers, with the feature `object-store` |
//! | [`split`] | byte ranges at line boundaries |
//! | `slab` | the bytes of a range as slabs of whole lines |
//! | [`pass`] | one pass over a range: records, bad lines, line numbers |
//! | [`number`] | numbers, fast and correctly rounded |
//! | [`field`] | separated fields and what they can become |
//! | [`csv`] | separated values |
//! | [`libsvm`] | `label index:value ...` |
//! | [`docword`] | UCI bag of words and its vocabulary |
//! | [`ldac`] | LDA-C: `count id:count ...` |
//! | [`matrix_market`] | Matrix Market, coordinate and array |
//! | [`npy`] | numpy arrays |
//! | [`lines`] | any text with a closure |
//! | [`guess`] | which format a file has |
//! | `columnar` | Parquet and Arrow IPC, with the feature `arrow` |

#[cfg(feature = "arrow")]
pub mod columnar;
pub mod csv;
pub mod docword;
pub mod field;
pub mod guess;
pub mod ldac;
pub mod libsvm;
pub mod lines;
pub mod matrix_market;
pub mod npy;
pub mod number;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod object_http;
mod pairs;
pub mod pass;
mod slab;
pub mod source;
pub mod split;
mod url;

#[cfg(feature = "arrow")]
pub use columnar::Columnar;
pub use csv::{Csv, Header};
pub use docword::Docword;
pub use field::{Field, Fields, FromFields, Ignored, NonFinite, Rest, Separator};
pub use guess::{Format, Guess};
pub use ldac::Ldac;
pub use libsvm::{Example, Libsvm};
pub use lines::Lines;
pub use matrix_market::MatrixMarket;
pub use npy::Npy;
pub use pass::{Mistake, Report, Summary};
pub use source::{Compression, Source};
pub use split::ByteRange;
