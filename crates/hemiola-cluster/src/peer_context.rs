//! Runtime context of a peer, and its collectives for small values: barrier, broadcast and
//! all-gather along a binomial tree.
//!
//! Each call has a number, which is equal on every peer if the program makes the same calls in the
//! same order, and a channel of its own. Messages name the call and its call site, so that two
//! peers in different calls report an error instead of hanging. Values above [`INLINE_BYTES`]
//! follow on the bulk lane.

use crate::error::{Error, Result, receive_error};
use crate::monitor::Monitor;
use crate::tree::BinomialTree;
use crate::waits::{WaitReason, WaitRegistry};
use bytes::Bytes;
use hemiola_core::{
    ChannelId, ChannelOwner, Env, Lane, Message, Moment, OutgoingMessage, Payload, Purpose, Rank, Transport,
    TransportError, Waiter,
};
use hemiola_net::{ChannelReceiver, ReceiveError, Router};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Larger values travel on the bulk lane.
const INLINE_BYTES: usize = 32 * 1024;

/// Kind of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClusterCall {
    Barrier,
    Broadcast,
    AllGather,
    /// Barrier at the end of the program.
    Leave,
    AllReduce,
}

impl ClusterCall {
    fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::AllGather => "all_gather",
            Self::AllReduce => "all_reduce",
            Self::Leave => "the end of the program",
        }
    }

    fn purpose(self) -> Purpose {
        match self {
            Self::Barrier | Self::Leave => Purpose::Barrier,
            Self::Broadcast => Purpose::Broadcast,
            Self::AllGather | Self::AllReduce => Purpose::Gather,
        }
    }
}

/// Header in front of every value.
#[derive(Debug, Serialize, Deserialize)]
struct CallHeader {
    call: ClusterCall,
    /// File and line of the call site.
    site: (String, u32),
    /// Root of the tree of this call.
    root: Rank,
    /// True if the value follows on the bulk lane.
    bulk: bool,
}

/// Value of one peer in a gather.
#[derive(Serialize, Deserialize)]
struct GatheredValue {
    rank: Rank,
    value: Vec<u8>,
}

/// Participants of a call. Calls of each scope are counted separately, since servers take part only
/// in those of all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallScope {
    /// Peers that run the program.
    Program,
    /// All peers, dedicated servers included.
    WithServers,
}

impl CallScope {
    /// Returns the number of the first channel of this scope.
    pub(crate) const fn first_channel(self) -> u64 {
        match self {
            Self::Program => 0,
            Self::WithServers => 1 << 55,
        }
    }
}

/// Runtime context of one peer: its transport, router, environment, waits and monitor.
#[derive(Debug)]
pub(crate) struct PeerContext {
    /// Number of peers that run the program. They have the lowest ranks; the others are dedicated
    /// servers.
    pub(crate) peers: usize,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) router: Arc<Router>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) waits: Arc<WaitRegistry>,
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) timeout: Duration,
    /// By scope: number of the next call.
    pub(crate) next: [AtomicU64; 2],
}

impl PeerContext {
    /// Returns the number of peers in a scope.
    pub(crate) fn size(&self, scope: CallScope) -> usize {
        match scope {
            CallScope::Program => self.peers,
            CallScope::WithServers => self.transport.size(),
        }
    }

    /// Returns the time until a wait for `peer` that began at `since` reaches its deadline: zero if
    /// it has. Progress of the peers that it depends on puts the deadline off.
    pub(crate) fn time_left(&self, since: Moment, peer: Option<Rank>) -> Duration {
        let now = self.env.now();
        let left = |from: Moment| self.timeout.saturating_sub(now.since(from));
        match left(since) {
            // The table is consulted only where it decides.
            Duration::ZERO => left(since.max(self.monitor.last_progress(peer))),
            left => left,
        }
    }

    /// Receives the next message of `from`, or of any peer, before the deadline.
    pub(crate) fn receive(
        &self,
        receiver: &ChannelReceiver,
        from: Option<Rank>,
        reason: &dyn fmt::Display,
    ) -> Result<Message> {
        let start = self.env.now();
        let mut left = self.timeout;
        loop {
            let received = match from {
                Some(from) => receiver.receive_from(from, left),
                None => receiver.receive(left),
            };
            match received {
                Err(ReceiveError::TimedOut { .. }) => left = self.time_left(start, from),
                other => return other.map_err(|error| receive_error(error, reason, String::new)),
            }
            if left.is_zero() {
                return Err(self.timed_out(reason, ""));
            }
        }
    }

    /// Creates the error of a wait that has lasted for the timeout.
    pub(crate) fn timed_out(&self, reason: &dyn fmt::Display, details: &str) -> Error {
        let report = format!("\n{}{details}", self.monitor.report());
        Error::TimedOut { reason: reason.to_string(), waited: self.timeout, report }
    }

