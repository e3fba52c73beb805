//! A slice predicts exactly the reads of the body.

use std::collections::BTreeMap;

use hemiola_macros::parallel_for;

use crate::loops::{Cluster, DistArray, LoopReport, Result};

fn touched(run: &LoopReport, name: &str) -> Vec<String> {
    let number = run.site.names.iter().position(|known| *known == name).expect("a captured name");
    run.touched.iter().filter(|(touched, _)| *touched == number).map(|(_, subscript)| subscript.clone()).collect()
}

#[test]
fn features_of_a_sample_are_touched_in_their_order() -> Result<()> {
    let cluster = Cluster;
    let samples: DistArray<Vec<(usize, f64)>, 1> = cluster.filled([2], |k| vec![(k, 1.0), (3 - k, 2.0)]);
    let w = cluster.filled([4], |_| 0.5);
    let labels = cluster.filled([2], |_| 1.0);
    let gradient = cluster.array::<f64, 1>([4]);
    let run = parallel_for!(
        cluster,
        for (row, features) in &samples {
            let mut dot = 0.0;
            for &(j, x) in features {
                dot += w[j] * x;
            }
            let error = dot - labels[row];
            for &(j, x) in features {
                gradient[j] += error * x;
            }
        }
    )?;
    assert_eq!(touched(&run, "w"), ["0", "3", "1", "2"]);
    assert_eq!(touched(&run, "gradient"), ["0", "3", "1", "2"]);
    assert!(touched(&run, "labels").is_empty());
    Ok(())
}

#[test]
fn subscripts_from_plain_tables_are_predicted_and_from_arrays_are_not() -> Result<()> {
    let cluster = Cluster;
    let plain = vec![vec![2_usize, 0], vec![1]];
    let array = cluster.filled([2], |k| 1 - k);
    let w = cluster.filled([3], |k| k);
    let (out, first) = (cluster.accumulator::<usize>(), String::from("x"));
    let run = parallel_for!(
        cluster,
        for i in 0..2 {
            let row = &plain[i];
            let name = first.clone();
            for &j in row {
                out += w[j] + name.len();
            }
            let from_array = array[i];
            if from_array == 7 {
                out += w[from_array];
            }
            let last = row[row.len() - 1];
            out += w[last];
        }
    )?;
    assert_eq!(touched(&run, "w"), ["2", "0", "0", "1", "1"]);
    assert_eq!(out.take(), 7);
    Ok(())
}

#[test]
fn conditions_and_early_ends_are_respected() -> Result<()> {
    let cluster = Cluster;
    let entries: DistArray<usize, 1> = cluster.filled([4], |k| k);
    let skip = [false, true, false, false];
    let w = cluster.filled([4, 2], |k| k);
    let sum = cluster.accumulator::<usize>();
    let run = parallel_for!(
        cluster,
        for (i, &entry) in &entries {
            if skip[i] {
                continue;
            }
            let limit = entry.min(1);
            if entry > 2 || w[[entry, limit]] > 100 {
                continue;
            }
            let column = if entry % 2 == 0 { 0 } else { limit };
            sum += w[[entry, column]] + (0..limit).map(|k| w[[entry, k]]).sum::<usize>();
        }
    )?;
    // Entry 3 ends before it reads, entry 1 is skipped, entry 2 reads a second time in the
    // iterator. The condition on `w` itself is unknown, so the prediction ends there.
    assert_eq!(touched(&run, "w"), ["[0, 0]", "[2, 1]"]);
    assert_eq!(sum.take(), 4 + 4);
    Ok(())
}

#[test]
fn changed_entries_are_seen_as_they_were_before() -> Result<()> {
    let cluster = Cluster;
    let mut places: DistArray<(usize, f64), 1> = cluster.filled([3], |k| (2 - k, 0.0));
    let w = cluster.filled([3], |_| 1.5);
    let run = parallel_for!(
        cluster,
        for (_, (place, value)) in &mut places {
            *value += w[*place];
        }
    )?;
    assert_eq!(touched(&run, "w"), ["2", "1", "0"]);
    assert_eq!(places.values(), [(2, 1.5), (1, 1.5), (0, 1.5)]);
    Ok(())
}

