//! Mutation test of the model check: faults are injected into messages, as a wrong implementation
//! would produce them, and the check must detect each.
//!
//! Faults in the implementation itself were tried by hand, one at a time, and each was detected
//! within 5,000 schedules: requests with the need of the fetching worker; sums not added again to
//! new copies; pushes taken for replies; eviction of rows that a worker waits for; sums sent a
//! clock late; sums of leased rows merged over all clocks; leased rows given to other clients;
//! leases accepted after the end; releases not held under BSP; `included` or freshness one too
//! high; images without late updates, or made a clock too late; waits released only at the exact
//! clock; repeated messages kept; dirty marks not renewed; versions dropped while in use.

use super::schedule::{ModelSchedule, TestRng};
use super::simulation::{CoverageCounts, TableSimulation};
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;

/// Fault that is injected into messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum InjectedFault {
    /// An update is lost.
    Lost,
    /// An update is applied twice.
    Doubled,
    /// The freshness of a row is one too high.
    TooFresh,
    /// The `included` number of a row is one too high.
    IncludedTooMuch,
    /// The `included` number of a row is one too low.
    IncludedTooLittle,
    /// A clock message is dropped.
    SilentClock,
    /// A clock is announced before its updates are sent.
    EarlyClock,
    /// A pushed row is marked as a reply.
    PushIsReply,
    /// An update is tagged with a later clock.
    WrongTag,
    /// An update is tagged with another version.
    WrongVersion,
    /// A copy is released twice.
    ReleasedTwice,
    /// Changed rows are not pushed.
    NotPushed,
    /// A lease is not recalled.
    SilentRecall,
    /// A lease is returned while the client still keeps sums.
    FalseReturn,
}

impl InjectedFault {
    const ALL: [Self; 14] = [
        Self::Lost,
        Self::Doubled,
        Self::TooFresh,
        Self::IncludedTooMuch,
        Self::IncludedTooLittle,
        Self::SilentClock,
        Self::EarlyClock,
        Self::PushIsReply,
        Self::WrongTag,
        Self::WrongVersion,
        Self::ReleasedTwice,
        Self::NotPushed,
        Self::SilentRecall,
        Self::FalseReturn,
    ];

    /// Injects the fault into a message to a shard.
    pub(crate) fn to_shard(self, message: &mut Sequenced<ClientMessage<i32>>, rng: &mut TestRng) {
        let (Some(body), true) = (&mut message.body, rng.percent(30)) else { return };
        match (self, body) {
            (Self::Lost, ClientMessage::Update { batch, attachment, .. }) => {
                (*batch, *attachment) = (RowBatch::new(), Vec::new());
            }
            (Self::Doubled, ClientMessage::Update { batch, attachment, .. }) if attachment.is_empty() => {
                let mut doubled = RowBatch::new();
                for row in batch.iter() {
                    doubled.push(row.key, row.version, &row.cells);
                    doubled.push(row.key, row.version, &row.cells);
                }
                *batch = doubled;
            }
            (Self::SilentClock, body @ ClientMessage::Clock(_)) => *body = ClientMessage::Forget { keys: Vec::new() },
            (Self::EarlyClock, ClientMessage::Clock(clock)) | (Self::WrongTag, ClientMessage::Update { clock, .. }) => {
                *clock = clock.next();
            }
            (Self::WrongVersion, ClientMessage::Update { batch, .. }) => {
                let mut wrong = RowBatch::new();
                batch.iter().for_each(|row| wrong.push(row.key, row.version + 1, &row.cells));
                *batch = wrong;
            }
            (Self::FalseReturn, body @ ClientMessage::Intend { .. }) => {
                let ClientMessage::Intend { keys } = body else { return };
                *body = ClientMessage::Return { keys: std::mem::take(keys) };
            }
            (Self::ReleasedTwice, ClientMessage::Release { copies }) => copies.extend_from_within(..),
            _ => {}
        }
    }

    /// Injects the fault into a message to a client.
    pub(crate) fn to_client(self, message: &mut Sequenced<ServerMessage<i32, i32>>, rng: &mut TestRng) {
        if !rng.percent(30) {
            return;
        }
        let (fresh, included, reply, batch, attachment) = match &mut message.body {
            Some(ServerMessage::Rows { fresh, included, reply, batch, attachment }) => {
                (fresh, included, reply, batch, attachment)
            }
            Some(ServerMessage::Recall { keys }) if self == Self::SilentRecall => return keys.clear(),
            _ => return,
        };
        match self {
            Self::TooFresh => *fresh = fresh.next(),
            Self::IncludedTooMuch => *included += 1,
            Self::IncludedTooLittle => *included = included.saturating_sub(1),
            Self::PushIsReply => *reply = true,
            Self::NotPushed if !*reply => (*batch, *attachment) = (RowBatch::new(), Vec::new()),
            _ => {}
        }
    }
}

#[test]
fn injected_faults_are_detected() {
    for fault in InjectedFault::ALL {
        let mut counts = CoverageCounts::default();
        let found = (0..100_000).find(|seed| {
            let mut rng = TestRng::new(*seed);
            let mut schedule = ModelSchedule::new(&mut rng);
            schedule.fault = Some(fault);
            TableSimulation::new(schedule, rng).check(&mut counts).is_err()
        });
        assert!(found.is_some(), "{fault:?} was not found in any schedule");
    }
}
