//! Flags of other programs, values out of range, and colour.

use crate::model::text;
use crate::support::{command, launch, subcommand};
use std::fs;

#[test]
fn flags_of_other_programs_get_the_flag_of_ours() {
    let lab = tempfile::tempdir().unwrap();
    let cases = [
        ("train mf --step 0.1", "hint: the learning rate is set by `--learning-rate X`"),
        ("train mf --weight-decay 0.1", "hint: L2 regularization is set by `--l2 X`"),
        ("train mf --batch-size 64", "hint: there are no mini-batches: every rating is an update"),
        ("train mf --dropout 0.1", "hint: there is no dropout in a matrix factorization"),
        ("train mf --verbose", "hint: progress is printed by default; `--quiet` suppresses it"),
        ("train mf --gpu", "hint: this model is trained on CPUs; the nets have `--device cuda`"),
        ("train mf --test u1.test", "`hemiola evaluate --model DIR --data FILES`"),
        ("train lasso --data x -C 1", "hint: the regularization strength is set by `--lambda X` (`--alpha`)"),
        ("train svm --alpha 1", "hint: regularization is set by its inverse, `-C X`"),
        ("train svm --sample-weight w.txt", "those of examples by `--weight-column COLUMN`"),
        ("train mf --class-weight balanced", "hint: this model takes no weights of classes or examples"),
        ("train ncf --cv 5", "hint: `mf`, `lda`, `svm`, `logistic`, `lasso` and `elastic-net` have cross-validation"),
        ("train lda --rate 0.1", "hint: there is no learning rate: topic models are trained by Gibbs sampling"),
        ("recommend --model m --top-k 3", "hint: the number of results is set by `-k N`"),
        ("run --nproc-per-node 2 true", "hint: the number of processes is set by `--peers N`"),
        ("topology --verbose", "hint: there are no levels of verbosity"),
        // A typing error.
        ("train mf --rnak 3", "hint: did you mean `--rank`?"),
        ("train mf --iteration 3", "hint: did you mean `--iterations`?"),
    ];
    for (line, hint) in cases {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{line}: {said}");
        assert!(said.starts_with("hemiola: unexpected argument '-"), "{line}: {said}");
        assert!(said.contains(hint) && said.contains("Usage: hemiola "), "{line}: {said}");
        assert!(!said.contains("tip:") && !said.contains("--target"), "{line}: {said}");
    }
    let said = text(&command(lab.path(), "train mf --zzz 1").stderr);
    assert!(!said.contains("hint:"), "no flag is near: {said}");
}

#[cfg(feature = "nets")]
#[test]
fn nets_have_no_dropout_and_an_iteration_is_a_batch() {
    let lab = tempfile::tempdir().unwrap();
    for (line, hint) in [
        ("train mlp --dropout 0.1", "only `train gpt` has dropout; regularize with `--weight-decay X`"),
        ("train mlp --iterations 10", "an iteration is one mini-batch; `--epochs N`"),
        ("train mlp --amp", "`--precision bf16`"),
        ("train mlp --gpu", "GPUs are selected by `--device cuda`"),
    ] {
        let said = text(&command(lab.path(), line).stderr);
        assert!(said.contains(hint), "{line}: {said}");
    }
}

#[test]
fn negative_numbers_are_values_out_of_range() {
    let lab = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("train mf --rank -3", "invalid value '-3' for '--rank <N>': -3 is not in 0..=4294967295"),
        ("train mf --epochs -1", "invalid value '-1' for '--epochs <N>': -1 is not in 1..=4294967295"),
        ("train mf --seed -1", "invalid value '-1' for '--seed <N>': -1 is out of range"),
        ("train lasso --data x --folds -2", "-2 is out of range"),
        ("train mf --seconds -1", "`-1` is not a time in seconds"),
        ("train mf --l2 -1", "`l2` is `-1`, which must be from 0 to 1000"),
        ("topology --peers -4", "-4 is out of range"),
    ] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
        assert!(!said.contains("unexpected argument"), "{line}: {said}");
    }
}

#[test]
fn a_penalty_without_its_solver_gets_a_hint() {
    let lab = tempfile::tempdir().unwrap();
    let said = text(&command(lab.path(), "train logistic --alpha 1").stderr);
    assert!(said.contains("hint: add `--penalty l1`, or use `-C X`"), "{said}");
}

#[test]
fn files_of_an_unquoted_pattern_get_a_hint() {
    let lab = tempfile::tempdir().unwrap();
    for name in ["part-1.csv", "part-2.csv"] {
        fs::write(lab.path().join(name), "a,b,3\n").unwrap();
    }
    let ended = command(lab.path(), "train mf --data part-1.csv --validation part-1.csv part-2.csv");
    let said = text(&ended.stderr);
    assert!(ended.code == Some(2) && said.contains("quote a pattern (`--validation 'part-*.csv'`)"), "{said}");
}

#[test]
fn colour_is_for_terminals_or_forced() {
    let lab = tempfile::tempdir().unwrap();
    let stderr = |line: &str, variables: &[(&str, &str)]| {
        let (name, arguments) = line.split_once(' ').unwrap();
        let mut command = subcommand(name);
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM"] {
            command.env_remove(name);
        }
        command.args(arguments.split_whitespace()).envs(variables.iter().copied()).current_dir(lab.path());
        text(&launch(&mut command).end().stderr)
    };
    for line in ["train mf --no-such-flag", "train mf --data missing.csv", "train mf --rank many"] {
        assert!(!stderr(line, &[]).contains('\x1b'), "{line}: a pipe has no colour");
        let forced = stderr(line, &[("CLICOLOR_FORCE", "1")]);
        assert!(forced.contains("\x1b[1m") || forced.contains("\x1b[1;31mhemiola:\x1b[0m"), "{line}: {forced:?}");
        let disabled = stderr(line, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
        assert!(!disabled.contains('\x1b'), "{line}: {disabled:?}");
    }
}

#[test]
fn completions_list_graphs() {
    let lab = tempfile::tempdir().unwrap();
    let script = text(&command(lab.path(), "completions bash").stdout);
    assert!(
        script.contains("complete ring chain star root-expander halton chord random-regular: two-level:"),
        "graphs"
    );
    #[cfg(feature = "nets")]
    assert!(script.contains("parameter-server balanced partitioned all-reduce poseidon parallax byteps cheapest"));
    #[cfg(feature = "sim")]
    assert!(script.contains("managed-mf managed-lda ring notify-ack"));
}

#[test]
fn manual_pages_have_one_file_per_command() {
    let lab = tempfile::tempdir().unwrap();
    let ended = command(lab.path(), "man --output pages/man1");
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    for (page, expected) in [
        ("hemiola.1", "hemiola-train(1)"),
        ("hemiola-train-mf.1", r"\-\-learning\-rate"),
        ("hemiola-data-make-lda.1", r"\-\-documents"),
    ] {
        let page_text = fs::read_to_string(lab.path().join("pages/man1").join(page)).unwrap();
        assert!(page_text.starts_with(".ie ") || page_text.contains(".TH "), "{page}");
        assert!(
            page_text.contains(expected) || page_text.contains(&expected.replace('-', r"\-")),
            "{page}: {page_text}"
        );
    }
}
