//! Shows that the model check can fail: faults are planted between machines, as a wrong machine would make them, and each must be found.
//!
//! Wrong lines in the machines themselves were tried by hand, one at a time, and each was found within 5,000 schedules: requests with the need of the asking
//! worker; sums not added again to new copies; pushes taken for replies; rows evicted that somebody waits for; sums sent a clock late; sums of
//! leased rows added up over all clocks; leased rows given to others; leases taken after the end; releases not held under BSP; `included` or
//! freshness one too far; images without late updates, or made a clock too late; waits released by exact clock; repeated messages
//! kept; marks of old copies not renewed; versions dropped while in use.

use super::plan::{Dice, Plan};
use super::world::{Counts, World};
use hemiola_tables_proto::batch::Batch;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::stream::Envelope;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Plant {
    /// An update is lost.
    Lost,
    /// An update is applied twice.
    Doubled,
    /// A row is said to be fresher than it is.
    TooFresh,
    /// Updates are said to be in rows that are not.
    IncludedTooMuch,
    /// Updates in rows are not said to be.
    IncludedTooLittle,
    /// A clock is not told.
    SilentClock,
    /// A clock is told before the updates that belong to it.
    EarlyClock,
    /// A row that nobody asked for is taken for an answer.
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
    /// A lease is taken to be back that is still kept.
    FalseReturn,
}

impl Plant {
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

    /// Spoils a message to a shard.
    pub(crate) fn to_shard(self, envelope: &mut Envelope<ToShard<i32>>, dice: &mut Dice) {
        let (Some(body), true) = (&mut envelope.body, dice.percent(30)) else { return };
        match (self, body) {
            (Self::Lost, ToShard::Update { batch, carried, .. }) => (*batch, *carried) = (Batch::new(), Vec::new()),
            (Self::Doubled, ToShard::Update { batch, carried, .. }) if carried.is_empty() => {
                let mut doubled = Batch::new();
                for row in batch.iter() {
                    doubled.push(row.key, row.version, &row.cells);
                    doubled.push(row.key, row.version, &row.cells);
                }
                *batch = doubled;
            }
            (Self::SilentClock, body @ ToShard::Clock(_)) => *body = ToShard::Forget { keys: Vec::new() },
            (Self::EarlyClock, ToShard::Clock(clock)) | (Self::WrongTag, ToShard::Update { clock, .. }) => {
                *clock = clock.next();
            }
            (Self::WrongVersion, ToShard::Update { batch, .. }) => {
                let mut wrong = Batch::new();
                batch.iter().for_each(|row| wrong.push(row.key, row.version + 1, &row.cells));
                *batch = wrong;
            }
            (Self::FalseReturn, body @ ToShard::Intend { .. }) => {
                let ToShard::Intend { keys } = body else { return };
                *body = ToShard::Return { keys: std::mem::take(keys) };
            }
            (Self::ReleasedTwice, ToShard::Release { copies }) => copies.extend_from_within(..),
            _ => {}
        }
    }

    /// Spoils a message to a client.
    pub(crate) fn to_client(self, envelope: &mut Envelope<ToClient<i32, i32>>, dice: &mut Dice) {
        if !dice.percent(30) {
            return;
        }
        let (fresh, included, reply, batch, carried) = match &mut envelope.body {
            Some(ToClient::Rows { fresh, included, reply, batch, carried }) => (fresh, included, reply, batch, carried),
            Some(ToClient::Recall { keys }) if self == Self::SilentRecall => return keys.clear(),
            _ => return,
        };
        match self {
            Self::TooFresh => *fresh = fresh.next(),
            Self::IncludedTooMuch => *included += 1,
            Self::IncludedTooLittle => *included = included.saturating_sub(1),
            Self::PushIsReply => *reply = true,
            Self::NotPushed if !*reply => (*batch, *carried) = (Batch::new(), Vec::new()),
            _ => {}
        }
    }
}

#[test]
fn planted_faults_are_found() {
    for plant in Plant::ALL {
        let mut counts = Counts::default();
        let found = (0..100_000).find(|seed| {
            let mut dice = Dice::new(*seed);
            let mut plan = Plan::new(&mut dice);
            plan.plant = Some(plant);
            World::new(plan, dice).check(&mut counts).is_err()
        });
        assert!(found.is_some(), "{plant:?} was not found in any schedule");
    }
}
