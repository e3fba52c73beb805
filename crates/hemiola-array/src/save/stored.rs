//! Element types that have a place in a safetensors file.
//!
//! **Invariant:** bytes in files are little-endian, whatever the machine.

use safetensors::Dtype;

/// A numeric type that can be saved.
pub trait Stored: Copy + Default {
    /// The type's name in the file.
    const DTYPE: Dtype;

    /// Appends the little-endian bytes of all values.
    fn put(values: &[Self], bytes: &mut Vec<u8>);

    /// The value of `size_of::<Self>()` little-endian bytes.
    ///
    /// # Panics
    /// If there are fewer or more bytes.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! stored {
    ($($type:ty: $dtype:ident),*) => {$(
        impl Stored for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            fn put(values: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            fn take(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )*};
}
stored!(f32: F32, f64: F64, i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64);

/// The name of an element type in the manifest: `F32`, as in the files.
pub(super) fn name(dtype: Dtype) -> String {
    format!("{dtype:?}")
}
