//! Short ways to write accesses and loops in unit tests.

use std::borrow::Cow;

use crate::access::{Access, ArrayUse, LoopSpec, Mode, Subscript};

pub(crate) fn access(mode: Mode, subscripts: &[Subscript]) -> Access {
    let text = format!("a[{}]", subscripts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    Access { name: 0, subscripts: Cow::Owned(subscripts.to_vec()), mode, text: Cow::Owned(text), line: 1, column: 1 }
}

pub(crate) fn read(subscripts: &[Subscript]) -> Access {
    access(Mode::Read, subscripts)
}

pub(crate) fn write(subscripts: &[Subscript]) -> Access {
    access(Mode::Write, subscripts)
}

pub(crate) fn update(subscripts: &[Subscript]) -> Access {
    access(Mode::Update, subscripts)
}

pub(crate) fn array<const N: usize>(name: &str, dimensions: usize, accesses: [Access; N]) -> ArrayUse {
    ArrayUse { name: name.to_owned(), dimensions, accesses: accesses.into(), buffered: Vec::new() }
}

pub(crate) fn spec<const N: usize>(dimensions: usize, arrays: [ArrayUse; N]) -> LoopSpec {
    LoopSpec { dimensions, ordered: false, arrays: arrays.into() }
}
