//! Barrier, broadcast and gather of small values between drivers, along a binomial tree.
//!
//! Each call has a number, the same on every peer if the program makes the same calls in the same order, and a mailbox
//! of its own. Messages name the call and its place in the program, so that two peers in different calls find out and
//! say so instead of hanging. Values above [`INLINE_BYTES`] follow on the bulk lane.

use crate::error::{Error, Result, receive_error};
use crate::monitor::Monitor;
use crate::tree::Tree;
use crate::waits::{Reason, Waits};
use bytes::Bytes;
use hemiola_core::{ChannelId, Env, Lane, Outgoing, Payload, Purpose, Rank, Transport, TransportError, Waiter};
use hemiola_net::{Mailbox, Router};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Top byte of the channels that belong to exchanges.
const OWNER: u8 = 2;
/// Larger values take the bulk lane.
const INLINE_BYTES: usize = 32 * 1024;

/// Which call this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    Barrier,
    Broadcast,
    AllGather,
    /// The barrier at the end of the program.
    Leave,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::Leave => "the end of the program",
        }
    }

    fn purpose(self) -> Purpose {
        match self {
            Self::Barrier | Self::Leave => Purpose::Barrier,
            Self::Broadcast => Purpose::Broadcast,
            Self::AllGather => Purpose::Gather,
        }
    }
}

/// What stands in front of every value.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    call: Call,
    /// File and line of the call.
    site: (String, u32),
    /// Where the tree of this call has its root.
    root: Rank,
    /// The value follows on the bulk lane.
    bulk: bool,
}

/// A gathered value on its way.
#[derive(Serialize, Deserialize)]
struct Part {
    rank: Rank,
    value: Vec<u8>,
}

/// Who takes part in a call. Calls of each scope are counted apart, since servers make only those of everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The peers that run the program.
    Program,
    /// Dedicated servers, too.
    Everyone,
}

impl Scope {
    /// The first number of this scope's channels.
    pub(crate) const fn first_channel(self) -> u64 {
        match self {
            Self::Program => 0,
            Self::Everyone => 1 << 55,
        }
    }
}

/// Makes the calls of one peer.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Peers that run the program: those with the lowest ranks. The others are dedicated servers.
    pub(crate) peers: usize,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) board: Arc<Router>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) timeout: Duration,
    /// By scope: number of the next call.
    pub(crate) next: [AtomicU64; 2],
}

impl Exchange {
    /// Number of peers in a scope.
    pub(crate) fn size(&self, scope: Scope) -> usize {
        match scope {
            Scope::Program => self.peers,
            Scope::Everyone => self.transport.size(),
        }
    }

    /// Those of a scope that have not been done without.
    pub(crate) fn members(&self, scope: Scope) -> Vec<Rank> {
        let size = self.size(scope);
        self.board.members().into_iter().filter(|rank| rank.index() < size).collect()
    }

    /// Returns when all peers have made the same call.
    pub(crate) fn barrier(&self, scope: Scope, call: Call, site: &'static Location<'static>) -> Result<()> {
        let round = self.round(scope, call, site, Rank::ROOT);
        for child in &round.tree.children {
            round.receive(*child)?;
        }
        if let Some(parent) = round.tree.parent {
            round.send(parent, &Bytes::new())?;
            round.receive(parent)?;
        }
        for child in &round.tree.children {
            round.send(*child, &Bytes::new())?;
        }
        Ok(())
    }

    /// The value of `root`, on every peer; `value` is asked for at the root alone.
    pub(crate) fn broadcast(
        &self,
        scope: Scope,
        root: Rank,
        value: impl FnOnce() -> Result<Bytes>,
        site: &'static Location<'static>,
    ) -> Result<Bytes> {
        if let Some(loss) = self.board.loss(root).filter(|_| !self.members(scope).contains(&root)) {
            return Err(Error::Lost(loss));
        }
        let round = self.round(scope, Call::Broadcast, site, root);
        let value = match round.tree.parent {
            Some(parent) => round.receive(parent)?,
            None => value()?,
        };
        for child in &round.tree.children {
            round.send(*child, &value)?;
        }
        Ok(value)
    }

    /// The values of all peers in rank order, on every peer.
    pub(crate) fn all_gather(
        &self,
        scope: Scope,
        value: Vec<u8>,
        site: &'static Location<'static>,
    ) -> Result<Vec<Vec<u8>>> {
        let round = self.round(scope, Call::AllGather, site, Rank::ROOT);
        let mut parts = vec![Part { rank: self.transport.rank(), value }];
        for child in &round.tree.children {
            parts.extend(decode::<Vec<Part>>(&round.receive(*child)?)?);
        }
        let all = if let Some(parent) = round.tree.parent {
            round.send(parent, &encode(&parts)?.into())?;
            round.receive(parent)?
        } else {
            parts.sort_by_key(|part| part.rank);
            encode(&parts)?.into()
        };
        for child in &round.tree.children {
            round.send(*child, &all)?;
        }
        let parts = decode::<Vec<Part>>(&all)?;
        if !parts.iter().map(|part| part.rank).eq(self.members(scope)) {
            let reason = "not every peer's value came back".to_owned();
            return Err(Error::Value { action: "understand", type_name: "the gathered values", reason });
        }
        Ok(parts.into_iter().map(|part| part.value).collect())
    }

