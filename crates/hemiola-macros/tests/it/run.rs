//! Expansions compile, run and describe themselves.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Mul};

use hemiola_analysis::{AccessMode, Subscript};
use hemiola_macros::parallel_for;

use crate::loops::kinds::Element;
use crate::loops::{Accumulator, Cluster, DistArray, Result};

const RANK: usize = 2;
const STEP: f64 = 0.5;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn matrix_factorization_runs_like_the_serial_loop() -> Result<()> {
    let cluster = Cluster;
    let ratings = cluster.filled([3, 2], |k| [1.0, 4.0, 2.0, 8.0, 5.0, 7.0][k]);
    let w = cluster.filled([3, RANK], |k| [0.1, 0.2, 0.3, 0.4, 0.5, 0.6][k]);
    let h = cluster.filled([2, RANK], |k| [0.9, 0.8, 0.7, 0.6][k]);
    let loss = cluster.accumulator::<f64>();

    let (mut w_serial, mut h_serial, mut loss_serial) = (w.values(), h.values(), 0.0);
    for u in 0..3 {
        for i in 0..2 {
            let (wu, hi) = (&mut w_serial[u * RANK..][..RANK], &mut h_serial[i * RANK..][..RANK]);
            let error = ratings.values()[u * 2 + i] - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += STEP * error * b;
                hi[k] += STEP * error * a;
            }
            loss_serial += error * error;
        }
    }

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
    assert_eq!((w.values(), h.values()), (w_serial, h_serial));
    assert!((loss.take() - loss_serial).abs() < f64::EPSILON);

    let site = run.site;
    assert!(site.repeated && !site.ordered && !site.explain);
    assert!(site.file.ends_with("run.rs"));
    assert_eq!((site.indices, site.space, site.names), (&["u", "i"][..], "&ratings", &["w", "h", "loss"][..]));
    let first = &site.accesses[0];
    assert_eq!((first.name, first.mode, &*first.text), (0, AccessMode::Update, "&mut w[u]"));
    assert_eq!(first.subscripts[..], [Subscript::Index { dimension: 0, offset: 0 }]);
    let [w_access, h_access, loss_access] = site.accesses else { panic!("three accesses") };
    assert!(site.line < w_access.line && w_access.line == h_access.line && h_access.line < loss_access.line);
    assert_eq!(h_access.column - w_access.column, 11); // `w[u], &mut ` between them
    Ok(())
}

#[test]
fn ranges_may_be_half_open_or_closed() -> Result<()> {
    let cluster = Cluster;
    let (left, right) = (b"kitten", b"sitting");
    let (n, m) = (left.len(), right.len());
    let d = cluster.filled([n + 1, m + 1], |k| {
        if k % (m + 1) == 0 {
            k / (m + 1)
        } else if k <= m {
            k
        } else {
            0
        }
    });
    parallel_for!(
        &cluster,
        ordered,
        for [i, j] in [1..n + 1, 1..=m] {
            let change = usize::from(left[i - 1] != right[j - 1]);
            d[[i, j]] = (d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1).min(d[[i - 1, j - 1]] + change);
        }
    )?;
    assert_eq!(d.values().last(), Some(&3));

    let squares = cluster.array::<usize, 1>([4]);
    parallel_for!(
        cluster,
        for i in 0..4 {
            squares[i] = i * i
        }
    )?;
    assert_eq!(squares.values(), [0, 1, 4, 9]);
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
    assert_eq!(count.take(), 4 + 6);
    Ok(())
}

#[test]
fn entries_can_be_changed_and_patterns_ignored() -> Result<()> {
    let cluster = Cluster;
    let mut pairs = cluster.filled([3], |k| (k, 10 * k));
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
    assert_eq!(pairs.values(), [(1, 1), (1, 10), (3, 23)]);
    assert_eq!(total.take(), 24);
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
    assert_eq!(total.take(), 305);
    Ok(())
}

struct Model {
    weights: DistArray<f64, 1>,
    scale: f64,
    loss: Accumulator<f64>,
    name: String,
}

impl Model {
    fn scaled(&self, x: f64) -> f64 {
        self.scale * x
    }

