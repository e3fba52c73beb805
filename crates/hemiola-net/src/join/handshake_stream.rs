//! Handshake messages on a connection that has not joined yet: one at a time, each with a deadline.

use crate::buffer::BufferPool;
use crate::decoder::FrameDecoder;
use crate::frame::{FrameError, FrameHeader, FrameKind};
use crate::frame_authentication::{FrameKey, SessionKeys};
use crate::tcp::send_queue::SendQueue;
use crate::tcp::stream::{PeerStream, ReadWait};
use crate::tcp::transport::EstablishedConnection;
use bytes::Bytes;
use hemiola_core::{ChannelId, Env, Lane, Moment, Payload, Purpose, Rank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Largest payload before the other side has authenticated: a claim with a long host name fits.
pub(crate) const UNAUTHENTICATED_LIMIT: usize = 4 * 1024;
/// Largest payload of an authenticated peer that has not started yet. The roster of 65,536 peers fits.
const JOINING_LIMIT: usize = 8 << 20;

/// Error of exchanging handshake messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The other side closed the connection.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing arrived before the deadline.
    #[error("the other side was silent for {:.1} s", waited.as_secs_f64())]
    Silent {
        /// Time that this side waited.
        waited: Duration,
    },
    /// The received bytes are not a valid frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The payload of a frame could not be decoded.
    #[error("cannot decode a handshake message: {0}")]
    Message(#[from] postcard::Error),
    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl HandshakeError {
    /// Returns true if the other side ended the connection without a reason. It may have dropped
    /// this connection in favour of others, so another attempt may succeed.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Closed => true,
            Self::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
            ),
            _ => false,
        }
    }
}

/// Connection that exchanges whole handshake messages.
#[derive(Debug)]
pub(crate) struct HandshakeStream {
    stream: PeerStream,
    decoder: FrameDecoder,
    send_queue: SendQueue,
    env: Arc<dyn Env>,
    /// Messages that arrived together with an earlier one.
    arrived: VecDeque<Bytes>,
}

impl HandshakeStream {
    pub(crate) fn new(stream: PeerStream, pool: BufferPool, env: Arc<dyn Env>) -> Self {
        let mut decoder = FrameDecoder::new(FrameKey::PUBLIC, UNAUTHENTICATED_LIMIT, pool);
        // The frame after the last one of the handshake is under another key.
        decoder.set_stepwise(true);
        Self { stream, decoder, send_queue: SendQueue::new(FrameKey::PUBLIC), env, arrived: VecDeque::new() }
    }

    /// Returns the value that identifies the TLS session of this connection; empty without TLS.
    /// Valid once a message has been received.
    pub(crate) fn channel_binding(&self) -> Result<Vec<u8>, HandshakeError> {
        Ok(self.stream.channel_binding()?)
    }

    /// Uses the session keys from the next frame on, after a handshake in which this side connected.
    pub(crate) fn authenticate_as_dialer(&mut self, keys: SessionKeys) {
        self.use_keys(keys.dialer, keys.acceptor);
    }

    /// Uses the session keys from the next frame on, after a handshake in which this side accepted.
    pub(crate) fn authenticate_as_acceptor(&mut self, keys: SessionKeys) {
        self.use_keys(keys.acceptor, keys.dialer);
    }

    fn use_keys(&mut self, outgoing: FrameKey, incoming: FrameKey) {
        self.send_queue.set_key(outgoing);
        self.decoder.set_key(incoming);
        self.decoder.set_limit(JOINING_LIMIT);
    }

    /// Sends one message before `deadline`.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T, deadline: Moment) -> Result<(), HandshakeError> {
        let payload = Payload::from(postcard::to_stdvec(message)?);
        let header = FrameHeader {
            kind: FrameKind::Handshake,
            purpose: Purpose::Liveness,
            length: 0,
            channel: ChannelId::new(0),
        };
        self.send_queue.push(header, payload);
        let start = self.env.now();
        loop {
            self.send_queue.pump(&self.stream, usize::MAX)?;
            let all_out = self.stream.flush()?;
            if all_out && self.send_queue.is_empty() {
                return Ok(());
            }
            self.check_deadline(start, deadline)?;
            self.stream.wait_writable()?;
        }
    }

    /// Receives one message before `deadline`.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, deadline: Moment) -> Result<T, HandshakeError> {
        let start = self.env.now();
        loop {
            if let Some(payload) = self.arrived.pop_front() {
                return Ok(postcard::from_bytes(&payload)?);
            }
            self.check_deadline(start, deadline)?;
            self.read(ReadWait::Brief)?;
        }
    }

    /// Returns a message if one has arrived.
    pub(crate) fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>, HandshakeError> {
        self.read(ReadWait::Now)?;
        Ok(self.arrived.pop_front().map(|payload| postcard::from_bytes(&payload)).transpose()?)
    }

    /// Decodes one more message, from bytes that have arrived or from the socket.
    fn read(&mut self, wait: ReadWait) -> Result<(), HandshakeError> {
        let mut foreign = false;
        let arrived = &mut self.arrived;
        let before = arrived.len();
        let mut deliver = |header: FrameHeader, payload| {
            foreign |= header.kind != FrameKind::Handshake;
            arrived.push_back(payload);
        };
        self.decoder.decode_arrived(&mut deliver)?;
        if self.arrived.len() == before {
            return self.read_socket(wait);
        }
        check_kind(foreign)
    }

    fn read_socket(&mut self, wait: ReadWait) -> Result<(), HandshakeError> {
        match self.stream.read(self.decoder.space(), wait) {
            Ok(0) => Err(HandshakeError::Closed),
            Ok(count) => {
                let mut foreign = false;
                self.decoder.filled(count, &mut |header, payload| {
                    foreign |= header.kind != FrameKind::Handshake;
                    self.arrived.push_back(payload);
                })?;
                check_kind(foreign)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(HandshakeError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    fn check_deadline(&self, start: Moment, deadline: Moment) -> Result<(), HandshakeError> {
        let now = self.env.now();
        if now < deadline { Ok(()) } else { Err(HandshakeError::Silent { waited: now - start }) }
    }

    /// Hands the connection over to the transport.
    pub(crate) fn into_connection(self, peer: Rank, lane: Lane) -> EstablishedConnection {
        let Self { stream, mut decoder, send_queue, .. } = self;
        decoder.set_stepwise(false);
        EstablishedConnection { peer, lane, stream, decoder, send_queue }
    }
}

fn check_kind(foreign: bool) -> Result<(), HandshakeError> {
    if foreign {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a data frame before joining").into());
    }
    Ok(())
}
