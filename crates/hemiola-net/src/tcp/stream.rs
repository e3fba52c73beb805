//! TCP connection, plain or with TLS, whose writes never block and whose reads block only briefly.
//!
//! The socket itself stays in blocking mode with a short receive timeout: a thread that waits for a
//! message makes one system call for it, as a hand-written loop would, while the I/O loop and all
//! writers pass `MSG_DONTWAIT`.

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(target_os = "linux")]
use rustix::net::sockopt;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recv, recvmsg, sendmsg};
use rustls::Connection;
use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Longest time that a [`ReadWait::Brief`] read blocks.
pub(crate) const BRIEF_WAIT: Duration = Duration::from_millis(20);
const BRIEF_TIMESPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: BRIEF_WAIT.subsec_nanos() as i64 };
/// Ciphertext and plaintext that TLS may buffer before it reports "would block".
const TLS_BUFFER_BYTES: usize = 512 * 1024;

/// Blocking behaviour of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadWait {
    /// Returns only bytes that are already there.
    Now,
    /// Waits up to [`BRIEF_WAIT`] for bytes.
    Brief,
}

/// Socket of one connection. Reading and writing may happen on different threads at once.
#[derive(Debug)]
pub(crate) struct PeerStream {
    socket: TcpStream,
    tls: Option<Mutex<Connection>>,
}

impl PeerStream {
    pub(crate) fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(BRIEF_WAIT))?;
        if is_within_host(&socket)? {
            disable_pacing(&socket);
        }
        let tls = tls.map(|mut connection| {
            connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
            Mutex::new(connection)
        });
        Ok(Self { socket, tls })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads available bytes into the first space and then the second. Returns `WouldBlock` if
    /// there are none, `Ok(0)` at the end of the stream.
    pub(crate) fn read(&self, [first, second]: [&mut [u8]; 2], wait: ReadWait) -> io::Result<usize> {
        match &self.tls {
            None if second.is_empty() => SocketIo(&self.socket, wait).read(first),
            None => {
                let mut spaces = [IoSliceMut::new(first), IoSliceMut::new(second)];
                SocketIo(&self.socket, wait).read_vectored(&mut spaces)
            }
            Some(tls) => self.read_tls(tls, first, wait),
        }
    }

    fn read_tls(&self, tls: &Mutex<Connection>, space: &mut [u8], wait: ReadWait) -> io::Result<usize> {
        let mut waited = wait == ReadWait::Now;
        loop {
            {
                let mut tls = tls.lock();
                match tls.reader().read(space) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
                match tls.read_tls(&mut SocketIo(&self.socket, ReadWait::Now)) {
                    Ok(0) => return Ok(0), // closed without a TLS closing notice: the frame layer decides
                    Ok(_) => {
                        let outcome = tls.process_new_packets();
                        // Sends handshake replies and alerts; alerts matter most when the outcome
                        // is an error.
                        flush_tls(&mut tls, &self.socket)?;
                        outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !waited => {}
                    Err(error) => return Err(error),
                }
            }
            // Wait without the lock, so that other threads can write meanwhile.
            waited = true;
            poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&BRIEF_TIMESPEC))?;
        }
    }

    /// Returns true if decrypted bytes wait to be read, which no poller knows of.
    pub(crate) fn has_buffered_input(&self) -> bool {
        let Some(tls) = &self.tls else { return false };
        // A buffered end or error is also found by the next read.
        tls.lock()
            .reader()
            .fill_buf()
            .map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |held| !held.is_empty())
    }

    /// Writes as much as fits without waiting; `WouldBlock` if nothing does.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return SocketIo(&self.socket, ReadWait::Now).write_vectored(slices) };
        let mut tls = tls.lock();
        flush_tls(&mut tls, &self.socket)?;
        let count = tls.writer().write_vectored(slices)?;
        flush_tls(&mut tls, &self.socket)?;
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Returns the value that identifies the TLS session, equal on both sides and different for every
    /// session (RFC 9266); empty without TLS. Fails before the TLS handshake is complete.
    pub(crate) fn channel_binding(&self) -> io::Result<Vec<u8>> {
        let Some(tls) = &self.tls else { return Ok(Vec::new()) };
        tls.lock().export_keying_material(vec![0; 32], b"EXPORTER-Channel-Binding", None).map_err(io::Error::other)
    }

    /// Writes what TLS has buffered. Returns true if all of it is written.
    pub(crate) fn flush(&self) -> io::Result<bool> {
        let Some(tls) = &self.tls else { return Ok(true) };
        let mut tls = tls.lock();
        flush_tls(&mut tls, &self.socket)?;
        Ok(!tls.wants_write())
    }

    /// Waits briefly until the socket is writable.
    pub(crate) fn wait_writable(&self) -> io::Result<()> {
        poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&BRIEF_TIMESPEC))?;
        Ok(())
    }

    pub(crate) fn shutdown(&self, shutdown: Shutdown) {
        // An error means that the connection is already down, as intended.
        let _ = self.socket.shutdown(shutdown);
    }
}

/// Returns true if both ends of the connection are on this host. A connection to another host
/// through a local proxy counts too: it ends at the proxy.
fn is_within_host(socket: &TcpStream) -> io::Result<bool> {
    let (here, there) = (socket.local_addr()?.ip(), socket.peer_addr()?.ip());
    Ok(here == there || there.to_canonical().is_loopback())
}

/// Disables pacing of a connection within a host.
///
/// With BBR congestion control, Linux sends at the estimated rate of the network. Within a host
/// there is no network to overload, and a paced sender waits for timers instead of the receiver:
/// with BBR an all-reduce of 16 MB takes 1.3 times as long. Reno does not pace, and every Linux
/// lets every user select it.
fn disable_pacing(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    if sockopt::tcp_congestion(socket).is_ok_and(|name| name.starts_with("bbr")) {
        // If the system refuses, the connection stays paced.
        let _ = sockopt::set_tcp_congestion(socket, "reno");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Moves pending TLS records into the socket as far as they fit.
fn flush_tls(tls: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut SocketIo(socket, ReadWait::Now)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Bare socket with the flags that make its calls block or not.
struct SocketIo<'a>(&'a TcpStream, ReadWait);

impl SocketIo<'_> {
    fn flags(&self) -> RecvFlags {
        match self.1 {
            ReadWait::Now => RecvFlags::DONTWAIT,
            ReadWait::Brief => RecvFlags::empty(),
        }
    }
}

impl Read for SocketIo<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0, &mut *space, self.flags()) {
                Ok((count, _)) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read_vectored(&mut self, spaces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match recvmsg(self.0, spaces, &mut RecvAncillaryBuffer::default(), self.flags()) {
                Ok(received) => return Ok(received.bytes),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for SocketIo<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Elsewhere the runtime ignores SIGPIPE.
        #[cfg(not(target_os = "linux"))]
        let flags = SendFlags::DONTWAIT;
        loop {
            match sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    #[cfg(target_os = "linux")]
    fn connections_within_a_host_are_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(is_within_host(&socket).unwrap());
        // Without BBR on this system there is nothing to disable.
        let paced = sockopt::set_tcp_congestion(&socket, "bbr").is_ok();
        let stream = PeerStream::new(socket, None).unwrap();
        let name = sockopt::tcp_congestion(&stream.socket).unwrap();
        assert!(!name.starts_with("bbr"), "{name}");
        assert!(!paced || name == "reno", "{name}");
    }
}
