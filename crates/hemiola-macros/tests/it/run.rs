//! Expansions compile, run and describe themselves.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Mul};

use hemiola::array::Element;
use hemiola::prelude::*;
use hemiola_analysis::{AccessMode, Subscript};

use crate::{on_clusters, values};

const RANK: usize = 2;
const STEP: f64 = 0.5;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn matrix_factorization_runs_like_the_serial_loop() {
    on_clusters(|cluster| {
        let ratings = cluster.from_fn([3, 2], |[u, i]| [1.0, 4.0, 2.0, 8.0, 5.0, 7.0][u * 2 + i])?;
        let mut w = cluster.from_fn([3, RANK], |[u, k]| [0.1, 0.2, 0.3, 0.4, 0.5, 0.6][u * RANK + k])?;
        let mut h = cluster.from_fn([2, RANK], |[i, k]| [0.9, 0.8, 0.7, 0.6][i * RANK + k])?;
        let loss = cluster.accumulator::<f64>();
        let (mut w_serial, mut h_serial, mut loss_serial) = (values(&w)?, values(&h)?, 0.0);

        let run = parallel_for!(
            cluster,
            repeated,
            for ([u, i], rating) in &ratings {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let error = rating - dot(wu, hi);
                for k in 0..RANK {
                    let (a, b) = (wu[k], hi[k]);
                    wu[k] += STEP * error * b;
                    hi[k] += STEP * error * a;
                }
                loss += error * error;
            }
        )?;

        for ([u, i], rating) in run.plan().in_order(ratings.collect()?) {
            let (wu, hi) = (&mut w_serial[u * RANK..][..RANK], &mut h_serial[i * RANK..][..RANK]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += STEP * error * b;
                hi[k] += STEP * error * a;
            }
            loss_serial += error * error;
        }
        assert_eq!((values(&w)?, values(&h)?), (w_serial, h_serial));
        assert!((loss.take()? / loss_serial - 1.0).abs() < 1e-12);

        let analysis = &run.plan().analysis;
        assert!(!analysis.ordered);
        assert_eq!(analysis.indices, ["u", "i"]);
        let text = run.plan().to_string();
        assert!(text.contains("run.rs:") && text.contains(", over &ratings:"), "{text}");
        let access = |array: &str| {
            let mut pairs = analysis.dependences.iter().flat_map(|dependence| &dependence.pairs);
            pairs.find(|pair| pair.array == array).map(|pair| pair.first.clone()).expect("an access of the array")
        };
        let (w_access, h_access) = (access("w"), access("h"));
        assert_eq!((w_access.mode, &*w_access.text), (AccessMode::Update, "&mut w[u]"));
        assert_eq!(w_access.subscripts[..], [Subscript::Index { dimension: 0, offset: 0 }]);
        assert_eq!(h_access.subscripts[..], [Subscript::Index { dimension: 1, offset: 0 }]);
        assert_eq!(w_access.line, h_access.line);
        assert_eq!(h_access.column - w_access.column, 11); // `w[u], &mut ` between them
        Ok(())
    });
}

#[test]
fn ranges_may_be_half_open_or_closed() {
    on_clusters(|cluster| {
        let (left, right) = (b"kitten", b"sitting");
        let (n, m) = (left.len(), right.len());
        let mut d = cluster.from_fn([n + 1, m + 1], |[i, j]| if i == 0 || j == 0 { i + j } else { 0 })?;
        parallel_for!(
            &cluster,
            ordered,
            for [i, j] in [1..n + 1, 1..=m] {
                let change = usize::from(left[i - 1] != right[j - 1]);
                d[[i, j]] = (d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1).min(d[[i - 1, j - 1]] + change);
            }
        )?;
        assert_eq!(values(&d)?.last(), Some(&3));

        let mut squares = cluster.zeros::<usize, 1>([4])?;
        parallel_for!(
            cluster,
            for i in 0..4 {
                squares[i] = i * i
            }
        )?;
        // A range may read an array that the body writes.
        parallel_for!(
            cluster,
            for i in 0..squares.shape().extent(0) {
                squares[i] += 1;
            }
        )?;
        assert_eq!(values(&squares)?, [1, 2, 5, 10]);
        let count = cluster.accumulator::<usize>();
        parallel_for!(
            cluster,
            for _ in 0..4 {
                count += 1
            }
        )?;
        parallel_for!(
            cluster,
            for [_, j] in [0..2, 0..3] {
                count += j;
            }
        )?;
        assert_eq!(count.take()?, 4 + 6);
        Ok(())
    });
}

