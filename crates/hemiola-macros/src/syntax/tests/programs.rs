//! Bodies of real programs with their access tables.
//!
//! Each line of a table is one access: name, subscripts (`#0` is the first loop index, `?` depends
//! on data, `..` is the full range), mode and text.

use hemiola_analysis::Subscript;

use super::support::table_and_names;

#[track_caller]
fn check(source: &str, expected: &[&str]) {
    let (table, names) = table_and_names(source);
    let lines: Vec<String> = table
        .accesses
        .iter()
        .map(|access| {
            let subscripts: Vec<String> = access.subscripts.iter().map(Subscript::to_string).collect();
            format!("{}[{}] {}: {}", names[access.name], subscripts.join(", "), access.mode, access.text)
        })
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn matrix_factorization() {
    check(
        "cluster, for ([u, i], rating) in &ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += STEP * (error * b - LAMBDA * a);
                hi[k] += STEP * (error * a - LAMBDA * b);
            }
            loss += f64::from(error * error);
        }",
        &["w[#0] update: &mut w[u]", "h[#1] update: &mut h[i]", "loss[..] update: loss +="],
    );
}

#[test]
fn matrix_factorization_element_by_element() {
    check(
        "cluster, for ([u, i], &rating) in &ratings {
            let error = rating - (0..rank).map(|k| w[[u, k]] * h[[i, k]]).sum::<f32>();
            for k in 0..rank {
                w[[u, k]] += step * (error * h[[i, k]] - lambda * w[[u, k]]);
            }
        }",
        &[
            "rank[..] read: rank",
            "w[#0, ?] read: w[[u, k]]",
            "h[#1, ?] read: h[[i, k]]",
            "rank[..] read: rank",
            "step[..] read: step",
            "h[#1, ?] read: h[[i, k]]",
            "lambda[..] read: lambda",
            "w[#0, ?] read: w[[u, k]]",
            "w[#0, ?] update: w[[u, k]] +=",
        ],
    );
}

#[test]
fn gibbs_sampling_for_topics() {
    check(
        "cluster, for ([d, v], tokens) in &mut corpus {
            for (position, topic) in tokens.iter_mut().enumerate() {
                let (documents, words) = (&mut document_topic[d], &mut word_topic[v]);
                documents[*topic] -= 1;
                words[*topic] -= 1;
                totals[*topic] -= 1;
                let mut mass = [0.0; TOPICS];
                let mut sum = 0.0;
                for k in 0..TOPICS {
                    sum += (f64::from(documents[k]) + ALPHA) * (f64::from(words[k]) + BETA) / (f64::from(totals[k]) + beta_sum);
                    mass[k] = sum;
                }
                let draw = random.uniform([d, v, position]) * sum;
                *topic = mass.partition_point(|&m| m < draw);
                documents[*topic] += 1;
                words[*topic] += 1;
                totals[*topic] += 1;
            }
        }",
        &[
            "document_topic[#0] update: &mut document_topic[d]",
            "word_topic[#1] update: &mut word_topic[v]",
            "totals[?] update: totals[*topic] -=",
            "totals[?] read: totals[k]",
            "beta_sum[..] read: beta_sum",
            "random[..] read: random",
            "totals[?] update: totals[*topic] +=",
        ],
    );
}

#[test]
fn sparse_logistic_regression() {
    check(
        "cluster, repeated, for (row, features) in &samples {
            let mut dot = 0.0;
            for &(j, x) in features { dot += w[j] * x; }
            let error = sigmoid(dot) - labels[row];
            for &(j, x) in features { gradient[j] += error * x; }
            loss += log_loss(dot, labels[row]);
        }",
        &[
            "w[?] read: w[j]",
            "labels[#0] read: labels[row]",
            "gradient[?] update: gradient[j] +=",
            "labels[#0] read: labels[row]",
            "loss[..] update: loss +=",
        ],
    );
}

#[test]
fn k_means() {
    check(
        "cluster, for (i, point) in &points {
            let mut best = (0, f64::MAX);
            for c in 0..centers.len() {
                let distance = squared_distance(point, &centers[c]);
                if distance < best.1 { best = (c, distance); }
            }
            assignment[i] = best.0;
            let sum = &mut self.sums[best.0];
            for (s, x) in sum.iter_mut().zip(point) { *s += x; }
            self.counts[best.0] += 1;
        }",
        &[
            "centers[..] read: centers",
            "centers[?] read: centers[c]",
            "assignment[#0] write: assignment[i] =",
            "self.sums[?] update: &mut self.sums[best.0]",
            "self.counts[?] update: self.counts[best.0] +=",
        ],
    );
}

#[test]
fn page_rank() {
    check(
        "cluster, for ([from, to], _) in &links {
            next[to] += DAMPING * rank[from] / f64::from(degree[from]);
        }",
        &["rank[#0] read: rank[from]", "degree[#0] read: degree[from]", "next[#1] update: next[to] +="],
    );
}

