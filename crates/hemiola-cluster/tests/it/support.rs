//! What the tests stand on.

pub(crate) use hemiola_testkit::with_watchdog;

use hemiola_cluster::{Cluster, ClusterBuilder, Result};
use hemiola_core::{Deadlines, Event, Observer};
use hemiola_net::{Rendezvous, Secret};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Deadlines for tests: losses are noticed soon, but not so soon that a busy machine makes them up.
pub(crate) fn quick() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.join = Duration::from_secs(20);
    deadlines.handshake = Duration::from_secs(2);
    deadlines.silence = Duration::from_secs(3);
    deadlines.wait = Duration::from_secs(20);
    deadlines
}

/// Remembers events.
#[derive(Debug, Default)]
pub(crate) struct Witness(pub(crate) Mutex<Vec<String>>);

impl Observer for Witness {
    fn observe(&self, event: &Event) {
        let line = match event {
            Event::Joined { .. } => return,
            Event::Refused { reason, .. } => format!("refused: {reason}"),
            Event::Lost(loss) => format!("lost: {loss}"),
            Event::Stalled(stall) => stall.to_string(),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Witness {
    pub(crate) fn heard(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// An address on loopback that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A builder for peer `rank` of `size` that meets at `address`.
pub(crate) fn peer(rank: usize, size: usize, address: SocketAddr) -> ClusterBuilder {
    Cluster::builder()
        .peer(rank, size)
        .workers(1)
        .rendezvous(Rendezvous::Address(address.to_string()))
        .secret(Secret::new("test"))
        .deadlines(quick())
}

/// Runs one thread per builder, each as a peer over TCP; what became of each, in order.
pub(crate) fn over_tcp<T: Send>(
    builders: Vec<ClusterBuilder>,
    program: impl Fn(&Cluster) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    std::thread::scope(|scope| {
        let program = &program;
        let peers: Vec<_> =
            builders.into_iter().map(|builder| scope.spawn(move || builder.run(|cluster| program(cluster)))).collect();
        peers.into_iter().map(|peer| peer.join().unwrap()).collect()
    })
}

/// A job of `size` peers over TCP with everything as it should be.
pub(crate) fn tcp_job<T: Send>(size: usize, program: impl Fn(&Cluster) -> Result<T> + Sync) -> Vec<Result<T>> {
    let address = free_address();
    over_tcp((0..size).map(|rank| peer(rank, size, address)).collect(), program)
}

/// What a proxy does with bytes from the dialing side on one connection; returns what to pass on. `None` closes.
pub(crate) type Tamper = Box<dyn FnMut(usize, Vec<u8>) -> Option<Vec<u8>> + Send>;

/// A proxy in front of `target` that passes every connection through `tamper`, which is given the connection's
/// number (for a job of two: 0 joining, 1 control, 2 bulk).
pub(crate) fn proxy(target: SocketAddr, tamper: impl Fn() -> Tamper + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut connected = 0..;
        for dialed in listener.incoming() {
            let Ok(dialed) = dialed else { return };
            // The tests start the root first, but it may take a moment to listen.
            let onward = loop {
                match TcpStream::connect(target) {
                    Ok(onward) => break onward,
                    Err(_) => std::thread::yield_now(),
                }
            };
            let number = connected.next().unwrap();
            let mut tamper = tamper();
            let (there, back) = (dialed.try_clone().unwrap(), onward.try_clone().unwrap());
            std::thread::spawn(move || pump(there, onward, |bytes| tamper(number, bytes)));
            std::thread::spawn(move || pump(back, dialed, Some));
        }
    });
    address
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(Vec<u8>) -> Option<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        let Some(bytes) = (count > 0).then(|| pass(buffer[..count].to_vec())).flatten() else { break };
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A peer as a process: this test binary again, running only the test `name`, which must start with [`as_process`].
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(name: &str, variables: &[(&str, String)]) -> Self {
        Self::start_in(None, name, variables)
    }

    /// The same inside a network namespace.
    pub(crate) fn start_in(namespace: Option<&str>, name: &str, variables: &[(&str, String)]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = match namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
        };
        let child = command
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env("HEMIOLA_TEST_PROCESS", "1")
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Reads standard output until a line contains `text`.
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&seen).contains(text) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "it ended before it said `{text}`");
            seen.push(byte[0]);
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([format!("-{signal}"), self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Everything it has still to say, and whether it ended well.
    pub(crate) fn finish(mut self) -> (bool, String) {
        let mut output = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        (self.0.wait().unwrap().success(), output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether this process was started by [`Process::start`]; a test that only serves as a process returns if not.
pub(crate) fn as_process() -> bool {
    std::env::var_os("HEMIOLA_TEST_PROCESS").is_some()
}
