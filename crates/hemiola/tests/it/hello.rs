//! The example `hello`, under every launcher.

use crate::with_watchdog;
use hemiola::launch::{Launcher, Output};
use hemiola_testkit::{condition, require};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Path of the example, which cargo builds together with these tests.
fn hello() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/hello")
}

/// Checks that each of the four peers has introduced itself once.
fn assert_four_peers(output: &str) {
    for rank in 0..4 {
        let line = format!("hello from peer {rank} of 4 (process ");
        assert_eq!(output.matches(&line).count(), 1, "{output}");
    }
    assert!(output.contains("agree that the sum of all ranks is 6"), "{output}");
}

/// A command without the launcher variables of the test's own environment.
fn clean(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    for variable in ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID", "HEMIOLA_RANK", "HEMIOLA_SIZE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}

#[test]
fn starts_its_own_peers() {
    with_watchdog(|| {
        let output = clean(hello()).args(["--peers", "4"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_four_peers(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.stderr, b"");
    });
}

#[test]
fn runs_as_a_single_peer_without_a_launcher() {
    with_watchdog(|| {
        let output = clean(hello()).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("hello from peer 0 of 1 (process "));
    });
}

/// Collects the output of a launcher.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn runs_under_the_launcher() {
    with_watchdog(|| {
        let (out, err) = (SharedBuffer::default(), SharedBuffer::default());
        let launcher = Launcher::new(hello(), [""; 0]).peers(4).workers(Some(2)).forward_signals(false);
        let outcome = launcher.run(Output::new(out.clone(), err.clone())).unwrap();
        let [out, err] = [out, err].map(|buffer| String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap());
        assert_eq!(outcome.code(), 0, "{err}");
        assert_four_peers(&out);
        assert!(out.lines().all(|line| line.starts_with("[0] ")) && out.contains("8 workers agree"), "{out}");
    });
}

#[test]
fn runs_with_the_variables_of_torchrun() {
    with_watchdog(|| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let peers: Vec<_> = (0..4)
            .map(|rank: u32| {
                let variables =
                    [("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("WORLD_SIZE", "4".into())];
                let mut command = clean(hello());
                command.envs(variables).env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
                command.stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let outputs: Vec<_> = peers.into_iter().map(|peer| peer.wait_with_output().unwrap()).collect();
        assert!(outputs.iter().all(|output| output.status.success()));
        assert_four_peers(&String::from_utf8_lossy(&outputs[0].stdout));
    });
}

#[test]
fn runs_under_open_mpi() {
    let mpirun = || {
        let mut command = clean("mpirun".into());
        // Allowed to run as root inside a container, and with more peers than cores.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").arg("--oversubscribe");
        command
    };
    let version = Command::new("mpirun").arg("--version").output();
    let is_open_mpi = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"));
    require!(condition("mpi", is_open_mpi, "Open MPI's mpirun is not installed"));
    with_watchdog(|| {
        let output = mpirun().args(["-n", "4"]).arg(hello()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_four_peers(&String::from_utf8_lossy(&output.stdout));
    });
}

#[test]
fn runs_under_mpich() {
    let installed = Command::new("mpiexec.hydra").arg("--version").output().is_ok_and(|output| output.status.success());
    require!(condition("mpich", installed, "MPICH's mpiexec.hydra is not installed"));
    with_watchdog(|| {
        let mut mpiexec = clean("mpiexec.hydra".into());
        // A shell between launcher and program does not hide that the peers belong together.
        let shell = ["-launcher", "fork", "-n", "4", "sh", "-c", "\"$0\"; exit $?"];
        let output = mpiexec.args(shell).arg(hello()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_four_peers(&String::from_utf8_lossy(&output.stdout));
    });
}
