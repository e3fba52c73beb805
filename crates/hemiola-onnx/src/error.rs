//! Error of encoding a graph.

/// Error of encoding a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file would be larger than a protocol buffer can be.
    #[error("the file would have {bytes} bytes, and ONNX files have at most {limit}; export a smaller model")]
    TooLarge {
        /// Size of the file.
        bytes: usize,
        /// Largest size.
        limit: usize,
    },
}
