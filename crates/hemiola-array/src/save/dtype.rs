//! Element types of safetensors files.
//!
//! **Invariant:** bytes in files are little-endian on every machine.

use safetensors::Dtype;

/// Numeric type that can be saved.
pub trait TensorElement: Copy + Default {
    /// Element type in the safetensors file.
    const DTYPE: Dtype;

    /// Appends the little-endian bytes of all values.
    fn encode(values: &[Self], bytes: &mut Vec<u8>);

    /// Decodes a value from `size_of::<Self>()` little-endian bytes.
    ///
    /// # Panics
    /// Panics if there are fewer or more bytes.
    fn decode(bytes: &[u8]) -> Self;

    /// Returns the value if it is NaN or infinite.
    fn non_finite(&self) -> Option<f64> {
        None
    }
}

macro_rules! tensor_element {
    ($($type:ty: $dtype:ident $(, $finite:item)?;)*) => {$(
        impl TensorElement for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            fn encode(values: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
            fn decode(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the slice has the size of the type"))
            }
            $($finite)?
        }
    )*};
}
tensor_element! {
    f32: F32, fn non_finite(&self) -> Option<f64> { (!self.is_finite()).then_some(f64::from(*self)) };
    f64: F64, fn non_finite(&self) -> Option<f64> { (!self.is_finite()).then_some(*self) };
    i8: I8; i16: I16; i32: I32; i64: I64; u8: U8; u16: U16; u32: U32; u64: U64;
}

/// Name of an element type in the manifest: `F32`, as in the files.
pub(super) fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}")
}