    fn train(&self, cluster: &Cluster, pair: (f64, usize)) -> Result<()> {
        let n = self.weights.shape[0];
        parallel_for!(
            cluster,
            for i in 0..n {
                let x = self.weights[i] + pair.0 * self.scale;
                self.weights[i] = self.scaled(x);
                self.loss += x;
                assert!(self.name.len() + pair.1 > 3, "{} {pair:?}", self.name);
            }
        )?;
        Ok(())
    }

    fn train_in_place(&mut self, cluster: &Cluster) -> Result<()> {
        self.scale = 1.0;
        parallel_for!(
            cluster,
            for i in 0..2 {
                self.weights[i] += self.scale
            }
        )?;
        Ok(())
    }
}

#[test]
fn methods_use_fields_of_self() -> Result<()> {
    let cluster = Cluster;
    let (weights, loss) = (cluster.filled([2], |_| 1.0), cluster.accumulator());
    let mut model = Model { weights, scale: 2.0, loss, name: "model".to_owned() };
    model.train(&cluster, (0.5, 1))?;
    model.train_in_place(&cluster)?;
    assert_eq!(model.weights.values(), [5.0, 5.0]);
    assert!((model.loss.take() - 4.0).abs() < f64::EPSILON);
    Ok(())
}

fn scale<T, const N: usize>(
    cluster: &Cluster,
    by: T,
    array: &DistArray<T, 1>,
    table: &mut DistArray<T, N>,
) -> Result<()>
where
    T: Element + Copy + Mul<Output = T> + AddAssign,
{
    let sum = cluster.accumulator::<T>();
    parallel_for!(
        cluster,
        for (i, &x) in array {
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
    array.put(vec![sum.take()]);
    Ok(())
}

#[test]
fn functions_may_be_generic_and_arrays_behind_references() -> Result<()> {
    let cluster = Cluster;
    let array = cluster.filled([3], |_| 1.5);
    scale(&cluster, 2.0, &array, &mut cluster.filled([2, 2], |_| 10.0))?;
    assert_eq!(array.values(), [44.5]);

    let mut owned = cluster.filled([2], |_| 1_u32);
    let behind = &mut owned;
    parallel_for!(
        cluster,
        for i in 0..2 {
            (*behind)[i] += 1;
            behind[i] += 1;
        }
    )?;
    assert_eq!(behind.values(), [3, 3]);
    Ok(())
}

#[test]
fn plain_values_of_all_kinds_are_borrowed() -> Result<()> {
    let cluster = Cluster;
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
    assert!((sum.take() - (2.0 * (1.0 + 6.0 + 8.0) + 3.0)).abs() < f64::EPSILON);
    Ok(())
}

#[test]
fn buffers_and_arrays_of_lists_are_written() -> Result<()> {
    let cluster = Cluster;
    let samples: DistArray<Vec<usize>, 1> = cluster.filled([2], |k| vec![k, k + 1]);
    let w = cluster.array::<f64, 1>([3]);
    let seen = cluster.array::<Vec<usize>, 1>([3]);
    let buffer = w.buffered();
    let run = parallel_for!(
        cluster,
        explain,
        for (row, features) in &samples {
            for &j in features {
                buffer[j] += w[j] + 1.0;
                seen[j].push(row);
            }
        }
    )?;
    assert_eq!(w.values(), [1.0, 2.0, 1.0]);
    assert_eq!(seen.values(), [vec![0], vec![0, 1], vec![1]]);
    assert!(run.site.explain);
    Ok(())
}

#[test]
fn names_of_the_expansion_do_not_meet_names_of_the_user() -> Result<()> {
    let cluster = Cluster;
    let (site, captures, __recorder_0, run_time) = (1_usize, 2_usize, 3_usize, 4_usize);
    let sum = cluster.accumulator::<usize>();
    let w = cluster.filled([9], |k| k);
    let samples: DistArray<Vec<usize>, 1> = cluster.filled([1], |_| vec![5]);
    parallel_for!(
        cluster,
        for (_, list) in &samples {
            for &j in list {
                let w_ = j;
                sum += w[w_] + site + captures + __recorder_0 + run_time;
            }
        }
    )?;
    assert_eq!(sum.take(), 15);
    assert_eq!(site + captures + __recorder_0 + run_time, 10);
    Ok(())
}

#[test]
fn a_body_may_end_in_any_expression_of_no_value() -> Result<()> {
    let cluster = Cluster;
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
    assert_eq!(sum.take(), 3 + 3 + 1);
    Ok(())
}