    /// Returns the peers of a scope that are not excluded.
    pub(crate) fn members(&self, scope: CallScope) -> Vec<Rank> {
        let size = self.size(scope);
        self.router.members().into_iter().filter(|rank| rank.index() < size).collect()
    }

    /// Returns when all peers have made the same call.
    pub(crate) fn barrier(&self, scope: CallScope, call: ClusterCall, site: &'static Location<'static>) -> Result<()> {
        let active = self.start_call(scope, call, site, Rank::ROOT);
        for child in &active.tree.children {
            active.receive(*child)?;
        }
        if let Some(parent) = active.tree.parent {
            active.send(parent, &Bytes::new())?;
            active.receive(parent)?;
        }
        for child in &active.tree.children {
            active.send(*child, &Bytes::new())?;
        }
        Ok(())
    }

    /// Returns the value of `root` on every peer; `value` is called at the root only.
    pub(crate) fn broadcast(
        &self,
        scope: CallScope,
        root: Rank,
        value: impl FnOnce() -> Result<Bytes>,
        site: &'static Location<'static>,
    ) -> Result<Bytes> {
        if let Some(loss) = self.router.loss(root).filter(|_| !self.members(scope).contains(&root)) {
            return Err(Error::Lost(loss));
        }
        let active = self.start_call(scope, ClusterCall::Broadcast, site, root);
        let value = match active.tree.parent {
            Some(parent) => active.receive(parent)?,
            None => value()?,
        };
        for child in &active.tree.children {
            active.send(*child, &value)?;
        }
        Ok(value)
    }

    /// Returns the values of all peers in rank order, on every peer.
    pub(crate) fn all_gather(
        &self,
        scope: CallScope,
        value: Vec<u8>,
        site: &'static Location<'static>,
    ) -> Result<Vec<Vec<u8>>> {
        let active = self.start_call(scope, ClusterCall::AllGather, site, Rank::ROOT);
        let mut gathered_values = vec![GatheredValue { rank: self.transport.rank(), value }];
        for child in &active.tree.children {
            gathered_values.extend(decode::<Vec<GatheredValue>>(&active.receive(*child)?)?);
        }
        let all = if let Some(parent) = active.tree.parent {
            active.send(parent, &encode(&gathered_values)?.into())?;
            active.receive(parent)?
        } else {
            gathered_values.sort_by_key(|gathered| gathered.rank);
            encode(&gathered_values)?.into()
        };
        for child in &active.tree.children {
            active.send(*child, &all)?;
        }
        let gathered_values = decode::<Vec<GatheredValue>>(&all)?;
        if !gathered_values.iter().map(|gathered| gathered.rank).eq(self.members(scope)) {
            let reason = "values of some peers are missing".to_owned();
            return Err(Error::Value { action: "decode", type_name: "the gathered values", reason });
        }
        Ok(gathered_values.into_iter().map(|gathered| gathered.value).collect())
    }

    /// Returns the combined value of all peers on every peer. `merge` adds the value of a child to
    /// that of this peer, and without a child returns the result. The order is that of the tree.
    pub(crate) fn all_reduce(
        &self,
        scope: CallScope,
        mut merge: impl FnMut(Option<Bytes>) -> Result<Bytes>,
        site: &'static Location<'static>,
    ) -> Result<Bytes> {
        let active = self.start_call(scope, ClusterCall::AllReduce, site, Rank::ROOT);
        for child in &active.tree.children {
            merge(Some(active.receive(*child)?))?;
        }
        let mut value = merge(None)?;
        if let Some(parent) = active.tree.parent {
            active.send(parent, &value)?;
            value = active.receive(parent)?;
        }
        for child in &active.tree.children {
            active.send(*child, &value)?;
        }
        Ok(value)
    }

    /// Sends a message. If the receiver left because of another peer's loss, the error is that
    /// loss.
    #[expect(clippy::needless_pass_by_value, reason = "a message is sent once; a full queue needs it again")]
    pub(crate) fn send(&self, to: Rank, message: OutgoingMessage) -> Result<()> {
        let start = self.env.now();
        let mut left = self.timeout;
        loop {
            match self.transport.send(to, message.clone(), left) {
                Err(TransportError::SendTimeout { peer, lane, queued, .. }) => {
                    left = self.time_left(start, Some(to));
                    if left.is_zero() {
                        let waited = self.env.now() - start;
                        return Err(self.cause_of(TransportError::SendTimeout { peer, lane, queued, waited }));
                    }
                }
                other => return other.map_err(|error| self.cause_of(error)),
            }
        }
    }