#[test]
fn entries_can_be_changed_and_patterns_ignored() {
    on_clusters(|cluster| {
        let mut pairs = cluster.from_fn([3], |[k]| (k, 10 * k))?;
        let total = cluster.accumulator::<usize>();
        parallel_for!(
            cluster,
            for (i, (a, b)) in &mut pairs {
                if i == 1 {
                    continue;
                }
                *a += 1;
                *b += *a;
                total += *b;
            }
        )?;
        assert_eq!(values(&pairs)?, [(1, 1), (1, 10), (3, 23)]);
        assert_eq!(total.take()?, 24);
        let reference = &pairs;
        parallel_for!(
            cluster,
            for (_, &(a, _)) in reference {
                total += a;
            }
        )?;
        parallel_for!(
            cluster,
            for ([_], _) in &pairs {
                total += 100;
            }
        )?;
        parallel_for!(cluster, for (_, _) in &pairs {})?;
        assert_eq!(total.take()?, 305);
        Ok(())
    });
}

/// A model whose methods run loops over its fields. `C` combines the values of the accumulator.
struct Model<C> {
    weights: DistArray<f64, 1>,
    scale: f64,
    loss: Accumulator<f64, C>,
    name: String,
}

fn scaled(scale: f64, x: f64) -> f64 {
    scale * x
}

impl<C: Fn(f64, f64) -> f64 + Sync> Model<C> {
    fn train(&mut self, cluster: &Cluster, pair: (f64, usize)) -> hemiola::Result<()> {
        let n = self.weights.shape().extent(0);
        parallel_for!(
            cluster,
            for i in 0..n {
                let x = self.weights[i] + pair.0 * self.scale;
                self.weights[i] = scaled(self.scale, x);
                self.loss += x;
                assert!(self.name.len() + pair.1 > 3, "{} {pair:?}", self.name);
            }
        )?;
        Ok(())
    }

    /// Only accumulators and values that are read, so the model is borrowed by `&`.
    fn measure(&self, cluster: &Cluster) -> hemiola::Result<()> {
        parallel_for!(
            cluster,
            for i in 0..2 {
                self.loss += self.weights[i] * self.scale
            }
        )?;
        Ok(())
    }
}

#[test]
fn methods_use_fields_of_self() {
    on_clusters(|cluster| {
        let (weights, loss) = (cluster.from_fn([2], |_| 1.0)?, cluster.accumulator());
        let mut model = Model { weights, scale: 2.0, loss, name: "model".to_owned() };
        model.train(cluster, (0.5, 1))?;
        assert_eq!(values(&model.weights)?, [4.0, 4.0]);
        assert!((model.loss.take()? - 4.0).abs() < f64::EPSILON);
        model.measure(cluster)?;
        assert!((model.loss.take()? - 16.0).abs() < f64::EPSILON);
        Ok(())
    });
}

/// Writes `source * by` to `array`. Returns the sum of all cells of `source` and `table`.
fn scale<T, const N: usize>(
    cluster: &Cluster,
    by: T,
    source: &DistArray<T, 1>,
    array: &mut DistArray<T, 1>,
    table: &mut DistArray<T, N>,
) -> hemiola::Result<T>
where
    T: Element + Copy + Default + Add<Output = T> + Mul<Output = T> + AddAssign,
{
    let sum = cluster.accumulator::<T>();
    parallel_for!(
        cluster,
        for (i, &x) in source {
            array[i] = x * by;
            sum += x;
        }
    )?;
    parallel_for!(
        cluster,
        for (_, x) in table {
            sum += *x;
        }
    )?;
    let sum = sum.take()?;
    Ok(sum)
}

#[test]
fn functions_may_be_generic_and_arrays_behind_references() {
    on_clusters(|cluster| {
        let (source, mut array) = (cluster.from_fn([3], |_| 1.5)?, cluster.zeros([3])?);
        let sum = scale(cluster, 2.0, &source, &mut array, &mut cluster.from_fn([2, 2], |_| 10.0)?)?;
        assert_eq!(values(&array)?, [3.0; 3]);
        assert!((sum - 44.5_f64).abs() < f64::EPSILON);

        let mut owned = cluster.from_fn([2], |_| 1_u32)?;
        let behind = &mut owned;
        parallel_for!(
            cluster,
            for i in 0..2 {
                (*behind)[i] += 1;
                behind[i] += 1;
            }
        )?;
        assert_eq!(values(behind)?, [3, 3]);
        Ok(())
    });
}