#[test]
fn gauss_seidel_on_nine_points() {
    check(
        "cluster, ordered, for [i, j] in [1..n - 1, 1..m - 1] {
            let (up, down) = (i - 1, i + 1);
            let cross = a[[up, j]] + a[[down, j]] + a[[i, j - 1]] + a[[i, j + 1]];
            let corners = a[[up, j - 1]] + a[[up, j + 1]] + a[[down, j - 1]] + a[[down, j + 1]];
            a[[i, j]] = (4.0 * cross + corners) / 20.0;
        }",
        &[
            "a[#0 - 1, #1] read: a[[up, j]]",
            "a[#0 + 1, #1] read: a[[down, j]]",
            "a[#0, #1 - 1] read: a[[i, j - 1]]",
            "a[#0, #1 + 1] read: a[[i, j + 1]]",
            "a[#0 - 1, #1 - 1] read: a[[up, j - 1]]",
            "a[#0 - 1, #1 + 1] read: a[[up, j + 1]]",
            "a[#0 + 1, #1 - 1] read: a[[down, j - 1]]",
            "a[#0 + 1, #1 + 1] read: a[[down, j + 1]]",
            "a[#0, #1] write: a[[i, j]] =",
        ],
    );
}

#[test]
fn edit_distance() {
    check(
        "cluster, ordered, for [i, j] in [1..=left.len(), 1..=right.len()] {
            let change = usize::from(left[i - 1] != right[j - 1]);
            d[[i, j]] = (d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1).min(d[[i - 1, j - 1]] + change);
        }",
        &[
            "left[#0 - 1] read: left[i - 1]",
            "right[#1 - 1] read: right[j - 1]",
            "d[#0 - 1, #1] read: d[[i - 1, j]]",
            "d[#0, #1 - 1] read: d[[i, j - 1]]",
            "d[#0 - 1, #1 - 1] read: d[[i - 1, j - 1]]",
            "d[#0, #1] write: d[[i, j]] =",
        ],
    );
}

#[test]
fn every_way_to_write_is_a_write() {
    for (body, expected) in [
        ("w[i] = 1.0;", "w[#0] write: w[i] ="),
        ("w[i][2] = 1.0;", "w[#0] update: w[i][2] ="),
        ("w[i].x = 1.0;", "w[#0] update: w[i].x ="),
        ("*w[i] = 1.0;", "w[#0] update: *w[i] ="),
        ("w[i] <<= 1;", "w[#0] update: w[i] <<="),
        ("f(&mut w[i].x);", "w[#0] update: &mut w[i].x"),
        ("w[i].push(1);", "w[#0] update: w[i].push(..)"),
        ("w[i][3].0.sort_by_key(|x| *x);", "w[#0] update: w[i][3].0.sort_by_key(..)"),
        ("let ref mut x = w[i];", "w[#0] update: ref mut of w[i]"),
        ("if let Some(ref mut x) = w[i] {}", "w[#0] update: ref mut of w[i]"),
        ("for x in &mut w[i] {}", "w[#0] update: &mut w[i]"),
        ("(_, w[i]) = f();", "w[#0] write: w[i] ="),
        ("(*w)[i] = 1.0;", "w[#0] write: (*w)[i] ="),
        ("w.fill(0.0);", "w[..] update: w.fill(..)"),
        ("w = other();", "w[..] write: w ="),
        ("*w += 1;", "w[..] update: *w +="),
        ("writeln!(w, \"\");", "w[..] update: w"),
        ("w[i].x.len();", "w[#0] read: w[i]"),
        ("f(&w[i]);", "w[#0] read: w[i]"),
        ("match w[i] { Some(x) => (), None => () }", "w[#0] read: w[i]"),
        ("(|| w[i])();", "w[#0] read: w[i]"),
        ("assert_eq!(w[i], 3);", "w[#0] read: w[i]"),
    ] {
        check(&format!("c, for (i, v) in &m {{ {body} }}"), &[expected]);
    }
}

#[test]
fn values_are_taken_only_where_they_are_moved_or_copied() {
    for (body, taken) in [
        ("f(x);", 1),
        ("let y = x;", 1),
        ("y = x + 1;", 1),
        ("S { x };", 1),
        ("for y in x {}", 1),
        ("f(&x);", 0),
        ("x.len();", 0),
        ("x[3];", 0),
        ("if x == v {}", 0),
        ("let (a, b) = x;", 0),
        ("let _ = x;", 0),
        ("match x { Some(_) => (), None => () }", 0),
        ("println!(\"{}\", x);", 0),
        ("*x;", 0),
    ] {
        let (table, _) = table_and_names(&format!("c, for (i, v) in &m {{ {body} }}"));
        assert_eq!(table.by_value.len(), taken, "{body}");
    }
}
