//! Graph of operators, and its messages of `onnx.proto`.
//!
//! **Invariant:** values have unique names, and a node comes after the nodes whose results it takes.

use crate::Error;
use crate::message::Message;

/// Version of the file format.
const IR_VERSION: i64 = 8;
/// Version of the operators.
const OPERATOR_SET: i64 = 17;
/// Largest size of a protocol buffer.
const LARGEST: usize = i32::MAX as usize;

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElementType {
    /// 32-bit floating point.
    F32 = 1,
    /// Byte.
    U8 = 2,
    /// 64-bit integer.
    I64 = 7,
    /// UTF-8 text.
    Text = 8,
    /// 64-bit floating point.
    F64 = 11,
}

impl ElementType {
    /// Number of the type, as attribute `to` of the operator `Cast`.
    #[must_use]
    pub const fn code(self) -> i64 {
        self as i64
    }
}

/// Extent of a dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Known extent.
    Fixed(usize),
    /// Any extent; equal ones have the same name.
    Named(&'static str),
}

/// Value of an attribute of an operator.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// Integer.
    Int(i64),
    /// List of integers.
    Ints(Vec<i64>),
    /// Number.
    Float(f32),
}

/// Graph of operators with constants; see the [crate](crate).
#[derive(Clone, Debug)]
pub struct OnnxGraph {
    name: String,
    nodes: Message,
    constants: Message,
    signature: Message,
    metadata: Message,
    values: usize,
}

impl OnnxGraph {
    /// Creates an empty graph.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let empty = Message::default();
        Self {
            name: name.into(),
            nodes: empty.clone(),
            constants: empty.clone(),
            signature: empty.clone(),
            metadata: empty,
            values: 0,
        }
    }

    /// Adds an input. Returns its name.
    pub fn input(&mut self, name: &str, element: ElementType, shape: &[Extent]) -> String {
        self.signature.message(11, &value_info(name, element, shape));
        name.to_owned()
    }

    /// Makes a value an output with a name.
    pub fn output(&mut self, name: &str, value: &str, element: ElementType, shape: &[Extent]) {
        self.add_node("Identity", &[value], name, &[]);
        self.signature.message(12, &value_info(name, element, shape));
    }

    /// Adds single-precision numbers in row-major order. Returns their name.
    ///
    /// # Panics
    /// If the shape has another number of elements, as for all constants.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        self.raw(name, ElementType::F32, shape, values.iter().map(|value| value.to_le_bytes()))
    }

    /// Adds double-precision numbers in row-major order. Returns their name.
    pub fn doubles(&mut self, name: &str, shape: &[usize], values: &[f64]) -> String {
        self.raw(name, ElementType::F64, shape, values.iter().map(|value| value.to_le_bytes()))
    }

    /// Adds integers in row-major order. Returns their name.
    pub fn ints(&mut self, name: &str, shape: &[usize], values: &[i64]) -> String {
        self.raw(name, ElementType::I64, shape, values.iter().map(|value| value.to_le_bytes()))
    }

    /// Adds a list of texts. Returns its name.
    pub fn texts(&mut self, name: &str, values: &[String]) -> String {
        let mut tensor = tensor(name, ElementType::Text, &[values.len()]);
        for value in values {
            tensor.bytes(6, value);
        }
        self.constants.message(5, &tensor);
        name.to_owned()
    }

    /// Adds an operator with one result. Returns the name of the result.
    pub fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        let name = format!("{}_{}", operator.to_lowercase(), self.values);
        self.values += 1;
        self.add_node(operator, inputs, &name, attributes);
        name
    }

    /// Adds a conversion to another type of elements. Returns the name of the result.
    pub fn cast(&mut self, value: &str, element: ElementType) -> String {
        self.node("Cast", &[value], &[("to", Attribute::Int(element.code()))])
    }

    /// Adds an entry to the metadata of the file.
    pub fn metadata(&mut self, key: &str, value: &str) {
        let mut entry = Message::default();
        entry.bytes(1, key).bytes(2, value);
        self.metadata.message(14, &entry);
    }

    /// Encodes the graph as a model.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut operators = Message::default();
        operators.bytes(1, "").int(2, OPERATOR_SET);
        let mut graph = Message::default();
        graph.append(&self.nodes).bytes(2, &self.name).append(&self.constants).append(&self.signature);
        let mut model = Message::default();
        model.int(1, IR_VERSION).bytes(2, "hemiola").bytes(3, env!("CARGO_PKG_VERSION"));
        model.message(7, &graph).message(8, &operators).append(&self.metadata);
        check_size(model.len())?;
        Ok(model.into_bytes())
    }

    fn add_node(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[(&str, Attribute)]) {
        let mut node = Message::default();
        for input in inputs {
            node.bytes(1, input);
        }
        node.bytes(2, output).bytes(3, format!("{operator}_of_{output}")).bytes(4, operator);
        for (name, value) in attributes {
            node.message(5, &attribute(name, value));
        }
        self.nodes.message(1, &node);
    }

    fn raw<const N: usize>(
        &mut self,
        name: &str,
        element: ElementType,
        shape: &[usize],
        values: impl Iterator<Item = [u8; N]>,
    ) -> String {
        let bytes: Vec<u8> = values.flatten().collect();
        let elements: usize = shape.iter().product();
        assert_eq!(bytes.len(), elements * N, "constant `{name}` has the elements of its shape");
        let mut tensor = tensor(name, element, shape);
        tensor.bytes(9, bytes);
        self.constants.message(5, &tensor);
        name.to_owned()
    }
}

/// Returns an error if a file of this size cannot be read.
fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes > LARGEST { Err(Error::TooLarge { bytes, limit: LARGEST }) } else { Ok(()) }
}

/// `TensorProto` without elements.
fn tensor(name: &str, element: ElementType, shape: &[usize]) -> Message {
    let mut tensor = Message::default();
    for extent in shape {
        tensor.int(1, extent.cast_signed() as i64);
    }
    tensor.int(2, element.code()).bytes(8, name);
    tensor
}

/// `AttributeProto`.
fn attribute(name: &str, value: &Attribute) -> Message {
    let mut attribute = Message::default();
    attribute.bytes(1, name);
    match value {
        Attribute::Float(number) => attribute.float(2, *number).int(20, 1),
        Attribute::Int(number) => attribute.int(3, *number).int(20, 2),
        Attribute::Ints(numbers) => {
            for number in numbers {
                attribute.int(8, *number);
            }
            attribute.int(20, 7)
        }
    };
    attribute
}

/// `ValueInfoProto` of a tensor.
fn value_info(name: &str, element: ElementType, shape: &[Extent]) -> Message {
    let mut extents = Message::default();
    for extent in shape {
        let mut dimension = Message::default();
        match extent {
            Extent::Fixed(extent) => dimension.int(1, extent.cast_signed() as i64),
            Extent::Named(name) => dimension.bytes(2, name),
        };
        extents.message(1, &dimension);
    }
    let mut tensor = Message::default();
    tensor.int(1, element.code()).message(2, &extents);
    let mut kind = Message::default();
    kind.message(1, &tensor);
    let mut value = Message::default();
    value.bytes(1, name).message(2, &kind);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_that_is_too_large_is_refused() {
        assert_eq!(check_size(LARGEST), Ok(()));
        let error = check_size(LARGEST + 1).unwrap_err();
        assert!(error.to_string().contains("at most 2147483647"), "{error}");
    }

    #[test]
    #[should_panic(expected = "constant `weights`")]
    fn a_constant_has_the_elements_of_its_shape() {
        OnnxGraph::new("wrong").floats("weights", &[2, 2], &[1.0; 3]);
    }
}