#[test]
fn accumulators_buffers_and_read_arrays_are_shared() {
    on_clusters(|cluster| {
        let (array, sum) = (cluster.from_fn([4], |[k]| k)?, cluster.accumulator::<usize>());
        let (other, again) = (&array, &sum);
        let buffer = array.buffered(|cell: &mut usize, more: usize| *cell += more);
        parallel_for!(
            cluster,
            for i in 0..4 {
                buffer[i] += 1;
                sum += array[i] + other[i];
                again += 1;
            }
        )?;
        assert_eq!(sum.take()?, 2 * 6 + 4);
        assert_eq!(values(&array)?, [1, 2, 3, 4]);
        Ok(())
    });
}

#[test]
fn plain_values_of_all_kinds_are_borrowed() {
    on_clusters(|cluster| {
        let names = ["a".to_owned(), "b".to_owned()];
        let lookup: BTreeMap<&str, u32> = [("a", 1), ("b", 2)].into();
        let slice: &[u32] = &[7, 8];
        let optional = Some(String::from("x"));
        let convert = |x: u32| f64::from(x);
        let (offset, step) = (3, 2);
        let sum = cluster.accumulator::<f64>();
        parallel_for!(
            cluster,
            for i in 0..2 {
                let found = lookup[names[i].as_str()];
                let text = match optional {
                    Some(ref text) if text.len() == 1 => 1,
                    _ => 0,
                };
                let numbers: Vec<f64> = slice.iter().copied().map(convert).collect();
                let Some(last) = numbers.last() else { continue };
                if let Some(name) = &optional
                    && name == "y"
                {
                    continue;
                }
                sum += convert(found + text + offset * step) + last;
            }
        )?;
        assert!((sum.take()? - (2.0 * (1.0 + 6.0 + 8.0) + 3.0)).abs() < f64::EPSILON);
        Ok(())
    });
}

#[test]
fn buffers_and_arrays_of_lists_are_written() {
    on_clusters(|cluster| {
        let samples = cluster.from_fn([2], |[k]| vec![k, k + 1])?;
        let w = cluster.zeros::<f64, 1>([3])?;
        let mut seen = cluster.zeros::<Vec<usize>, 1>([3])?;
        let buffer = w.buffered(|cell: &mut f64, change: f64| *cell += change);
        parallel_for!(
            cluster,
            explain,
            for (row, features) in &samples {
                for &j in features {
                    buffer[j] += w[j] + 1.0;
                    seen[j].push(row);
                }
            }
        )?;
        assert_eq!(values(&w)?, [1.0, 2.0, 1.0]);
        assert_eq!(values(&seen)?, [vec![0], vec![0, 1], vec![1]]);
        Ok(())
    });
}

#[test]
fn names_of_the_expansion_do_not_meet_names_of_the_user() {
    on_clusters(|cluster| {
        let (site, captures, __recorder_0, run_time, ranges) = (1_usize, 2_usize, 3_usize, 4_usize, 1_usize);
        let sum = cluster.accumulator::<usize>();
        let w = cluster.from_fn([9], |[k]| k)?;
        let samples = cluster.from_fn([1], |_| vec![5_usize])?;
        parallel_for!(
            cluster,
            for (_, list) in &samples {
                for &j in list {
                    let w_ = j;
                    sum += w[w_] + site + captures + __recorder_0 + run_time;
                }
            }
        )?;
        parallel_for!(
            cluster,
            for i in 0..ranges {
                sum += i + ranges;
            }
        )?;
        assert_eq!(sum.take()?, 16);
        assert_eq!(site + captures + __recorder_0 + run_time, 10);
        Ok(())
    });
}

#[test]
fn a_body_may_end_in_any_expression_of_no_value() {
    on_clusters(|cluster| {
        let sum = cluster.accumulator::<usize>();
        parallel_for!(
            cluster,
            for i in 0..3 {
                if i > 0 {
                    sum += i
                }
            }
        )?;
        parallel_for!(
            cluster,
            for i in 0..3 {
                match i {
                    0 => {}
                    _ => sum += i,
                }
            }
        )?;
        parallel_for!(
            cluster,
            for i in 0..3 {
                for k in 0..i {
                    sum += k
                }
            }
        )?;
        parallel_for!(
            cluster,
            for i in 0..3 {
                assert!(i < 3)
            }
        )?;
        parallel_for!(
            cluster,
            for _ in 0..0 {
                unreachable!()
            }
        )?;
        assert_eq!(sum.take()?, 3 + 3 + 1);
        Ok(())
    });
}
