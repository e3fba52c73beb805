//! What is trained: variables in the order in which the forward pass uses them.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What the gradient of a variable is like, as far as it matters for sending it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Gradient {
    /// A number for every element.
    #[default]
    Dense,
    /// A sum of outer products of two vectors, one for each example of a peer's batch: the weights of a linear layer.
    Product {
        /// Examples (or positions of a sequence) of one peer's batch.
        pairs: u64,
    },
    /// Nothing but some rows: an embedding.
    Rows {
        /// How many rows the batch of one peer touches, at most.
        touched: u64,
    },
}

/// A variable that is trained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its path in the model, such as `layers.3.weight`.
    pub name: String,
    /// Its dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// What its gradient is like.
    #[serde(default)]
    pub gradient: Gradient,
}

impl Variable {
    /// A variable with a dense gradient.
    pub fn dense(name: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), shape: shape.into(), gradient: Gradient::Dense }
    }

    /// The weights of a linear layer, whose gradient is the sum of `pairs` outer products.
    pub fn linear(name: impl Into<String>, rows: usize, columns: usize, pairs: u64) -> Self {
        Self { name: name.into(), shape: vec![rows, columns], gradient: Gradient::Product { pairs } }
    }

    /// A table of which a batch touches some rows.
    pub fn embedding(name: impl Into<String>, rows: usize, columns: usize, touched: u64) -> Self {
        Self { name: name.into(), shape: vec![rows, columns], gradient: Gradient::Rows { touched } }
    }

    /// How many numbers it has.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|extent| *extent as u64).product()
    }

    /// Bytes of all its numbers, which are `f32`.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        4 * self.elements()
    }

    /// Its shape as that of a matrix: first dimension, and all others together.
    #[must_use]
    pub fn matrix(&self) -> (usize, usize) {
        match self.shape.split_first() {
            None => (1, 1),
            Some((first, rest)) => (*first, rest.iter().product()),
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.name, self.shape)
    }
}

/// The variables of a model, in the order in which the forward pass uses them. Their gradients come in about the reverse order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// In the order of their use.
    pub variables: Vec<Variable>,
}

impl Model {
    /// A model of these variables, each of which has a name of its own and at least one element.
    pub fn new(variables: Vec<Variable>) -> Result<Self> {
        let mut names = BTreeSet::new();
        for variable in &variables {
            let name = &variable.name;
            if !names.insert(name) {
                return Err(Error::Model { variable: name.clone(), problem: "there are two of that name".into() });
            }
            let elements = variable.shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent as u64));
            if elements.is_none_or(|elements| elements == 0 || elements > u64::MAX / 64) {
                let problem = format!("a shape of {:?} holds nothing, or more than can be counted", variable.shape);
                return Err(Error::Model { variable: name.clone(), problem });
            }
            let two = variable.shape.len() == 2;
            if !two && matches!(variable.gradient, Gradient::Product { .. } | Gradient::Rows { .. }) {
                let problem = format!(
                    "its gradient is made of rows or of products, and its shape {:?} has not two dimensions",
                    variable.shape
                );
                return Err(Error::Model { variable: name.clone(), problem });
            }
        }
        Ok(Self { variables })
    }

    /// The variable of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// Bytes of all variables.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.variables.iter().map(Variable::bytes).sum()
    }

    /// The first difference between this model and another that should be the same, if there is one: for peers that compare theirs.
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
        assert!(Model::new(vec![Variable::dense("bias", [3]), Variable::dense("scale", [])]).is_ok());
        for (variables, said) in [
            (vec![Variable::dense("a", [1]), Variable::dense("a", [2])], "a: there are two of that name"),
            (vec![Variable::dense("a", [3, 0])], "[3, 0] holds nothing"),
            (vec![Variable::dense("a", [usize::MAX, 3])], "more than can be counted"),
            (
                vec![Variable { name: "a".into(), shape: vec![4], gradient: Gradient::Rows { touched: 1 } }],
                "has not two dimensions",
            ),
        ] {
            let error = Model::new(variables).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_shape_is_that_of_a_matrix() {
        assert_eq!(Variable::dense("a", []).matrix(), (1, 1));
        assert_eq!(Variable::dense("a", [7]).matrix(), (7, 1));
        assert_eq!(Variable::dense("a", [64, 3, 5, 5]).matrix(), (64, 75));
        assert_eq!(Variable::dense("a", [64, 3, 5, 5]).bytes(), 64 * 75 * 4);
    }

    #[test]
    fn the_first_difference_is_named() {
        let model = |shapes: &[(&str, &[usize])]| Model {
            variables: shapes.iter().map(|(name, shape)| Variable::dense(*name, *shape)).collect(),
        };
        let one = model(&[("a", &[2]), ("b", &[3, 4])]);
        assert_eq!(one.first_difference(&one), None);
        let said = |other: &Model| one.first_difference(other).unwrap();
        assert_eq!(said(&model(&[("a", &[2]), ("c", &[3, 4])])), "variable 1 is b here and c there");
        assert_eq!(said(&model(&[("a", &[2]), ("b", &[4, 3])])), "b has the shape [3, 4] here and [4, 3] there");
        assert_eq!(said(&model(&[("a", &[2])])), "there are 2 variables here and 1 there: b is only here");
    }
}