    /// Sends a message. If the receiver has gone because of another peer's loss, that loss is the error.
    pub(crate) fn post(&self, to: Rank, message: Outgoing) -> Result<()> {
        self.transport.send(to, message, self.timeout).map_err(|error| self.blame(error))
    }

    /// What an error of the transport means: the loss behind it, if there was an earlier one.
    pub(crate) fn blame(&self, error: TransportError) -> Error {
        match (error, self.board.failure()) {
            (TransportError::Lost(_), Some(first)) => Error::Lost(first),
            (error, _) => error.into(),
        }
    }

    fn round(&self, scope: Scope, call: Call, site: &'static Location<'static>, root: Rank) -> Round<'_> {
        // Relaxed: collective calls of one peer come one after the other, whichever threads make them.
        let number = self.next[scope as usize].fetch_add(1, Ordering::Relaxed);
        let members = self.members(scope);
        // Where the root was done without, the first of those who are left stands in for it.
        let root = if members.contains(&root) { root } else { members[0] };
        let tree = Tree::among(&members, self.transport.rank(), root);
        let first = scope.first_channel() + number * 2;
        let (control, bulk) = (ChannelId::of(OWNER, first), ChannelId::of(OWNER, first + 1));
        let mailbox = self.board.open(control, Lane::Control, &self.transport, &self.env);
        Round { exchange: self, call, number, site, root, tree, control, bulk, mailbox, bulk_mailbox: OnceCell::new() }
    }
}

/// One call that is going on.
struct Round<'a> {
    exchange: &'a Exchange,
    call: Call,
    number: u64,
    site: &'static Location<'static>,
    root: Rank,
    tree: Tree,
    control: ChannelId,
    bulk: ChannelId,
    mailbox: Mailbox,
    /// Opened when the first large value comes.
    bulk_mailbox: OnceCell<Mailbox>,
}

impl Round<'_> {
    fn reason(&self) -> Reason {
        Reason { what: self.call.name(), number: Some(self.number), site: Some(self.site) }
    }

    fn send(&self, to: Rank, value: &Bytes) -> Result<()> {
        let _waiting = self.exchange.waits.enter(Waiter::Driver, self.reason(), Some(to));
        let bulk = value.len() > INLINE_BYTES;
        let site = (self.site.file().to_owned(), self.site.line());
        let note = Bytes::from(encode(&Note { call: self.call, site, root: self.root, bulk })?);
        let inline = if bulk { Bytes::new() } else { value.clone() };
        let purpose = self.call.purpose();
        let payload = Payload::from_parts([note, inline]);
        self.exchange.post(to, Outgoing { lane: Lane::Control, channel: self.control, purpose, payload })?;
        if bulk {
            let payload = value.clone().into();
            self.exchange.post(to, Outgoing { lane: Lane::Bulk, channel: self.bulk, purpose, payload })?;
        }
        Ok(())
    }

    fn receive(&self, from: Rank) -> Result<Bytes> {
        let _waiting = self.exchange.waits.enter(Waiter::Driver, self.reason(), Some(from));
        let payload = self.wait(&self.mailbox, from)?;
        let (note, inline) =
            postcard::take_from_bytes::<Note>(&payload).map_err(|error| not_understood::<Note>(&error))?;
        if (note.call, note.root) != (self.call, self.root) {
            let with_root =
                |root: Rank| if note.call == self.call { format!(" from root {root}") } else { String::new() };
            let there = Call::name(note.call);
            return Err(Error::Mismatch {
                rank: self.exchange.transport.rank(),
                here: format!("{}{}", self.reason(), with_root(self.root)),
                other: from,
                there: format!("{there} #{} at {}:{}{}", self.number, note.site.0, note.site.1, with_root(note.root)),
            });
        }
        if !note.bulk {
            return Ok(payload.slice_ref(inline));
        }
        let Exchange { transport, board, env, .. } = self.exchange;
        // Kept until the end of the round: other senders' values may lie in it already.
        let mailbox = self.bulk_mailbox.get_or_init(|| board.open(self.bulk, Lane::Bulk, transport, env));
        self.wait(mailbox, from)
    }

    fn wait(&self, mailbox: &Mailbox, from: Rank) -> Result<Bytes> {
        let Exchange { timeout, monitor, .. } = self.exchange;
        let report = || format!("\n{}", monitor.report());
        let received = mailbox.receive_from(from, *timeout);
        let explain = |error| receive_error(error, &format_args!("{} from peer {from}", self.reason()), report);
        Ok(received.map_err(explain)?.payload)
    }
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| Error::Value {
        action: "send",
        type_name: std::any::type_name::<T>(),
        reason: error.to_string(),
    })
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| not_understood::<T>(&error))
}

fn not_understood<T>(error: &postcard::Error) -> Error {
    Error::Value { action: "understand", type_name: std::any::type_name::<T>(), reason: error.to_string() }
}
