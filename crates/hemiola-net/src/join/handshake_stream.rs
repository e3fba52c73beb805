//! Handshake messages on a connection that has not joined yet: one at a time, each with a deadline.

use crate::buffer::BufferPool;
use crate::decoder::FrameDecoder;
use crate::frame::{FrameError, FrameHeader, FrameKind};
use crate::tcp::send_queue::SendQueue;
use crate::tcp::stream::{PeerStream, ReadWait};
use crate::tcp::transport::EstablishedConnection;
use bytes::Bytes;
use hemiola_core::{ChannelId, Env, JobId, Lane, Moment, Payload, Purpose, Rank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Largest payload before a peer has authenticated. The roster of 10,000 peers fits.
const UNAUTHENTICATED_LIMIT: usize = 1 << 20;

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

/// Connection that exchanges whole handshake messages.
#[derive(Debug)]
pub(crate) struct HandshakeStream {
    stream: PeerStream,
    decoder: FrameDecoder,
    send_queue: SendQueue,
    job: JobId,
    env: Arc<dyn Env>,
    /// Messages that arrived together with an earlier one.
    arrived: VecDeque<Bytes>,
}

impl HandshakeStream {
    pub(crate) fn new(stream: PeerStream, job: JobId, pool: BufferPool, env: Arc<dyn Env>) -> Self {
        let decoder = FrameDecoder::new(job, UNAUTHENTICATED_LIMIT, pool);
        Self { stream, decoder, send_queue: SendQueue::default(), job, env, arrived: VecDeque::new() }
    }

    /// Sends one message before `deadline`.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T, deadline: Moment) -> Result<(), HandshakeError> {
        let payload = Payload::from(postcard::to_stdvec(message)?);
        let header = FrameHeader {
            kind: FrameKind::Handshake,
            purpose: Purpose::Liveness,
            length: 0,
            job: self.job,
            sequence: 0,
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

    fn read(&mut self, wait: ReadWait) -> Result<(), HandshakeError> {
        match self.stream.read(self.decoder.space(), wait) {
            Ok(0) => Err(HandshakeError::Closed),
            Ok(count) => {
                let mut foreign = false;
                self.decoder.filled(count, &mut |header, payload| {
                    foreign |= header.kind != FrameKind::Handshake;
                    self.arrived.push_back(payload);
                })?;
                if foreign {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a data frame before joining").into());
                }
                Ok(())
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
        EstablishedConnection {
            peer,
            lane,
            stream: self.stream,
            decoder: self.decoder,
            sent: self.send_queue.sequence(),
        }
    }
}
