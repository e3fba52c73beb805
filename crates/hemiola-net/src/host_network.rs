//! Network of this host, as a process sees it without peers: for diagnosis before a job starts.
//!
//! **Invariant:** nothing is sent beyond the loopback interface, and every wait ends after two
//! seconds.

use hemiola_core::Env;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Round trips of which the median counts.
const ROUND_TRIPS: usize = 100;
/// Longest wait for the connection, and for a byte.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the address that packets to other networks would be sent from. Connecting a datagram
/// socket sends nothing.
pub fn outgoing_address() -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // An address that is reserved for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
    Ok(socket.local_addr()?.ip())
}

/// Measures the median round trip of a byte on the loopback interface.
pub fn loopback_round_trip(clock: &dyn Env) -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect_timeout(&listener.local_addr()?, TIMEOUT)?;
    let (mut far, _) = listener.accept()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
    }
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    let mut byte = [0];
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        near.write_all(&byte)?;
        far.read_exact(&mut byte)?;
        far.write_all(&byte)?;
        near.read_exact(&mut byte)?;
        times.push(clock.now().since(start));
    }
    times.sort_unstable();
    Ok(times[ROUND_TRIPS / 2])
}
