//! Files that change or become unreadable while a cluster reads them: the identical error on every
//! peer.

#![expect(clippy::print_stdout, reason = "a peer process prints its result")]

use crate::{folder_with, peers_of_three};
use hemiola_array::ReadExt;
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_testkit::{MissingRequirement, PeerProcesses};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Text of several units.
fn text() -> String {
    let mut text = String::new();
    (0..60_000).for_each(|row| writeln!(text, "{row},1,5").unwrap());
    text
}

/// Reads a file that is resized when any peer sees a line in the middle; returns the outcome as
/// text.
fn read_while_it_changes(cluster: &Cluster, file: &Path, to: u64) -> Result<String> {
    let change = |row: usize| {
        if row == 20_000 {
            std::fs::File::options().write(true).open(file).unwrap().set_len(to).unwrap();
        }
    };
    let lazy = cluster.read_csv(file.to_str().unwrap(), |(row, column, value): (usize, usize, u64)| {
        change(row);
        ([row, column], value)
    })?;
    Ok(lazy.materialize().map_or_else(|error| error.to_string(), |array| format!("{} entries", array.len())))
}

fn changed(file: &Path, from: usize, to: u64) -> String {
    format!(
        "`{}` changed from {from} to {to} bytes while it was read; wait until its writer has finished",
        file.display()
    )
}

#[test]
fn a_file_that_changes_is_the_same_error_on_every_peer() {
    let text = text();
    // Truncated in the middle of what others read, truncated to nothing, extended.
    for to in [text.len() as u64 / 4 * 3, 0, text.len() as u64 + 1000] {
        for peers in [1, 2, 3] {
            let folder = folder_with(&[("growing.csv", text.as_bytes())]);
            let file = folder.path().join("growing.csv");
            let said = standalone(peers).run(|cluster| read_while_it_changes(cluster, &file, to)).unwrap();
            assert!(said.iter().all(|said| *said == changed(&file, text.len(), to)), "{peers} peers: {said:?}");
        }
    }
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_of_a_changing_file() {
    let file = std::env::var_os("HEMIOLA_TEST_FILE").unwrap();
    let to = std::env::var_os("HEMIOLA_TEST_SIZE").unwrap().to_str().unwrap().parse().unwrap();
    println!("said: {}", hemiola_cluster::run(|cluster| read_while_it_changes(cluster, file.as_ref(), to)).unwrap());
}

#[test]
fn three_processes_agree_that_a_file_changed() {
    let text = text();
    for to in [1000, text.len() as u64 + 1000] {
        let folder = folder_with(&[("growing.csv", text.as_bytes())]);
        let file = folder.path().join("growing.csv");
        let said = peers_of_three("file_access::the_peer_of_a_changing_file", |_, command| {
            command.env("HEMIOLA_TEST_FILE", &file).env("HEMIOLA_TEST_SIZE", to.to_string());
        });
        let expected = format!("said: {}\n", changed(&file, text.len(), to));
        assert!(said.iter().all(|said| said.contains(&expected)), "{said:?}, expected {expected}");
    }
}

/// Reads a file of numbers; returns the outcome as text.
fn read_small(cluster: &Cluster, pattern: &str) -> String {
    let lazy = cluster.read_csv(pattern, |(row, column, value): (usize, usize, u64)| ([row, column], value));
    lazy.and_then(|lazy| lazy.materialize()).map_or_else(|error| error.to_string(), |array| array.len().to_string())
}

#[test]
fn peers_that_ask_for_different_files_are_named() {
    let folder = folder_with(&[("a.csv", &b"1,2,3\n"[..]), ("b.csv", &b"1,2,4\n"[..])]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let said = standalone(3)
        .run(|cluster| Ok(read_small(cluster, &path(if cluster.rank().index() == 1 { "b.csv" } else { "a.csv" }))));
    let expected = format!("peer 1 reads `{}`, and peer 0 `{}`; give all peers", path("b.csv"), path("a.csv"));
    assert!(said.as_ref().unwrap().iter().all(|said| said.starts_with(&expected)), "{said:?}");
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_with_a_folder_of_its_own() {
    println!("said: {}", hemiola_cluster::run(|cluster| Ok(read_small(cluster, "data.csv"))).unwrap());
}

#[test]
fn peers_that_see_other_files_under_one_name_are_named() {
    let (usual, other) =
        (folder_with(&[("data.csv", &b"1,2,3\n"[..])]), folder_with(&[("data.csv", &b"1,2,3\n2,3,4\n"[..])]));
    let said = peers_of_three("file_access::the_peer_with_a_folder_of_its_own", |rank, command| {
        command.current_dir(if rank == 2 { other.path() } else { usual.path() });
    });
    let expected = "said: peer 2 reads `data.csv` of 12 bytes, and peer 0 `data.csv` of 6 bytes; give all peers";
    assert!(said.iter().all(|said| said.contains(expected)), "{said:?}");
}

/// Outcomes of reading a folder, a pattern in it, and a file of it.
fn read_closed(cluster: &Cluster, folder: &Path) -> Vec<String> {
    let read = |pattern: &str| {
        let lazy = cluster.read_csv(pattern, |(row, column, value): (usize, usize, u64)| ([row, column], value));
        lazy.and_then(|lazy| lazy.materialize()).map_or_else(|error| error.to_string(), |array| array.len().to_string())
    };
    ["closed", "closed/*.csv", "closed/a.csv", "open/secret.csv"]
        .map(|name| read(folder.join(name).to_str().unwrap()))
        .to_vec()
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_without_permission() {
    let folder = std::env::var_os("HEMIOLA_TEST_CLOSED").unwrap();
    let said = hemiola_cluster::run(|cluster| Ok(read_closed(cluster, folder.as_ref())));
    println!("said: {:?}", said.unwrap());
}

#[test]
fn unreadable_files_are_the_same_error_on_every_peer() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["closed", "open"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("closed/a.csv"), "1,2,3\n").unwrap();
    std::fs::write(at("open/secret.csv"), "1,2,3\n").unwrap();
    let allow = |name: &str, mode: u32| {
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow("", 0o755);
    allow("closed", 0o000);
    allow("open/secret.csv", 0o000);
    // Root may read everything, so its peers run as an unprivileged user.
    let unprivileged = rustix::process::geteuid().is_root().then_some(65_534);
    let said =
        PeerProcesses::try_start_as(unprivileged, 3, "file_access::the_peer_without_permission", |_, command| {
            command.env("HEMIOLA_TEST_CLOSED", folder.path());
        });
    let said = said.map(PeerProcesses::finish);
    allow("closed", 0o755);
    let said = match said {
        Ok(said) => said,
        Err(error) => {
            assert!(unprivileged.is_some(), "{error}");
            let missing = MissingRequirement::new("user", format!("another user cannot run this test: {error}"));
            return missing.skip();
        }
    };
    let refused = |action: &str, name: &str| {
        format!(
            "cannot {action} `{}`: permission denied; ask the owner or run as a user with access",
            at(name).display()
        )
    };
    let expected = [
        refused("list", "closed"),
        refused("list", "closed"),
        refused("open", "closed/a.csv"),
        refused("open", "open/secret.csv"),
    ];
    let expected = format!("said: {expected:?}\n");
    assert!(said.iter().all(|said| said.contains(&expected)), "{said:?}, expected {expected}");
}