/// Bodies that are hard to slice: every body that compiles must compile as a slice.
#[test]
fn slices_of_tangled_bodies_compile_and_predict() -> Result<()> {
    let cluster = Cluster;
    let entries: DistArray<Vec<usize>, 1> = cluster.filled([2], |k| vec![k + 1, k]);
    let w = cluster.filled([8], |k| k);
    let order = [3_usize, 2];
    let names = vec![String::from("a"), String::from("bb")];
    let table: BTreeMap<String, usize> = names.iter().map(|name| (name.clone(), name.len())).collect();
    let lists = vec![Some(vec![1_usize, 4]), None];
    let sum = cluster.accumulator::<usize>();

    // Moved values, pending options, and tuples of them.
    let run = parallel_for!(
        cluster,
        for (i, entry) in &entries {
            let (first, name) = (order[i], names[i].clone());
            let key = name;
            let found = table[&key];
            let list = lists[i].clone();
            if let Some(list) = list {
                for place in list {
                    sum += w[place + first];
                }
            }
            let [a, b] = [found + 4, entry[0]];
            sum += w[a] + w[b];
        }
    )?;
    assert_eq!(touched(&run, "w"), ["4", "7", "5", "1", "6", "2"]);

    // Changing locals, stacks, labels.
    let run = parallel_for!(
        cluster,
        for (i, entry) in &entries {
            let mut stack = vec![i];
            let mut visited = [false; 8];
            'walk: while let Some(top) = stack.pop() {
                if visited[top] {
                    continue;
                }
                visited[top] = true;
                for &next in entry {
                    if next + top > 5 {
                        break 'walk;
                    }
                    stack.push((next + top) % 8);
                }
                sum += w[top];
            }
        }
    )?;
    assert!(!run.touched.is_empty());

    // Shadowing, references to locals, closures of the body, functions of the body.
    let run = parallel_for!(
        cluster,
        for (i, entry) in &entries {
            fn twice(x: usize) -> usize {
                2 * x
            }
            let shift = |x: usize| x + order.len();
            let mut copy = entry.clone();
            copy.sort_unstable();
            let smallest = &mut copy[0];
            *smallest += 1;
            let i = twice(i);
            let total: usize = entry.iter().copied().filter(|&x| x < 8).map(|x| w[x] + w[shift(x) % 8]).sum();
            sum += w[i] + total + w[copy[0]];
        }
    )?;
    assert_eq!(touched(&run, "w").iter().filter(|place| *place == "0" || *place == "2").count(), 5);

    // An array that is indexed with its own values: nothing to predict, nothing to fail.
    let run = parallel_for!(
        cluster,
        for i in 0..2 {
            let next = w[w[i]];
            w[next] += w[i];
            let Some(&last) = order.get(i) else { continue };
            sum += last;
        }
    )?;
    assert!(run.touched.is_empty());
    sum.take();
    Ok(())
}

fn generic<T: Copy + Into<usize>>(cluster: &Cluster, keys: &[T], counts: &DistArray<usize, 1>) -> Result<LoopReport> {
    parallel_for!(
        cluster,
        for i in 0..2 {
            let key: usize = keys[i].into();
            counts[key] += 1;
        }
    )
}

#[test]
fn slices_may_be_generic() -> Result<()> {
    let cluster = Cluster;
    let counts = cluster.array::<usize, 1>([4]);
    let run = generic(&cluster, &[3_u8, 1], &counts)?;
    assert_eq!(counts.values(), [0, 1, 0, 1]);
    // `into` might do anything with a captured value, so it is not called twice.
    assert!(run.touched.is_empty());
    Ok(())
}
