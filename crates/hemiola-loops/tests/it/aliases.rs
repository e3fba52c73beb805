//! One written array under two names. `parallel_for!` borrows a written array by `&mut`, so its
//! loops cannot do this. Code that makes captures by hand is refused when the loop is planned.

use hemiola_analysis::{Access, AccessMode, Subscript};
use hemiola_array::ArrayExt;
use hemiola_cluster::standalone;
use hemiola_loops::expand::probing::CaptureShared;
use hemiola_loops::expand::testing::for_each_index;
use hemiola_loops::expand::{CaptureProbe, LoopSite};
use hemiola_loops::plan::PlanSelector;
use std::borrow::Cow;

/// Site of a loop that accesses `array` and `other` in these modes, at the loop index.
fn site(modes: [AccessMode; 2]) -> &'static LoopSite {
    let access = |(name, mode)| Access {
        name,
        subscripts: Cow::Owned(vec![Subscript::Index { dimension: 0, offset: 0 }]),
        mode,
        text: "x[i]".into(),
        line: 0,
        column: 0,
    };
    let accesses: Vec<Access> = modes.into_iter().enumerate().map(access).collect();
    Box::leak(Box::new(LoopSite {
        file: "aliases.rs",
        line: 1,
        column: 1,
        ordered: false,
        repeated: false,
        explain: false,
        indices: &["i"],
        space: "0..64",
        names: &["array", "other"],
        accesses: accesses.leak(),
    }))
}

#[test]
fn an_array_that_is_written_has_one_name() {
    let (read, update) = (AccessMode::Read, AccessMode::Update);
    for (modes, refused) in [([update, update], true), ([update, read], true), ([read, read], false)] {
        let outcomes = standalone(1).workers(2).run(|cluster| {
            let array = cluster.zeros::<u64, 1>([64])?;
            let captures =
                (CaptureProbe::<_, true>(&array).capture(0), (CaptureProbe::<_, true>(&array).capture(1), ()));
            let selector = PlanSelector { select: &|_| 0, ratio: None };
            let ranges: [std::ops::Range<usize>; 1] = std::array::from_fn(|_| 0..64);
            let outcome = for_each_index(cluster, site(modes), ranges, &captures, |_, _| {}, selector);
            Ok(outcome.map(drop).map_err(|error| error.to_string()))
        });
        match outcomes.unwrap().remove(0) {
            Ok(()) => assert!(!refused),
            Err(error) => assert!(refused && error.contains("`array` and `other`"), "{error}"),
        }
    }
}
