//! Writer of ONNX files: a graph of operators with constants, encoded as a protocol buffer.
//!
//! An [`OnnxGraph`] is built from its inputs to its outputs. Each call of
//! [`node`](OnnxGraph::node) returns the name of a value, which later nodes take. The messages are
//! those of `onnx.proto` (IR version 8, operator set 17). Only fields that trained models need are
//! written, so the encoder is 80 lines and no code is generated from a schema.
//!
//! **Invariant:** the same calls give the same bytes.
//!
//! ```
//! use hemiola_onnx::{ElementType, Extent, OnnxGraph};
//! let mut graph = OnnxGraph::new("line");
//! let x = graph.input("x", ElementType::F32, &[Extent::Named("batch"), Extent::Fixed(1)]);
//! let slope = graph.floats("slope", &[1, 1], &[2.0]);
//! let product = graph.node("MatMul", &[&x, &slope], &[]);
//! graph.output("y", &product, ElementType::F32, &[Extent::Named("batch"), Extent::Fixed(1)]);
//! let bytes = graph.to_bytes()?;
//! assert_eq!(bytes[..2], [8, 8]); // field 1, a variable-length integer: IR version 8
//! # Ok::<(), hemiola_onnx::Error>(())
//! ```

mod error;
mod graph;
mod message;

pub use error::Error;
pub use graph::{Attribute, ElementType, Extent, OnnxGraph};
