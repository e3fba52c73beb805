//! What goes into a part of an encoded exchange: numbers of one type or another.

use crate::protocol::ElementKind;
use half::{bf16, f16};

/// Numbers of one of the types that encoded updates travel as.
#[derive(Clone, Debug, PartialEq)]
pub enum Buffer {
    /// Plain numbers and thin matrices.
    F32(Vec<f32>),
    /// Numbers of half the size.
    Bf16(Vec<bf16>),
    /// Numbers of half the size.
    F16(Vec<f16>),
    /// How long what comes next is.
    I64(Vec<i64>),
    /// Bytes.
    U8(Vec<u8>),
}

impl Buffer {
    /// Which type it is.
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