    /// Returns the cause of a transport error: an earlier loss, if there was one.
    pub(crate) fn cause_of(&self, error: TransportError) -> Error {
        match (error, self.router.failure()) {
            (TransportError::Lost(_), Some(first)) => Error::Lost(first),
            (error, _) => error.into(),
        }
    }

    fn start_call(
        &self,
        scope: CallScope,
        call: ClusterCall,
        site: &'static Location<'static>,
        root: Rank,
    ) -> ActiveCall<'_> {
        // Relaxed: collective calls of one peer are sequential, on whatever threads they run.
        let number = self.next[scope as usize].fetch_add(1, Ordering::Relaxed);
        let members = self.members(scope);
        // If the root is excluded, the first remaining peer replaces it.
        let root = if members.contains(&root) { root } else { members[0] };
        let tree = BinomialTree::among(&members, self.transport.rank(), root);
        let first = scope.first_channel() + number * 2;
        let (control, bulk) =
            (ChannelId::of(ChannelOwner::ClusterCalls, first), ChannelId::of(ChannelOwner::ClusterCalls, first + 1));
        let receiver = self.router.open_channel(control, Lane::Control, &self.transport, &self.env);
        ActiveCall {
            context: self,
            call,
            number,
            site,
            root,
            tree,
            control,
            bulk,
            receiver,
            bulk_receiver: OnceCell::new(),
        }
    }
}

/// Collective call in progress.
struct ActiveCall<'a> {
    context: &'a PeerContext,
    call: ClusterCall,
    number: u64,
    site: &'static Location<'static>,
    root: Rank,
    tree: BinomialTree,
    control: ChannelId,
    bulk: ChannelId,
    receiver: ChannelReceiver,
    /// Opened when the first large value arrives.
    bulk_receiver: OnceCell<ChannelReceiver>,
}

impl ActiveCall<'_> {
    fn reason(&self) -> WaitReason {
        WaitReason { operation: self.call.name(), number: Some(self.number), site: Some(self.site) }
    }

    fn send(&self, to: Rank, value: &Bytes) -> Result<()> {
        let _waiting = self.context.waits.enter(Waiter::Driver, self.reason(), Some(to));
        let bulk = value.len() > INLINE_BYTES;
        let site = (self.site.file().to_owned(), self.site.line());
        let header = Bytes::from(encode(&CallHeader { call: self.call, site, root: self.root, bulk })?);
        let inline = if bulk { Bytes::new() } else { value.clone() };
        let purpose = self.call.purpose();
        let payload = Payload::from_parts([header, inline]);
        self.context.send(to, OutgoingMessage { lane: Lane::Control, channel: self.control, purpose, payload })?;
        if bulk {
            let payload = value.clone().into();
            self.context.send(to, OutgoingMessage { lane: Lane::Bulk, channel: self.bulk, purpose, payload })?;
        }
        Ok(())
    }

    fn receive(&self, from: Rank) -> Result<Bytes> {
        let _waiting = self.context.waits.enter(Waiter::Driver, self.reason(), Some(from));
        let payload = self.wait(&self.receiver, from)?;
        let (header, inline) =
            postcard::take_from_bytes::<CallHeader>(&payload).map_err(|error| decode_error::<CallHeader>(&error))?;
        if (header.call, header.root) != (self.call, self.root) {
            let with_root =
                |root: Rank| if header.call == self.call { format!(" from root {root}") } else { String::new() };
            let there = ClusterCall::name(header.call);
            return Err(Error::Mismatch {
                rank: self.context.transport.rank(),
                here: format!("{}{}", self.reason(), with_root(self.root)),
                other: from,
                there: format!(
                    "{there} #{} at {}:{}{}",
                    self.number,
                    header.site.0,
                    header.site.1,
                    with_root(header.root)
                ),
            });
        }
        if !header.bulk {
            return Ok(payload.slice_ref(inline));
        }
        let PeerContext { transport, router, env, .. } = self.context;
        // Kept until the end of the call: values of other senders may already be queued.
        let receiver = self.bulk_receiver.get_or_init(|| router.open_channel(self.bulk, Lane::Bulk, transport, env));
        self.wait(receiver, from)
    }

    fn wait(&self, receiver: &ChannelReceiver, from: Rank) -> Result<Bytes> {
        let reason = format_args!("{} from peer {from}", self.reason());
        Ok(self.context.receive(receiver, Some(from), &reason)?.payload)
    }
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| Error::Value {
        action: "encode",
        type_name: std::any::type_name::<T>(),
        reason: error.to_string(),
    })
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| decode_error::<T>(&error))
}

fn decode_error<T>(error: &postcard::Error) -> Error {
    Error::Value { action: "decode", type_name: std::any::type_name::<T>(), reason: error.to_string() }
}
