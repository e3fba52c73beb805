//! Numbers in a save that are no distributed array: any number of peers writes and reads them.

use hemiola_array::ArrayExt;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_core::Rank;
use std::path::Path;

fn load<T: Clone + Send + 'static>(
    peers: usize,
    path: &Path,
    get: impl Fn(&ArrayLoader) -> Result<T> + Send + Sync,
) -> Result<Vec<T>> {
    standalone(peers).run(|cluster| get(&ArrayLoader::open(cluster, path)?))
}

fn load_error<T>(result: Result<T>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn numbers_of_any_peer_are_loaded_by_every_peer_and_as_an_array() {
    let folder = tempfile::tempdir().unwrap();
    for (writers, readers) in [(1, 3), (3, 1), (2, 4)] {
        let path = folder.path().join(writers.to_string());
        let write = |cluster: &Cluster| {
            let last = Rank::new(cluster.size() as u32 - 1);
            let mut save = ArraySaver::begin(cluster, &path)?;
            save.put_values("all", [2, 3], &[0.5_f64, 1.0, -2.0, 0.0, 4.0, 8.0])?;
            // The others have nothing.
            let own: &[u16] = if cluster.rank() == last { &[7, 65_535, 0] } else { &[] };
            save.put_values_of(last, "own", [3], own)?;
            save.put_values::<u8, 1>("none", [0], &[])?;
            save.commit()
        };
        standalone(writers).run(write).unwrap();
        for all in load(readers, &path, |load| load.values::<f64, 2>("all")).unwrap() {
            assert_eq!((all.extents, all.values), ([2, 3], vec![0.5, 1.0, -2.0, 0.0, 4.0, 8.0]));
        }
        let own = load(readers, &path, |load| load.values_of::<u16, 1>(Rank::ROOT, "own")).unwrap();
        for (rank, own) in own.into_iter().enumerate() {
            assert_eq!(own.extents, [3]);
            assert_eq!(own.values, if rank == 0 { vec![7, 65_535, 0] } else { Vec::new() });
        }
        for none in load(readers, &path, |load| load.values::<u8, 1>("none")).unwrap() {
            assert!(none.values.is_empty());
        }
        let array = load(readers, &path, |load| load.get::<f64, 2>("all")?.collect()).unwrap();
        assert_eq!(array[0][5], ([1, 2], 8.0));
    }
}

/// Saves of earlier versions hold weights as arrays in several parts.
#[test]
fn an_array_in_several_parts_is_loaded_as_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let write = |cluster: &Cluster| {
        let mut save = ArraySaver::begin(cluster, &path)?;
        save.put("w", &cluster.from_fn([10, 3], |[row, column]| (row * 3 + column) as f32)?)?;
        save.commit()
    };
    standalone(4).run(write).unwrap();
    let expected: Vec<f32> = (0..30_u8).map(f32::from).collect();
    for saved in load(2, &path, |load| load.values::<f32, 2>("w")).unwrap() {
        assert_eq!((saved.extents, &saved.values), ([10, 3], &expected));
    }
}

#[test]
fn numbers_that_no_model_can_use_are_errors_on_every_peer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let write = |cluster: &Cluster| {
        let mut save = ArraySaver::begin(cluster, &path)?;
        save.put_values("w", [2], &[1.0_f32, f32::NAN])?;
        save.put("s", &cluster.from_fn([2, 2], |[row, _]| row as f32)?.entries().materialize()?)?;
        save.commit()
    };
    standalone(2).run(write).unwrap();
    let error = load_error(load(3, &path, |load| load.values::<f32, 1>("w")));
    assert!(error.contains("array `w` has an element `NaN`, which no model can use"), "{error}");
    // One peer reads: all learn that it failed.
    let error = load_error(load(3, &path, |load| load.values_of::<f32, 1>(Rank::new(1), "w")));
    assert!(error.contains("array `w` has an element `NaN`"), "{error}");
    let error = load_error(load(2, &path, |load| load.values::<f64, 1>("w")));
    assert!(error.contains("array `w` holds F32, not F64 as requested"), "{error}");
    let error = load_error(load(2, &path, |load| load.values::<f32, 2>("s")));
    assert!(error.contains("array `s` is sparse"), "{error}");
}
