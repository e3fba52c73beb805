//! Buffers of the stages of a compressed collective: elements of one of several types.

use crate::protocol::ElementKind;
use half::{bf16, f16};

/// Elements of one of the types that compressed updates travel as.
#[derive(Clone, Debug, PartialEq)]
pub enum CompressedBuffer {
    /// Uncompressed elements and thin matrices.
    F32(Vec<f32>),
    /// Half-precision elements with the range of `f32`.
    Bf16(Vec<bf16>),
    /// Half-precision elements of IEEE 754.
    F16(Vec<f16>),
    /// Lengths of the payloads of the next stage.
    I64(Vec<i64>),
    /// Compressed payloads as bytes.
    U8(Vec<u8>),
}

impl CompressedBuffer {
    /// Element type of the buffer.
    #[must_use]
    pub fn kind(&self) -> ElementKind {
        match self {
            Self::F32(_) => ElementKind::F32,
            Self::Bf16(_) => ElementKind::Bf16,
            Self::F16(_) => ElementKind::F16,
            Self::I64(_) => ElementKind::I64,
            Self::U8(_) => ElementKind::U8,
        }
    }
}
