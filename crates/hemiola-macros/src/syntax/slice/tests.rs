//! Slices of bodies, as Rust code.

use crate::syntax::slice::{emit, steps};
use crate::syntax::tests::support::{analyzed, same_tokens};

/// In `expected`, `recorder.touch(..)` is written `w.touch(..)`, and `x.peek()` conditions are
/// written `known(x)`.
#[track_caller]
fn check_loop(source: &str, expected: &str) {
    let analyzed = analyzed(source);
    let (tokens, _) = emit::emit(&analyzed, &steps::slice_steps(&analyzed));
    let mut text = tokens.to_string();
    for (number, capture) in analyzed.names.captures.iter().enumerate() {
        let word = &capture.word;
        let look = format!("let :: core :: option :: Option :: Some ({word}) = __recorder_{number} . peek ()");
        text = text.replace(&look, &format!("known({word})")).replace(&format!("__recorder_{number}"), word);
    }
    for (number, local) in analyzed.names.locals.iter().enumerate() {
        let name = local.ident.to_string();
        let look = format!("let :: core :: option :: Option :: Some ({name}) = & __pending_{number}");
        text = text
            .replace(&look, &format!("known({name})"))
            .replace(&format!("__pending_{number}"), &format!("maybe_{name}"));
    }
    let text =
        text.replace(":: core :: option :: Option :: ", "").replace(":: core :: clone :: Clone :: clone", "clone");
    same_tokens(&text, expected);
}

#[track_caller]
fn check(body: &str, expected: &str) {
    check_loop(&format!("c, for ([i, k], v) in &m {{ {body} }}"), expected);
}

#[test]
fn only_subscripts_that_depend_on_data_are_touched() {
    check("s += w[i] + w[3] + w[n] + w[..];", "");
    check("s += w[v.0];", "w.touch(v.0);");
    check("w[v.0] = 1.0;", "");
    check("w[v.0] += 1.0;", "w.touch(v.0);");
    check("s += w[[i, v.0]] * h[v.1];", "w.touch([i, v.0]); h.touch(v.1);");
}

#[test]
fn sparse_logistic_regression_keeps_its_first_loop() {
    check_loop(
        "c, for (row, features) in &samples {
            let mut dot = 0.0;
            for &(j, x) in features { dot += w[j] * x; }
            let error = sigmoid(dot) - labels[row];
            for &(j, x) in features { gradient[j] += error * x; }
        }",
        "for &(j, x) in features { w.touch(j); } for &(j, x) in features { gradient.touch(j); }",
    );
}

#[test]
fn code_that_leads_to_a_subscript_stays_and_the_rest_is_removed() {
    check(
        "let a = v.0 + 1; let b = expensive(v); let (p, q) = (a * 2, b); s += w[p] * q;",
        "let a = v.0 + 1; let b = expensive(v); let (p, q) = (a * 2, b); w.touch(p);",
    );
    check("let a = v.0; let b = a; let unused = f(b); s += w[b % 4];", "let a = v.0; let b = a; w.touch(b % 4);");
    check("let i = v.0; { let i = v.1; s += w[i]; }", "{ let i = v.1; w.touch(i); }");
}

#[test]
fn control_flow_around_a_touch_stays() {
    check("if v.0 > 3 { s += w[v.1]; f(); } else { g(); }", "if v.0 > 3 { w.touch(v.1); }");
    check(
        "match v { A(j) if j > 0 => s += w[j], B { j } => f(j), _ => {} }",
        "match v { A(j) if j > 0 => { w.touch(j); } B { j } => {} _ => {} }",
    );
    check(
        "if let Some(j) = v.next_of(i) && w[j] > 0.0 { h[j] += 1.0; }",
        "if let Some(j) = v.next_of(i) { w.touch(j); }
         if known(w) { if let Some(j) = v.next_of(i) && (*w)[j] > 0.0 { h.touch(j); } }",
    );
    check("if v.bad() { continue; } s += w[v.0];", "if v.bad() { return; } w.touch(v.0);");
    check("s += w[v.0]; if v.bad() { continue; } f();", "w.touch(v.0);");
    check(
        "let Some(j) = v.first() else { continue }; s += w[*j];",
        "let Some(j) = v.first() else { return }; w.touch(*j);",
    );
    check(
        "'a: for j in v { for t in j { if t > 3 { break 'a; } s += w[t]; } }",
        "'a: for j in v { for t in j { if t > 3 { break 'a; } w.touch(t); } }",
    );
}

