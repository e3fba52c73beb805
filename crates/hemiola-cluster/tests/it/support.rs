//! Foundation of the cluster tests.

pub(crate) use hemiola_testkit::with_watchdog;
use hemiola_testkit::{PeerProcess, entry_command};

use hemiola_cluster::{Cluster, ClusterBuilder, Result};
use hemiola_core::{ClusterEvent, Deadlines, Observer};
use hemiola_net::{Rendezvous, Secret};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Timeouts for tests: losses are detected soon, but a busy machine causes none.
pub(crate) fn short_deadlines() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.join = Duration::from_secs(20);
    deadlines.handshake = Duration::from_secs(2);
    deadlines.silence = Duration::from_secs(3);
    deadlines.wait = Duration::from_secs(20);
    deadlines
}

/// Observer that records events as text.
#[derive(Debug, Default)]
pub(crate) struct EventRecorder(pub(crate) Mutex<Vec<String>>);

impl Observer for EventRecorder {
    fn observe(&self, event: &ClusterEvent) {
        let line = match event {
            ClusterEvent::Joined { .. } => return,
            ClusterEvent::Refused { reason, .. } => format!("refused: {reason}"),
            ClusterEvent::Lost(loss) => format!("lost: {loss}"),
            ClusterEvent::Stalled(stall) => stall.to_string(),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

impl EventRecorder {
    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// Returns an address on loopback that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns a builder for peer `rank` of `size` with the rendezvous `address`.
pub(crate) fn peer(rank: usize, size: usize, address: SocketAddr) -> ClusterBuilder {
    Cluster::builder()
        .peer(rank, size)
        .workers(1)
        .rendezvous(Rendezvous::Address(address.to_string()))
        .secret(Secret::new("secret of the tests"))
        .deadlines(short_deadlines())
        .shares_process()
}

/// Runs one thread per builder, each as a peer over TCP. Returns their results in order.
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

/// Runs a job of `size` peers over TCP with valid settings.
pub(crate) fn tcp_job<T: Send>(size: usize, program: impl Fn(&Cluster) -> Result<T> + Sync) -> Vec<Result<T>> {
    let address = free_address();
    over_tcp((0..size).map(|rank| peer(rank, size, address)).collect(), program)
}

/// Function that a proxy applies to the bytes of the connecting side, given the connection's number.
/// Returns the bytes to forward; `None` closes the connection.
pub(crate) type Tamper = Box<dyn FnMut(usize, Vec<u8>) -> Option<Vec<u8>> + Send>;

/// Starts a proxy in front of `target` that passes every connection through `tamper`. Connections
/// are numbered (for a job of two: 0 joining, 1 control, 2 bulk).
pub(crate) fn proxy(target: SocketAddr, tamper: impl Fn() -> Tamper + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut connected = 0..;
        for dialed in listener.incoming() {
            let Ok(dialed) = dialed else { return };
            // The root may take a moment to listen.
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

/// Starts the entry point `name` of this test binary with the given variables, inside a network
/// namespace if one is named.
pub(crate) fn start_process(namespace: Option<&str>, name: &str, variables: &[(&str, String)]) -> PeerProcess {
    let mut command = entry_command(name);
    if let Some(namespace) = namespace {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
        command = inside;
    }
    command.envs(variables.iter().map(|(name, value)| (*name, value)));
    PeerProcess::spawn(command).unwrap()
}
