//! `hemiola export`: ONNX files that ONNX Runtime runs, and weights of nets for PyTorch.

use crate::model::{refused, said};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// Runs a script of `tests/python` with an argument in the folder; returns the JSON that it prints.
fn python(interpreter: &std::ffi::OsStr, lab: &TempDir, script: &str, argument: &str) -> Value {
    let path = format!("{}/tests/python/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(interpreter).arg(path).arg(argument).current_dir(lab.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts that two JSON lists of numbers are equal within 1e-5 of their size.
fn assert_close(found: &Value, wanted: &Value, about: &str) {
    if let (Value::Array(found), Value::Array(wanted)) = (found, wanted) {
        assert_eq!(found.len(), wanted.len(), "{about}");
        found.iter().zip(wanted).for_each(|(found, wanted)| assert_close(found, wanted, about));
        return;
    }
    let (found, wanted) = (found.as_f64().unwrap(), wanted.as_f64().unwrap());
    assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{about}: {found} {wanted}");
}

/// Rows of two numbers with gaps in the second, of which some are large.
fn rows() -> Vec<[Option<f64>; 2]> {
    let row = |number: u32| {
        let first = f64::from(number * 37 % 101) / 10.0 - 5.0;
        let second = f64::from(number * 53 % 89) * 1000.0;
        [Some(first), (!number.is_multiple_of(7)).then_some(second)]
    };
    (0..60).map(row).collect()
}

/// Writes `name` with a label from each row.
fn table(lab: &TempDir, name: &str, gaps: bool, label: impl Fn(f64, f64) -> String) {
    let mut lines = String::from("target,small,large\n");
    for [first, second] in rows() {
        let (first, known) = (first.unwrap(), second.unwrap_or(44_000.0));
        let shown = if gaps { second.map_or_else(String::new, |value| value.to_string()) } else { known.to_string() };
        let _ = writeln!(lines, "{},{first},{shown}", label(first, known / 1000.0));
    }
    fs::write(lab.path().join(name), lines).unwrap();
}

#[test]
fn onnx_files_of_linear_models_predict_as_the_models() {
    let interpreter = hemiola_testkit::require!(hemiola_testkit::python(&["onnx", "onnxruntime"]));
    let lab = tempfile::tempdir().unwrap();
    let value = |first: f64, second: f64| format!("{}", 3.0 * first - 0.1 * second + 7.0);
    let two = |first: f64, second: f64| if first > second / 20.0 - 2.0 { "yes" } else { "no" }.to_owned();
    let three = |first: f64, second: f64| format!("{}", if first < -1.5 { 2 } else { 4 + u32::from(second > 40.0) });
    table(&lab, "value.csv", true, value);
    table(&lab, "two.csv", false, two);
    table(&lab, "three.csv", true, three);
    let mut sparse = String::new();
    for [first, second] in rows() {
        let (first, second) = (first.unwrap(), second.unwrap_or(0.0) / 1000.0);
        let _ = writeln!(sparse, "{} 1:{first} 3:{second}", if first > 0.0 { 1 } else { -1 });
    }
    fs::write(lab.path().join("sparse.libsvm"), sparse).unwrap();
    let filled = "--missing mean --scale standard";
    let cases = [
        ("lasso", "value.csv", format!("--lambda 0.01 {filled} --missing-indicator")),
        ("elastic-net", "value.csv", format!("--lambda 0.01 {filled}")),
        ("ridge", "value.csv", "--missing median --scale min-max".to_owned()),
        ("svm", "two.csv", "--scale standard".to_owned()),
        ("svm", "three.csv", format!("{filled} --validation 0")),
        ("logistic", "two.csv", "--scale max-abs".to_owned()),
        ("logistic", "three.csv", format!("{filled} --missing-indicator --validation 0")),
        ("logistic", "sparse.libsvm", "--penalty l1 --lambda 0.001".to_owned()),
        ("softmax", "three.csv", filled.to_owned()),
        ("softmax", "two.csv", "--scale standard".to_owned()),
        ("svm", "sparse.libsvm", "--scale max-abs".to_owned()),
    ];
    let mut jobs = Vec::new();
    for (number, (model, data, flags)) in cases.iter().enumerate() {
        said(&lab, &format!("train {model} --data {data} {flags} --output model{number} -q"));
        said(&lab, &format!("export model{number} {number}.onnx"));
        let values: Vec<Value> = rows()
            .into_iter()
            .map(|[first, second]| match *data {
                "sparse.libsvm" => json!([first, 0.0, second.unwrap_or(0.0) / 1000.0]),
                "two.csv" => json!([first, second.unwrap_or(44_000.0)]),
                _ => json!([first, second]),
            })
            .collect();
        jobs.push(json!({ "file": format!("{number}.onnx"), "input": "features", "values": values }));
    }
    fs::write(lab.path().join("jobs.json"), serde_json::to_vec(&jobs).unwrap()).unwrap();
    let results = python(&interpreter, &lab, "onnx_predictions.py", "jobs.json");
    let mut labels_seen = std::collections::BTreeSet::new();
    for (number, (model, data, _)) in cases.iter().enumerate() {
        let predicted = said(&lab, &format!("predict --model model{number} --data {data} --report -"));
        let predicted: Value = serde_json::from_str(&predicted).unwrap();
        let (about, found) = (format!("{model} of {data}"), &results[number]);
        let column = |key: &str| predicted.as_array().unwrap().iter().map(|one| one[key].clone()).collect::<Value>();
        match *model {
            "lasso" | "elastic-net" | "ridge" => assert_close(&flat(&found["value"]), &column("value"), &about),
            "logistic" if *data == "sparse.libsvm" => {
                let second: Value = rows_of(&found["probabilities"]).map(|row| row[1].clone()).collect();
                assert_close(&second, &column("probability"), &about);
                assert_close(&found["label"], &column("value"), &about);
            }
            _ => {
                let named = !column("name")[0].is_null();
                let labels = if named { column("name") } else { column("label") };
                for (found, wanted) in rows_of(&found["label"]).zip(rows_of(&labels)) {
                    labels_seen.insert(found.to_string());
                    assert!(found == wanted || found.as_f64().is_some_and(|found| wanted.as_f64() == Some(found)));
                }
                let key = if *model == "svm" { "scores" } else { "probabilities" };
                assert_close(&found[key], &column(key), &about);
            }
        }
    }
    // Every class was predicted.
    for label in ["\"yes\"", "\"no\"", "2", "4", "5"] {
        assert!(labels_seen.contains(label), "{label} of {labels_seen:?}");
    }
}

fn rows_of(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().unwrap().iter()
}

/// Single elements of the rows of a matrix with one column.
fn flat(matrix: &Value) -> Value {
    rows_of(matrix).map(|row| row[0].clone()).collect()
}

#[test]
fn models_that_a_format_cannot_hold_are_refused_by_name() {
    let lab = crate::model::lab();
    let rows = "1,red,2\n2,blue,3\n3,red,5\n4,blue,4\n".repeat(5);
    fs::write(lab.path().join("words.csv"), format!("y,colour,size\n{rows}")).unwrap();
    said(&lab, "train ridge --data words.csv --categorical colour --output ridge -q");
    said(&lab, "train mf --data ratings.csv --rank 2 --epochs 1 --output mf -q");
    for (arguments, expected) in [
        ("export ridge ridge.onnx", "a column of categories, `colour`"),
        ("export ridge ridge.safetensors", "`ridge` is no net"),
        ("export mf mf.onnx", "`hemiola export` takes models of"),
        ("export mf mf.txt", "end its name with `.safetensors`"),
        ("export nowhere mf.onnx", "`nowhere` is not a saved model"),
    ] {
        let told = refused(&lab, arguments);
        assert!(told.contains(expected), "{arguments}: {told}");
    }
    assert!(!lab.path().join("ridge.onnx").exists());
}

#[cfg(feature = "nets")]
mod nets {
    use super::{assert_close, python, refused, said};
    use crate::saved_nets::{digits, image};
    use serde_json::{Value, json};
    use std::fs;
    use tempfile::TempDir;

    fn images() -> Value {
        let image = |number: u32| {
            let (pixels, _) = image(number);
            pixels.chunks(6).map(|row| json!(row)).collect::<Value>()
        };
        (100..130).map(|number| json!([image(number)])).collect()
    }

    fn train_images(lab: &TempDir) {
        digits(&lab.path().join("digits"));
        for (net, flags) in
            [("mlp", "--hidden 8,5"), ("cnn", "--channels 2,4 --hidden 8"), ("resnet", "--stages 8,16 --blocks 2")]
        {
            let flags = format!("{flags} --data digits --epochs 4 --batch-size 12 --lr 0.02 --output {net} -q");
            said(lab, &format!("train {net} {flags}"));
        }
    }

    /// Probabilities of the classes of the test images.
    fn probabilities(lab: &TempDir, net: &str) -> Value {
        let predicted = said(lab, &format!("predict --model {net} --data digits --report -"));
        let predicted: Value = serde_json::from_str(&predicted).unwrap();
        predicted.as_array().unwrap().iter().map(|one| one["probabilities"].clone()).collect()
    }

    #[test]
    fn onnx_files_of_image_classifiers_predict_as_the_nets() {
        let interpreter = hemiola_testkit::require!(hemiola_testkit::python(&["onnx", "onnxruntime"]));
        let lab = tempfile::tempdir().unwrap();
        train_images(&lab);
        let nets = ["mlp", "cnn"];
        let job = |net: &str| json!({ "file": format!("{net}.onnx"), "input": "images", "values": images() });
        fs::write(lab.path().join("jobs.json"), serde_json::to_vec(&nets.map(job)).unwrap()).unwrap();
        for net in nets {
            said(&lab, &format!("export {net} {net}.onnx"));
        }
        let results = python(&interpreter, &lab, "onnx_predictions.py", "jobs.json");
        for (net, found) in nets.iter().zip(results.as_array().unwrap()) {
            assert_close(&found["probabilities"], &probabilities(&lab, net), net);
            let predicted = said(&lab, &format!("predict --model {net} --data digits"));
            let classes: Value = predicted.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
            assert_eq!(found["label"], classes, "{net}");
        }
        let told = refused(&lab, "export resnet resnet.onnx");
        assert!(told.contains("kind `resnet`") && told.contains(".safetensors"), "{told}");
    }

    #[test]
    fn pytorch_modules_with_the_exported_weights_compute_as_the_nets() {
        let interpreter = hemiola_testkit::require!(hemiola_testkit::python(&["safetensors", "numpy"]));
        let lab = crate::model::lab();
        train_images(&lab);
        let mut words = String::new();
        (0..120).for_each(|_| words += "the cat sat on the mat\nthe dog <unk> on the log\n");
        fs::write(lab.path().join("train.txt"), &words).unwrap();
        let test = &words[..words.len() / 6];
        fs::write(lab.path().join("test.txt"), test).unwrap();
        let sizes = "--embedding-size 12 --sequence-length 8 --lr 0.02 --epochs 2";
        for (net, flags) in [
            ("lstm", "--hidden-size 16 --layers 2"),
            ("transformer", "--heads 2 --blocks 2"),
            ("gpt", "--heads 3 --blocks 2 --dropout 0.05"),
        ] {
            let data = format!("--data train.txt --validation test.txt --output {net} -q");
            said(&lab, &format!("train {net} {sizes} {flags} {data}"));
        }
        said(&lab, "train ncf --data ratings.csv --embedding-size 6 --hidden 8,4 --epochs 2 --lr 0.02 --output ncf -q");
        let nets = ["mlp", "cnn", "resnet", "lstm", "transformer", "gpt", "ncf"];
        for net in nets {
            said(&lab, &format!("export {net} {net}.safetensors"));
        }
        let (users, items) = (["person-3", "person-3", "person-3"], ["film-5", "film-4", "film-21"]);
        let inputs = json!({ "nets": nets, "images": images(), "text": test, "users": users, "items": items });
        fs::write(lab.path().join("inputs.json"), serde_json::to_vec(&inputs).unwrap()).unwrap();
        let found = python(&interpreter, &lab, "exported_nets.py", ".");
        for net in ["mlp", "cnn", "resnet"] {
            assert_close(&found[net]["result"], &probabilities(&lab, net), net);
        }
        for net in ["lstm", "transformer", "gpt"] {
            let report = said(&lab, &format!("evaluate --model {net} --data test.txt --report -"));
            let report: Value = serde_json::from_str(&report).unwrap();
            assert_close(&found[net]["result"], &report["metrics"]["perplexity"], net);
        }
        let items = items.map(|item| format!(" --item {item}")).concat();
        let predicted = said(&lab, &format!("predict --model ncf --user person-3{items} --report -"));
        let predicted: Value = serde_json::from_str(&predicted).unwrap();
        let scores: Value = predicted.as_array().unwrap().iter().map(|one| one["score"].clone()).collect();
        assert_close(&found["ncf"]["result"], &scores, "ncf");

        let shapes = |net: &str| found[net]["shapes"].clone();
        assert_eq!(
            shapes("mlp"),
            json!({ "hidden.0.bias": [8], "hidden.0.weight": [8, 36], "hidden.1.bias": [5], "hidden.1.weight": [5, 8],
                "output.bias": [3], "output.weight": [3, 5] })
        );
        assert_eq!(shapes("cnn")["second.weight"], json!([4, 2, 5, 5]));
        assert_eq!(shapes("resnet")["layer2.0.downsample.0.weight"], json!([16, 8, 1, 1]));
        assert_eq!(shapes("resnet")["layer2.1.bn2.bias"], json!([16]));
        assert_eq!(shapes("lstm")["lstm.weight_ih_l1"], json!([64, 16]));
        assert_eq!(shapes("transformer")["blocks.1.self_attn.in_proj_weight"], json!([36, 12]));
        assert_eq!(shapes("gpt")["h.1.attn.c_attn.weight"], json!([12, 36]));
        assert_eq!(shapes("ncf")["mean"], json!([]));
        let first = fs::read(lab.path().join("lstm.safetensors")).unwrap();
        said(&lab, "export lstm again.safetensors");
        assert_eq!(first, fs::read(lab.path().join("again.safetensors")).unwrap(), "a net gives the same bytes");
    }
}