#[test]
fn jumps_that_stay_inside_do_not_end_the_slice() {
    check(
        "a[i] += 1; if a[k] > 0 { for t in v { if t > 3 { break; } } } let x = loop { break 3; }; s += w[v.0];",
        "w.touch(v.0);",
    );
    check("let j = match v { A(j) => j, _ => unreachable!() }; s += w[j];", "");
    check("match v { A => panic!(), _ => {} } s += w[v.0];", "match v { A => { return; } _ => {} } w.touch(v.0);");
    check("unsafe { let v = f(); } s += w[v.0];", "w.touch(v.0);");
}

#[test]
fn items_of_the_body_are_kept_if_needed() {
    check(
        "use a::Trait; fn hash(x: u8) -> usize { 1 } { const K: u8 = 2; f(K); } s += w[hash(v.0)];",
        "use a::Trait; fn hash(x: u8) -> usize { 1 } w.touch(hash(v.0));",
    );
}

#[test]
fn changing_locals_are_followed() {
    check(
        "let mut j = v.0; let mut n = 0; while j != 0 { s += w[j]; n += 1; j = next(j); }",
        "let mut j = v.0; while j != 0 { w.touch(j); j = next(j); }",
    );
    check(
        "let mut random = Random::new(i); let j = random.below(9); s += w[j];",
        "let mut random = Random::new(i); let j = random.below(9); w.touch(j);",
    );
    check(
        "let mut js = vec![]; for j in v { js.push(j); } for j in &js { s += w[*j]; }",
        "let mut js = vec![]; for j in v { js.push(j); } for j in &js { w.touch(*j); }",
    );
    check(
        "let j; if v.0 { j = 1; } else { j = 2; } s += w[j];",
        "let j; if v.0 { j = 1; } else { j = 2; } w.touch(j);",
    );
}

#[test]
fn code_that_depends_on_written_arrays_is_left_out() {
    check("let z = a[i]; a[i] = z + 1; s += w[z]; s += h[v.0];", "h.touch(v.0);");
    check("a[k] += 1; if a[i] > 3 { s += w[v.0]; } s += h[v.0];", "h.touch(v.0);");
    check("a[k] += 1; if a[i] > 3 { continue; } s += h[v.0];", "");
    check("a[k] += 1; let mut j = 0; if a[i] > 3 { j = 1; } s += h[j]; s += w[v.0];", "w.touch(v.0);");
    check("a[k] += 1; let mut j = 0; loop { if a[j] > 3 { break; } j += 1; } s += h[j]; s += w[v.0];", "w.touch(v.0);");
}

#[test]
fn possible_plain_tables_are_used_if_they_are_available() {
    check("s += w[order[i]];", "if known(order) { w.touch((*order)[i]); }");
    check("s += w[order[v.0]];", "order.touch(v.0); if known(order) { w.touch((*order)[v.0]); }");
    check("for &j in &links[i] { s += w[j]; }", "if known(links) { for &j in &(*links)[i] { w.touch(j); } }");
    check(
        "if skip[i] { continue; } s += w[v.0];",
        "if known(skip) { if (*skip)[i] { return; } } else { return; } w.touch(v.0);",
    );
    check(
        "let j = order[i]; s += w[j + n] + h[v.0];",
        "let (maybe_j,) = if known(order) { let j = (*order)[i]; (Some(j),) } else { (None,) };
         if known(n) && known(j) { w.touch(clone(j) + (*n)); } h.touch(v.0);",
    );
    check("let j = generator.draw(); s += w[j];", ""); // would draw twice
}

#[test]
fn entries_that_the_body_changes_are_not_changed_by_the_slice() {
    check_loop("c, for (i, v) in &mut m { v.0 += 1; s += w[v.0]; }", "");
    check_loop("c, for (i, v) in &mut m { s += w[v.0]; *v = f(v.0); }", "");
    check_loop("c, for (i, (j, x)) in &mut m { *x += w[*j]; }", "w.touch(*j);");
    check_loop("c, for (i, v) in &mut m { let j = advance(v); s += w[j]; }", "");
    check_loop("c, for (i, v) in &mut m { let j = v.advance(); s += w[j]; }", "");
}

#[test]
fn iterators_are_loops() {
    check("let dot: f64 = v.iter().map(|&(j, x)| w[j] * x).sum();", "for &(j, x) in v.iter() { w.touch(j); }");
    check("let dot = v.iter().fold(0.0, |s, &(j, x)| s + w[j] * x);", "for &(j, x) in v.iter() { w.touch(j); }");
    check("let last = v.iter().fold(0, |s, &j| w[s + j]);", "");
    check("let f = |j| w[j]; f(v.0);", "");
}
