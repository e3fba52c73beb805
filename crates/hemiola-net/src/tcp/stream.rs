//! A TCP connection, plain or under TLS, whose writes never block and whose reads block only briefly.
//!
//! The socket itself stays in blocking mode with a short receive timeout: a thread that waits for a message makes one
//! system call for it, as a hand-written loop would, while the I/O loop and all writers pass `MSG_DONTWAIT`.

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
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
        let tls = tls.map(|mut connection| {
            connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
            Mutex::new(connection)
        });
        Ok(Self { socket, tls })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what is there; `WouldBlock` if nothing came, `Ok(0)` at the end of the stream.
    pub(crate) fn read(&self, space: &mut [u8], patience: Patience) -> io::Result<usize> {
        match &self.tls {
            None => Raw(&self.socket, patience).read(space),
            Some(tls) => self.read_tls(tls, space, patience),
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

impl Read for Raw<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let flags = match self.1 {
            Patience::Now => RecvFlags::DONTWAIT,
            Patience::Brief => RecvFlags::empty(),
        };
        loop {
            match recv(self.0, &mut *space, flags) {
                Ok((count, _)) => return Ok(count),
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
