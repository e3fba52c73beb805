//! Encoding of protocol buffers: fields of variable-length integers, bytes and 32-bit floats.
//!
//! A field is a key, `number << 3 | wire type`, and a value. Repeated fields are written one by one,
//! as in `proto2`, which `onnx.proto` is. See <https://protobuf.dev/programming-guides/encoding>.

/// Wire type of variable-length integers.
const VARINT: u64 = 0;
/// Wire type of bytes, strings and messages.
const BYTES: u64 = 2;
/// Wire type of 32-bit values.
const FIXED32: u64 = 5;

/// Encoded message, to which fields are added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Adds an integer; negative ones take ten bytes.
    pub(crate) fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.varint(field << 3 | VARINT);
        self.varint(value.cast_unsigned());
        self
    }

    /// Adds a single-precision number.
    pub(crate) fn float(&mut self, field: u64, value: f32) -> &mut Self {
        self.varint(field << 3 | FIXED32);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Adds bytes or a string.
    pub(crate) fn bytes(&mut self, field: u64, value: impl AsRef<[u8]>) -> &mut Self {
        let value = value.as_ref();
        self.varint(field << 3 | BYTES);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds a message.
    pub(crate) fn message(&mut self, field: u64, value: &Self) -> &mut Self {
        self.bytes(field, &value.bytes)
    }

    /// Adds all fields of another message.
    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.bytes.extend_from_slice(&other.bytes);
        self
    }

    /// Number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_bytes_of_the_specification() {
        let mut inner = Message::default();
        inner.int(1, 150);
        assert_eq!(inner.bytes, [0x08, 0x96, 0x01]);
        let mut message = Message::default();
        message.bytes(2, "testing").message(3, &inner).float(5, 1.0).int(20, -1);
        let expected = [
            &[0x12, 7][..],
            b"testing",
            &[0x1a, 3, 0x08, 0x96, 0x01],
            &[0x2d, 0, 0, 0x80, 0x3f],
            &[0xa0, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ];
        assert_eq!(message.into_bytes(), expected.concat());
    }
}
