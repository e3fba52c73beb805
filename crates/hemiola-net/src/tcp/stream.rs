//! A TCP connection, plain or under TLS, whose writes never block and whose reads block only briefly.
//!
//! The socket itself stays in blocking mode with a short receive timeout: a thread that waits for a message makes one
//! system call for it, as a hand-written loop would, while the I/O loop and all writers pass `MSG_DONTWAIT`.

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

/// The longest a [`Patience::Brief`] read blocks.
pub(crate) const BRIEF: Duration = Duration::from_millis(20);
const BRIEF_SPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: BRIEF.subsec_nanos() as i64 };
/// Ciphertext and plaintext that TLS may hold back before it says "would block".
const TLS_BUFFER_BYTES: usize = 512 * 1024;

/// Whether a read may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Take what is there.
    Now,
    /// Wait up to [`BRIEF`] for something.
    Brief,
}

/// One connection. Reading and writing may happen on different threads at once.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    tls: Option<Mutex<Connection>>,
}

impl Stream {
    pub(crate) fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(BRIEF))?;
        if is_within_host(&socket)? {
            do_not_pace(&socket);
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

    /// Reads what is there into the first space and then the second; `WouldBlock` if nothing came, `Ok(0)` at the end of the stream.
    pub(crate) fn read(&self, [first, second]: [&mut [u8]; 2], patience: Patience) -> io::Result<usize> {
        match &self.tls {
            None if second.is_empty() => Raw(&self.socket, patience).read(first),
            None => {
                let mut spaces = [IoSliceMut::new(first), IoSliceMut::new(second)];
                Raw(&self.socket, patience).read_vectored(&mut spaces)
            }
            Some(tls) => self.read_tls(tls, first, patience),
        }
    }

    fn read_tls(&self, tls: &Mutex<Connection>, space: &mut [u8], patience: Patience) -> io::Result<usize> {
        let mut waited = patience == Patience::Now;
        loop {
            {
                let mut tls = tls.lock();
                match tls.reader().read(space) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
                match tls.read_tls(&mut Raw(&self.socket, Patience::Now)) {
                    Ok(0) => return Ok(0), // cut off without a closing notice: the frame layer judges
                    Ok(_) => {
                        let outcome = tls.process_new_packets();
                        // Handshake replies and alerts; the latter matter most when the outcome is an error.
                        push(&mut tls, &self.socket)?;
                        outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !waited => {}
                    Err(error) => return Err(error),
                }
            }
            // Wait without the lock, or nobody could write meanwhile.
            waited = true;
            poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&BRIEF_SPEC))?;
        }
    }

    /// Whether something was taken out of the socket that has not been read yet: no poller knows of it.
    pub(crate) fn holds_back(&self) -> bool {
        let Some(tls) = &self.tls else { return false };
        // An end or an error that was held back is found by the next read, too.
        tls.lock()
            .reader()
            .fill_buf()
            .map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |held| !held.is_empty())
    }

    /// Writes as much as fits without waiting; `WouldBlock` if nothing does.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return Raw(&self.socket, Patience::Now).write_vectored(slices) };
        let mut tls = tls.lock();
        push(&mut tls, &self.socket)?;
        let count = tls.writer().write_vectored(slices)?;
        push(&mut tls, &self.socket)?;
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Writes what TLS holds back; says whether all of it is out.
    pub(crate) fn flush(&self) -> io::Result<bool> {
        let Some(tls) = &self.tls else { return Ok(true) };
        let mut tls = tls.lock();
        push(&mut tls, &self.socket)?;
        Ok(!tls.wants_write())
    }

    /// Waits briefly until something can be written.
    pub(crate) fn wait_writable(&self) -> io::Result<()> {
        poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&BRIEF_SPEC))?;
        Ok(())
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error here means that the connection is down already, which is what was asked for.
        let _ = self.socket.shutdown(how);
    }
}

/// Whether both ends of the connection are on this host. What talks to another host through a proxy on this one counts, too: the connection ends at the proxy.
fn is_within_host(socket: &TcpStream) -> io::Result<bool> {
    let (here, there) = (socket.local_addr()?.ip(), socket.peer_addr()?.ip());
    Ok(here == there || there.to_canonical().is_loopback())
}

/// Some systems are set up to send at the pace that a network seems to have (BBR). Inside of a host there is no network that could be overrun, and whoever sends at a pace waits for timers
/// instead of for the receiver: with BBR an all-reduce of 16 MB takes 1.3 times as long. Reno does not pace, and every Linux lets every user choose it.
fn do_not_pace(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    if sockopt::tcp_congestion(socket).is_ok_and(|name| name.starts_with("bbr")) {
        // Where it is refused all the same, things go on as they were set up.
        let _ = sockopt::set_tcp_congestion(socket, "reno");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Moves pending TLS records into the socket as far as they fit.
fn push(tls: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Raw(socket, Patience::Now)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The bare socket, with the flags that make its calls wait or not.
struct Raw<'a>(&'a TcpStream, Patience);

impl Raw<'_> {
    fn flags(&self) -> RecvFlags {
        match self.1 {
            Patience::Now => RecvFlags::DONTWAIT,
            Patience::Brief => RecvFlags::empty(),
        }
    }
}

impl Read for Raw<'_> {
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

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Elsewhere the runtime ignores SIGPIPE for us.
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
        // Where the system has no BBR, there is nothing to be turned off.
        let paced = sockopt::set_tcp_congestion(&socket, "bbr").is_ok();
        let stream = Stream::new(socket, None).unwrap();
        let name = sockopt::tcp_congestion(&stream.socket).unwrap();
        assert!(!name.starts_with("bbr"), "{name}");
        assert!(!paced || name == "reno", "{name}");
    }
}
