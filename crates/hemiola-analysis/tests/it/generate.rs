//! Random loops for the oracle.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hemiola_analysis::{Access, AccessMode, ArrayAccesses, LoopSpec, Subscript};
use proptest::prelude::*;

use crate::oracle::ConcreteLoop;

/// Loops with 1 to 3 indices of 1 to 5 values each, over up to two arrays, with subscripts of all
/// kinds.
pub(crate) fn program() -> impl Strategy<Value = ConcreteLoop> {
    (1_usize..=3).prop_flat_map(|dimensions| {
        let ranges =
            prop::collection::vec((0_i64..3, 1_i64..=5).prop_map(|(from, size)| from..from + size), dimensions);
        let arrays = prop::collection::vec(prop_oneof![array(subscript(dimensions)), stencil(dimensions)], 1..=2);
        let invariants = (0_i64..6, 0_i64..6);
        (ranges, arrays, invariants, any::<bool>(), any::<u64>()).prop_map(
            move |(ranges, arrays, (n, m), ordered, seed)| {
                let invariants = BTreeMap::from([("n".to_owned(), n), ("m".to_owned(), m)]);
                ConcreteLoop { spec: LoopSpec { dimensions, ordered, arrays }, ranges, invariants, seed }
            },
        )
    })
}

/// Loops whose subscripts are loop indices and literals, over ranges so wide that every possible
/// conflict occurs.
///
/// An array has up to 3 dimensions, each an equation between indices and literals that moves a
/// solution by 2 at most; a difference that is not fixed can be moved by one more. So 3 * 2 + 1 on
/// either side of zero is enough.
pub(crate) fn wide_program() -> impl Strategy<Value = ConcreteLoop> {
    (1_usize..=3).prop_flat_map(|dimensions| {
        let subscript = prop_oneof![
            4 => (0..dimensions, -1_i64..=1).prop_map(|(dimension, offset)| Subscript::Index { dimension, offset }),
            1 => (-1_i64..=1).prop_map(Subscript::Constant),
        ];
        prop::collection::vec(array(subscript), 1..=2).prop_map(move |arrays| ConcreteLoop {
            spec: LoopSpec { dimensions, ordered: false, arrays },
            ranges: vec![-7..8; dimensions],
            invariants: BTreeMap::new(),
            seed: 0,
        })
    })
}

fn subscript(dimensions: usize) -> impl Strategy<Value = Subscript> + Clone {
    let end = || prop::option::of(0_i64..6);
    prop_oneof![
        10 => (0..dimensions, -2_i64..=2).prop_map(|(dimension, offset)| Subscript::Index { dimension, offset }),
        5 => (0..dimensions).prop_map(Subscript::index),
        2 => (0_i64..6).prop_map(Subscript::Constant),
        3 => prop_oneof![Just("n"), Just("m")].prop_map(|text| Subscript::Invariant(Cow::Borrowed(text))),
        2 => (end(), end()).prop_map(|(from, to)| Subscript::Range { from, to }),
        1 => Just(Subscript::Unknown),
    ]
}

fn array(subscript: impl Strategy<Value = Subscript> + Clone) -> impl Strategy<Value = ArrayAccesses> {
    (1_usize..=3).prop_flat_map(move |dimensions| {
        // Rarely fewer subscripts than dimensions.
        let count = prop_oneof![6 => Just(dimensions), 1 => 0..=dimensions];
        let access = count
            .prop_flat_map({
                let subscript = subscript.clone();
                move |count| (prop::collection::vec(subscript.clone(), count), mode())
            })
            .prop_map(|(subscripts, mode)| access(mode, subscripts));
        prop::collection::vec(access, 1..=3).prop_map(move |accesses| ArrayAccesses {
            name: "a".to_owned(),
            dimensions,
            accesses,
            buffered: Vec::new(),
        })
    })
}

/// An array whose every dimension follows one loop dimension at any offset, as in most programs.
fn stencil(loop_dimensions: usize) -> impl Strategy<Value = ArrayAccesses> {
    prop::collection::vec(0..loop_dimensions, 1..=3).prop_flat_map(|followed| {
        let dimensions = followed.len();
        let access = (prop::collection::vec(-2_i64..=2, dimensions), mode()).prop_map(move |(offsets, mode)| {
            let subscripts =
                followed.iter().zip(offsets).map(|(&dimension, offset)| Subscript::Index { dimension, offset });
            access(mode, subscripts.collect())
        });
        prop::collection::vec(access, 1..=3).prop_map(move |accesses| ArrayAccesses {
            name: "a".to_owned(),
            dimensions,
            accesses,
            buffered: Vec::new(),
        })
    })
}

fn mode() -> impl Strategy<Value = AccessMode> {
    prop_oneof![Just(AccessMode::Read), Just(AccessMode::Write), Just(AccessMode::Update)]
}

pub(crate) fn access(mode: AccessMode, subscripts: Vec<Subscript>) -> Access {
    let text = subscripts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let text = Cow::Owned(format!("a[{text}]"));
    Access { name: 0, subscripts: Cow::Owned(subscripts), mode, text, line: 1, column: 1 }
}
