//! Model to be trained: variables in the order in which the forward pass uses them.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Structure of a variable's gradient, as far as it matters for communication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum GradientKind {
    /// Dense: a value for every element.
    #[default]
    Dense,
    /// Sum of outer products of two vectors, one for each example of a peer's batch: the weights of
    /// a linear layer.
    Product {
        /// Number of products: examples (or positions of a sequence) of one peer's batch.
        pairs: u64,
    },
    /// Sparse by rows: an embedding.
    Rows {
        /// Maximum number of rows that the batch of one peer touches.
        touched: u64,
    },
}

/// Trainable variable of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableSpec {
    /// Path in the model, such as `layers.3.weight`.
    pub name: String,
    /// Dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// Structure of the gradient.
    #[serde(default)]
    pub gradient: GradientKind,
}

impl VariableSpec {
    /// Creates a variable with a dense gradient.
    pub fn dense(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), shape: shape.into(), gradient: GradientKind::Dense }
    }

    /// Creates the weights of a linear layer, whose gradient is the sum of `pairs` outer products.
    pub fn linear(name: impl Into<String>, shape: [usize; 2], pairs: u64) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), gradient: GradientKind::Product { pairs } }
    }

    /// Creates an embedding, of which a batch touches at most `touched` rows.
    pub fn embedding(name: impl Into<String>, shape: [usize; 2], touched: u64) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), gradient: GradientKind::Rows { touched } }
    }

    /// Number of elements of the variable.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product()
    }

    /// Size in bytes; elements are `f32`.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        4 * self.elements()
    }

    /// Shape as a matrix: the first dimension, and the product of all others.
    #[must_use]
    pub fn matrix(&self) -> (usize, usize) {
        match self.shape.split_first() {
            None => (1, 1),
            Some((first, rest)) => (*first, rest.iter().product()),
        }
    }
}

impl fmt::Display for VariableSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.shape)
    }
}

/// Variables of a model, in the order in which the forward pass uses them. Their gradients become
/// available in about the reverse order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Variables in the order of their use.
    pub variables: Vec<VariableSpec>,
}

impl ModelSpec {
    /// Creates a model. Each variable needs a unique name and at least one element.
    pub fn new(variables: Vec<VariableSpec>) -> Result<Self> {
        let mut names = BTreeSet::new();
        for variable in &variables {
            let name = &variable.name;
            if !names.insert(name) {
                return Err(Error::Model { variable: name.clone(), problem: "the name occurs twice".into() });
            }
            let elements = variable.shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent as u64));
            if elements.is_none_or(|elements| elements == 0 || elements > u64::MAX / 64) {
                let problem = format!("its shape {:?} has no elements, or too many", variable.shape);
                return Err(Error::Model { variable: name.clone(), problem });
            }
            let two = variable.shape.len() == 2;
            if !two && matches!(variable.gradient, GradientKind::Product { .. } | GradientKind::Rows { .. }) {
                let problem = format!(
                    "its gradient has rows or factors, which needs two dimensions, and its shape is {:?}",
                    variable.shape
                );
                return Err(Error::Model { variable: name.clone(), problem });
            }
        }
        Ok(Self { variables })
    }

    /// Returns the variable of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&VariableSpec> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Total size of all variables in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.variables.iter().map(VariableSpec::bytes).sum()
    }

    /// Returns the first difference between this model and another that should be equal, for peers
    /// that compare theirs.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let pairs = self.variables.iter().zip(&other.variables).enumerate();
        for (place, (mine, theirs)) in pairs {
            if mine.name != theirs.name {
                return Some(format!("variable {place} is {} here and {} there", mine.name, theirs.name));
            }
            if mine.shape != theirs.shape {
                return Some(format!("{} has the shape {:?} here and {:?} there", mine.name, mine.shape, theirs.shape));
            }
        }
        let (mine, theirs) = (self.variables.len(), other.variables.len());
        (mine != theirs).then(|| {
            let longer = if mine > theirs { &self.variables[theirs] } else { &other.variables[mine] };
            let place = if mine > theirs { "here" } else { "there" };
            format!("there are {mine} variables here and {theirs} there: {} is only {place}", longer.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_names_are_checked() {
        assert!(ModelSpec::new(vec![VariableSpec::dense("bias", [3]), VariableSpec::dense("scale", [])]).is_ok());
        for (variables, expected) in [
            (vec![VariableSpec::dense("a", [1]), VariableSpec::dense("a", [2])], "a: the name occurs twice"),
            (vec![VariableSpec::dense("a", [3, 0])], "[3, 0] has no elements"),
            (vec![VariableSpec::dense("a", [usize::MAX, 3])], "or too many"),
            (
                vec![VariableSpec { name: "a".into(), shape: vec![4], gradient: GradientKind::Rows { touched: 1 } }],
                "needs two dimensions",
            ),
        ] {
            let error = ModelSpec::new(variables).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_shape_is_that_of_a_matrix() {
        assert_eq!(VariableSpec::dense("a", []).matrix(), (1, 1));
        assert_eq!(VariableSpec::dense("a", [7]).matrix(), (7, 1));
        assert_eq!(VariableSpec::dense("a", [64, 3, 5, 5]).matrix(), (64, 75));
        assert_eq!(VariableSpec::dense("a", [64, 3, 5, 5]).bytes(), 64 * 75 * 4);
    }

    #[test]
    fn the_first_difference_is_named() {
        let model = |shapes: &[(&str, &[usize])]| ModelSpec {
            variables: shapes.iter().map(|(name, shape)| VariableSpec::dense(*name, *shape)).collect(),
        };
        let one = model(&[("a", &[2]), ("b", &[3, 4])]);
        assert_eq!(one.first_difference(&one), None);
        let difference = |other: &ModelSpec| one.first_difference(other).unwrap();
        assert_eq!(difference(&model(&[("a", &[2]), ("c", &[3, 4])])), "variable 1 is b here and c there");
        assert_eq!(difference(&model(&[("a", &[2]), ("b", &[4, 3])])), "b has the shape [3, 4] here and [4, 3] there");
        assert_eq!(difference(&model(&[("a", &[2])])), "there are 2 variables here and 1 there: b is only here");
    }
}
