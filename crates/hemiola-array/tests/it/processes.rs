//! Jobs of several processes: this very test binary, started once per peer to run one test.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Starts three peers that each run the test `name`, and waits; what each of them printed. `prepare` sets what they need.
pub(crate) fn three(name: &str, prepare: impl Fn(u32, &mut Command)) -> Vec<String> {
    three_as(None, name, prepare).unwrap()
}

/// The same as another user, who may not be allowed to run this binary.
pub(crate) fn three_as(user: Option<u32>, name: &str, prepare: impl Fn(u32, &mut Command)) -> io::Result<Vec<String>> {
    let meet = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(meet.path(), user, user).unwrap();
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env("HEMIOLA_WORKERS", "2");
        command.env("HEMIOLA_RANK", rank.to_string()).env("HEMIOLA_SIZE", "3");
        command.env("HEMIOLA_RENDEZVOUS", format!("file:{}/meet", meet.path().display()));
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        prepare(rank, &mut command);
        command.stdout(Stdio::piped()).spawn()
    };
    let peers = (0..3).map(start).collect::<io::Result<Vec<Child>>>()?;
    let ended = peers.into_iter().map(|peer| {
        let output = peer.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        said
    });
    Ok(ended.collect())
}
