//! The guide's way to predict in Python, run.

use hemiola_models::MatrixFactorization;
use hemiola_models::mf::data;
use std::ffi::OsStr;
use std::process::Command;

/// Uses the `python3` of the path, or the one that `HEMIOLA_PYTHON` names.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn python_predicts_what_we_predict() {
    let python = std::env::var_os("HEMIOLA_PYTHON").unwrap_or_else(|| "python3".into());
    let run = |arguments: &[&OsStr], folder| Command::new(&python).args(arguments).current_dir(folder).output();
    let folder = tempfile::tempdir().unwrap();
    if !run(&["-c".as_ref(), "import safetensors.numpy".as_ref()], folder.path())
        .is_ok_and(|output| output.status.success())
    {
        eprintln!("skipped: no python3 with the packages safetensors and numpy");
        return;
    }
    let ratings = folder.path().join("ratings.csv");
    std::fs::write(&ratings, "ann,Alien,5\nann,Brazil,4\nbob,Alien,3\nbob,Caché,1\ncid,Brazil,4\ncid,Caché,5\n")
        .unwrap();
    let predicted = hemiola::standalone(2)
        .run(|cluster| {
            let ratings = data::read(cluster, None, ratings.to_str().unwrap())?;
            let settings = MatrixFactorization::builder().rank(3).epochs(9).valid(0.0).build()?;
            let model = settings.fit(cluster, &ratings)?.model;
            model.save(cluster, &folder.path().join("model"))?;
            let pair = [model.user("bob").unwrap(), model.item("Caché").unwrap()];
            Ok(model.predict(cluster, &[pair])?[0])
        })
        .unwrap()[0];
    let guide = include_str!("../../../../docs/models.md");
    let program = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let program = format!("{program}\nprint(predict('bob', 'Caché'))");
    let output = run(&["-c".as_ref(), program.as_ref()], folder.path()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: f32 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!((predicted - theirs).abs() < 1e-5, "{predicted} {theirs}");
}
