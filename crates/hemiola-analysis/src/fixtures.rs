//! Constructors of accesses and loops for unit tests.

use std::borrow::Cow;

use crate::access::{Access, AccessMode, ArrayAccesses, LoopSpec, Subscript};

pub(crate) fn access(mode: AccessMode, subscripts: &[Subscript]) -> Access {
    let text = format!("a[{}]", subscripts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    Access { name: 0, subscripts: Cow::Owned(subscripts.to_vec()), mode, text: Cow::Owned(text), line: 1, column: 1 }
}

pub(crate) fn read(subscripts: &[Subscript]) -> Access {
    access(AccessMode::Read, subscripts)
}

pub(crate) fn write(subscripts: &[Subscript]) -> Access {
    access(AccessMode::Write, subscripts)
}

pub(crate) fn update(subscripts: &[Subscript]) -> Access {
    access(AccessMode::Update, subscripts)
}

pub(crate) fn array<const N: usize>(name: &str, dimensions: usize, accesses: [Access; N]) -> ArrayAccesses {
    ArrayAccesses { name: name.to_owned(), dimensions, accesses: accesses.into(), buffered: Vec::new() }
}

pub(crate) fn spec<const N: usize>(dimensions: usize, arrays: [ArrayAccesses; N]) -> LoopSpec {
    LoopSpec { dimensions, ordered: false, arrays: arrays.into() }
}
