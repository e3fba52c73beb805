//! `hemiola probe`: measures links and writes a resource specification.

use crate::support::{launch, subcommand};
use hemiola_strategy::ResourceSpec;

fn text(lines: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

#[test]
fn a_measured_specification_can_be_parsed() {
    let lab = tempfile::tempdir().unwrap();
    let file = lab.path().join("cluster.toml");
    let program = env!("CARGO_BIN_EXE_hemiola");
    let mut command = subcommand("run");
    command.args(["-n", "3", "--", program, "probe", "--device", "abacus", "--output"]).arg(&file);
    let ended = launch(&mut command).end();
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let said = text(&ended.stdout);
    assert!(said.contains("3 peers on 1 host") && said.contains("within a host: "), "{said}");
    let cluster = ResourceSpec::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(cluster.size(), 3);
    assert!(cluster.peers.iter().all(|peer| peer.device == "abacus" && peer.host == cluster.peers[0].host));
    assert!(cluster.within_host.bytes_per_second > 1e6 && cluster.within_host.latency > 0.0, "{cluster:?}");
}

#[test]
fn an_unwritable_output_is_refused_before_anything_is_measured() {
    let ended = launch(subcommand("probe").args(["--output", "/nowhere/cluster.toml"])).end();
    assert_eq!(ended.code, Some(2), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("/nowhere/cluster.toml"), "{}", text(&ended.stderr));
}
