//! The commands of the README on MovieLens-100K, word for word, and an interrupted run.

use crate::book::{Lab, blocks};
use crate::model::text;
use crate::support::{Ended, Launched, launch};
use rustix::process::Signal;
use std::fs;
use std::path::Path;

/// Creates a folder with MovieLens-100K unpacked in it.
fn unpacked(data: &Path) -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("ml-100k")).unwrap();
    for name in ["u.data", "u.item"] {
        let packed = fs::File::open(data.join("movielens-100k").join(format!("{name}.zst"))).unwrap();
        let plain = fs::File::create(lab.path().join("ml-100k").join(name)).unwrap();
        zstd::stream::copy_decode(packed, plain).unwrap();
    }
    lab
}

/// Starts a line of the README. `exec` replaces the shell, so that signals reach the command.
fn shell(lab: &Lab, line: &str) -> Launched {
    launch(&mut lab.shell(&format!("exec {line}")))
}

fn works(lab: &Lab, line: &str) -> String {
    let Ended { code, stdout, stderr, .. } = shell(lab, line).end();
    assert_eq!(code, Some(0), "{line}\n{}", text(&stderr));
    text(&stdout)
}

#[test]
fn the_commands_of_the_readme_work_word_for_word() {
    let data = hemiola_testkit::require!(hemiola_testkit::data("."));
    let lab = unpacked(&data);
    let readme = blocks("README.md");
    let block = readme.iter().find(|block| block.commands.contains("ml-100k/u.data")).unwrap();
    let lines: Vec<&str> = block.commands.lines().collect();
    let [train, recommend, similar, second, plot, resume] = lines[..] else { panic!("six commands: {lines:?}") };

    let trained = works(&lab, train);
    assert!(trained.contains("saved to `films`"));
    let films = works(&lab, recommend);
    block.assert_shown(&format!("{trained}\n{films}"));
    assert_eq!(films.lines().count(), 5, "{films}");
    // All titles end with a year.
    assert!(films.lines().all(|line| line.ends_with(')')), "{films}");
    let alike = works(&lab, similar);
    assert!(alike.contains("Empire Strikes Back, The (1980)"), "{alike}");
    works(&lab, second);
    works(&lab, plot);
    let picture = fs::read_to_string(lab.path().join("films.svg")).unwrap();
    assert!(picture.contains("first") && picture.contains("second"), "both runs are on it");
    let on = works(&lab, resume);
    assert!(on.contains("resuming after epoch") && on.contains("epoch  60/60"), "{on}");

    // An interrupt saves the model, and the printed command resumes.
    let long = shell(&lab, "hemiola train mf --data ml-100k/u.data --output long --epochs 1000000 --patience 0");
    while !long.line().contains("epoch   2/") {}
    long.signal(Signal::INT);
    let ended = long.end();
    assert_eq!(ended.code, Some(130), "{}", text(&ended.stderr));
    let told = text(&ended.stdout);
    let command = told.lines().find(|line| line.contains("--resume")).unwrap();
    let command = &command[command.find(": ").unwrap() + 2..];
    let epoch: u32 = told.split("interrupted after epoch ").nth(1).unwrap().split(';').next().unwrap().parse().unwrap();
    let resumed = shell(&lab, &command.replace("1000000", &(epoch + 1).to_string())).end();
    assert_eq!(resumed.code, Some(0), "{command}\n{}", text(&resumed.stderr));
    assert!(text(&resumed.stdout).contains("resuming after epoch"), "{}", text(&resumed.stdout));
}
