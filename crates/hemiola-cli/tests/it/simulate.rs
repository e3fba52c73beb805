//! `hemiola simulate`: scenarios are replayed as they were found.

use crate::support::{Ended, launch, subcommand};

const SCENARIO: &str = r#"{"ring":{"seed":1,"cluster":{"peers":3},"blocks":[1,2,0],"rotations":2,"length":4}}"#;

fn text(lines: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

fn replay(scenario: &str) -> Ended {
    launch(subcommand("simulate").args(["replay", scenario])).end()
}

#[test]
fn a_scenario_runs_in_the_same_way_each_time() {
    let (first, second) = (replay(SCENARIO), replay(SCENARIO));
    assert_eq!(first.code, Some(0));
    assert!(text(&first.stdout).starts_with("everything held: "), "{}", text(&first.stdout));
    assert_eq!(text(&first.stdout), text(&second.stdout));
}

#[test]
fn what_fails_is_told_and_what_cannot_be_is_refused() {
    let failed = replay(&SCENARIO.replace("\"length\":4", "\"length\":4,\"impatient\":true"));
    assert_eq!(failed.code, Some(1), "{}", text(&failed.stdout));
    assert!(!text(&failed.stdout).contains("everything held"));
    let refused = replay(&SCENARIO.replace("\"peers\":3", "\"peers\":0"));
    assert!(
        text(&refused.stdout).contains("cannot be") || text(&refused.stdout).contains("of 0"),
        "{}",
        text(&refused.stdout)
    );
    let unreadable = replay("{");
    assert_eq!(unreadable.code, Some(2));
    assert!(text(&unreadable.stderr).contains("the scenario cannot be read"), "{}", text(&unreadable.stderr));
}
