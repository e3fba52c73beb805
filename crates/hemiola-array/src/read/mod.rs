//! Readers of text formats and `NumPy` arrays, plain or compressed, whole or in byte ranges.
//!
//! Reading has three steps. [`InputFile::find`] lists the files of a path, pattern or directory in
//! sorted order. [`ByteRange::split`] splits them into ranges of about equal size; every peer
//! computes the same list and takes its share. The `read` method of a format parses *one* range and
//! passes each record to a visitor; any thread may call it. Counts and bad lines of a range come
//! back as a [`ReadReport`]. [`ReadReport::merge`] merges the reports in range order into a result
//! that does not depend on the split.
//!
//! ```
//! use hemiola_array::read::{ByteRange, Csv, ReadReport, InputFile};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("ratings.csv");
//! std::fs::write(&path, "user,item,rating\n1,10,4.5\n2,11,3\n").unwrap();
//! let files = InputFile::find(path.to_str().unwrap())?;
//! let csv = Csv::new();
//! let (mut ratings, mut reports) = (Vec::new(), Vec::new());
//! for range in ByteRange::split(&files, 1 << 20) {
//!     reports.push(csv.read(&range, |(user, item, rating): (u32, u32, f32)| {
//!         ratings.push(([user, item], rating));
//!         Ok(())
//!     })?);
//! }
//! let summary = ReadReport::merge(&files, reports, csv.bad_lines_allowed())?;
//! assert_eq!(summary.records, 2);
//! assert_eq!(ratings, [([1, 10], 4.5), ([2, 11], 3.0)]);
//! # Ok::<(), hemiola_array::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`paths`] | arguments of a data set: several paths, or files found before |
//! | `find` | files of a path, folder, pattern or archive |
//! | [`input`] | files and objects: size, compression, decoded contents |
//! | `stream` | standard input and pipes, copied to disk |
//! | `archive`, `archive_member` | members of zip archives |
//! | `view` | tables in other formats, and whole documents, as lines of text |
//! | `json_lines`, `columnar_text` | the tables of views: JSON lines; Parquet and Arrow IPC |
//! | `url` | paths and URLs |
//! | `object`, `object_http` | objects of stores and web servers, with the feature `object-store` |
//! | [`split`] | byte ranges at line boundaries |
//! | `line_slab` | bytes of a range as slabs of whole lines |
//! | [`parse`] | parsing of a range: records, bad lines, line numbers |
//! | [`number`] | numbers, fast and correctly rounded |
//! | [`field`] | separated fields and their types |
//! | [`csv`] | separated values |
//! | [`libsvm`] | `label index:value ...` |
//! | [`docword`] | UCI bag of words and its vocabulary |
//! | [`ldac`] | LDA-C: `count id:count ...` |
//! | [`matrix_market`] | Matrix Market, coordinate and array |
//! | [`npy`] | NumPy arrays |
//! | [`lines`] | any text, parsed by a closure |
//! | [`detect`] | detection of the format of a file |
//! | `columnar` | Parquet and Arrow IPC, with the feature `arrow` |

mod archive;
mod archive_member;
#[cfg(feature = "arrow")]
pub mod columnar;
#[cfg(feature = "arrow")]
mod columnar_text;
pub mod csv;
pub mod detect;
pub mod docword;
pub mod field;
mod find;
mod index_value;
pub mod input;
mod json_lines;
pub mod ldac;
pub mod libsvm;
mod line_slab;
pub mod lines;
pub mod matrix_market;
pub mod npy;
pub mod number;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod object_http;
pub mod parse;
pub mod paths;
pub mod split;
mod stream;
mod url;
mod view;

#[cfg(feature = "arrow")]
pub use columnar::Columnar;
pub use csv::{Csv, CsvHeader};
pub use detect::{DetectedFormat, FileFormat};
pub use docword::Docword;
pub use field::{FieldValue, Fields, FromFields, IgnoredField, NonFiniteHandling, RestOfLine, Separator};
pub use input::{FileCompression, InputFile};
pub use ldac::Ldac;
pub use libsvm::{Example, Libsvm};
pub use lines::LineReader;
pub use matrix_market::MatrixMarket;
pub use npy::Npy;
pub use parse::{ParseError, ReadReport, ReadSummary};
pub use paths::InputPaths;
pub use split::ByteRange;
pub use stream::{is_standard_input, is_stream};
