//! Frames on a connection that is not yet a link: one at a time, each with a deadline.

use crate::buffer::BufferPool;
use crate::decoder::Decoder;
use crate::frame::{FrameError, FrameHeader, FrameKind};
use crate::tcp::outbound::Outbound;
use crate::tcp::stream::{Patience, Stream};
use crate::tcp::transport::Link;
use bytes::Bytes;
use hemiola_core::{ChannelId, Env, JobId, Lane, Moment, Payload, Purpose, Rank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Largest payload before a peer has proven who it is. The roster of 10,000 peers fits.
const STRANGER_LIMIT: usize = 1 << 20;

/// Why the conversation on a connection broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("the other side was silent for {:.1} s", waited.as_secs_f64())]
    Silent {
        /// How long.
        waited: Duration,
    },
    /// What came is no frame of ours.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came in a frame could not be understood.
    #[error("a message could not be understood: {0}")]
    Message(#[from] postcard::Error),
    /// The system reported an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A connection that talks in whole messages.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    decoder: Decoder,
    outbound: Outbound,
    job: JobId,
    env: Arc<dyn Env>,
    /// Messages that came together with an earlier one.
    arrived: VecDeque<Bytes>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, job: JobId, pool: BufferPool, env: Arc<dyn Env>) -> Self {
        let decoder = Decoder::new(job, STRANGER_LIMIT, pool);
        Self { stream, decoder, outbound: Outbound::default(), job, env, arrived: VecDeque::new() }
    }

    /// Sends one message.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T, deadline: Moment) -> Result<(), WireError> {
        let payload = Payload::from(postcard::to_stdvec(message)?);
        let header = FrameHeader {
            kind: FrameKind::Handshake,
            purpose: Purpose::Liveness,
            length: 0,
            job: self.job,
            sequence: 0,
            channel: ChannelId::new(0),
        };
        self.outbound.push(header, payload);
        let start = self.env.now();
        loop {
            self.outbound.pump(&self.stream, usize::MAX)?;
            let all_out = self.stream.flush()?;
            if all_out && self.outbound.is_empty() {
                return Ok(());
            }
            self.in_time(start, deadline)?;
            self.stream.wait_writable()?;
        }
    }

    /// Receives one message.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, deadline: Moment) -> Result<T, WireError> {
        let start = self.env.now();
        loop {
            if let Some(payload) = self.arrived.pop_front() {
                return Ok(postcard::from_bytes(&payload)?);
            }
            self.in_time(start, deadline)?;
            self.read(Patience::Brief)?;
        }
    }

    /// Takes a message if one is here.
    pub(crate) fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        self.read(Patience::Now)?;
        Ok(self.arrived.pop_front().map(|payload| postcard::from_bytes(&payload)).transpose()?)
    }

    fn read(&mut self, patience: Patience) -> Result<(), WireError> {
        match self.stream.read(self.decoder.space(), patience) {
            Ok(0) => Err(WireError::Closed),
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
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(WireError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    fn in_time(&self, start: Moment, deadline: Moment) -> Result<(), WireError> {
        let now = self.env.now();
        if now < deadline { Ok(()) } else { Err(WireError::Silent { waited: now - start }) }
    }

    /// Hands the connection over to the transport.
    pub(crate) fn into_link(self, peer: Rank, lane: Lane) -> Link {
        Link { peer, lane, stream: self.stream, decoder: self.decoder, sent: self.outbound.sequence() }
    }
}
