//! Numbers in a save that are no distributed array: weights that every peer has, dual variables,
//! counts.
//!
//! They are stored as a dense array, so that [`ArrayLoader::get`] loads them as well, and
//! [`ArrayLoader::values`] loads any dense array. **Invariant:** no [`DistArray`](super::DistArray)
//! is built. The code that partitions and shuffles entries is compiled once per element type, and
//! is by far the largest part of a program that loads arrays.

use crate::dist::agree::agree;
use crate::dist::store::{ArrayLoader, ArraySaver};
use crate::save::TensorElement;
use crate::{DenseArray, Error, Shape};
use hemiola_cluster::Result;
use hemiola_core::Rank;

/// Numbers of a save in the order of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedValues<T, const N: usize> {
    /// Extents of the array.
    pub extents: [usize; N],
    /// Numbers, the last dimension fastest.
    pub values: Vec<T>,
}

impl ArraySaver {
    /// *Collective.* Saves numbers that every peer has, in the order of rows. The root writes them.
    ///
    /// ```
    /// use hemiola_array::dist::{ArrayLoader, ArraySaver};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model");
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let mut save = ArraySaver::begin(cluster, &path)?;
    ///     save.put_values("weights", [2, 3], &[0.5, 0.0, 1.0, 2.0, 0.0, 4.0])?;
    ///     save.commit()?;
    ///     let weights = ArrayLoader::open(cluster, &path)?.values::<f64, 2>("weights")?;
    ///     assert_eq!(weights.extents, [2, 3]);
    ///     assert_eq!(weights.values[5], 4.0);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if there is not one number per cell.
    pub fn put_values<T: TensorElement, const N: usize>(
        &mut self,
        name: &str,
        extents: [usize; N],
        values: &[T],
    ) -> Result<()> {
        self.put_values_of(Rank::ROOT, name, extents, values)
    }

    /// *Collective.* Saves numbers that the peer `owner` has; `values` of the others is ignored.
    ///
    /// # Panics
    /// Panics at the owner if there is not one number per cell.
    pub fn put_values_of<T: TensorElement, const N: usize>(
        &mut self,
        owner: Rank,
        name: &str,
        extents: [usize; N],
        values: &[T],
    ) -> Result<()> {
        let Self { cluster, writer, manifest } = self;
        let shape = Shape::new(extents);
        let write = || writer.write_dense(name, 0, 0, &DenseArray::from_cells(shape, values)?).map(Some);
        let part = agree(cluster, if cluster.rank() == owner { write() } else { Ok(None) })?;
        let part = cluster.broadcast_from(owner, part)?;
        manifest.add_dense::<T, N>(name, shape, part.into_iter().collect());
        Ok(())
    }
}

impl ArrayLoader {
    /// *Collective.* Loads a dense array to every peer. Returns an error that names the array if a
    /// number is NaN or infinite.
    pub fn values<T: TensorElement, const N: usize>(&self, name: &str) -> Result<SavedValues<T, N>> {
        agree(&self.cluster, self.read_values(name))
    }

    /// *Collective.* Loads a dense array to the peer `owner`, as [`values`](Self::values) does; the
    /// others get the extents and no numbers.
    pub fn values_of<T: TensorElement, const N: usize>(&self, owner: Rank, name: &str) -> Result<SavedValues<T, N>> {
        let values = if self.cluster.rank() == owner {
            self.read_values(name)
        } else {
            let array = self.reader.array::<T, N>(name);
            array.map(|(_, shape)| SavedValues { extents: shape.extents(), values: Vec::new() })
        };
        agree(&self.cluster, values)
    }

    fn read_values<T: TensorElement, const N: usize>(&self, name: &str) -> crate::Result<SavedValues<T, N>> {
        let (record, shape) = self.reader.array::<T, N>(name)?;
        let bad = |problem: String| Error::BadSave { path: self.reader.folder().to_owned(), problem };
        let (mut values, mut rows) = (Vec::new(), 0);
        for (number, part) in record.parts.iter().enumerate() {
            if part.first != rows {
                return Err(bad(format!("the part {number} of array `{name}` starts at {}, not {rows}", part.first)));
            }
            rows += part.length;
            values.extend(self.reader.read_dense::<T, N>(name, number)?.1.to_cells());
        }
        if rows != shape.extent(0) {
            return Err(bad(format!("array `{name}` has {rows} rows, not {}", shape.extent(0))));
        }
        match values.iter().find_map(TensorElement::non_finite) {
            Some(value) => Err(bad(format!("array `{name}` has an element `{value}`, which no model can use"))),
            None => Ok(SavedValues { extents: shape.extents(), values }),
        }
    }
}
