//! Averages over a graph: compute, push, wait for the senders, reduce; and again.
//!
//! With a barrier, all tell the first peer that they have pushed and go on when it says so, before the reduce and after it, as `hemiola-collective` does; with no synchronization they reduce what is there.
//!
//! Peers that outlive others do it as there, too: nobody pushes or reduces until all who are left have told each other which round comes next, and all do without the lost one from the largest of those on.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_collective_proto::mix::{Body, Message as Mix, Reduced};
use hemiola_collective_proto::{Mixer, Synchronization, Weights};
use hemiola_core::{Lane, Moment, Rank};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What stands before the values of a piece.
const HEADER: usize = 64;

/// What peers say to each other.
#[derive(Clone, Debug)]
pub enum Message {
    /// One of the mixers'.
    Mix(Mix),
    /// "I have come to so many barriers", and, from the first peer, "so have all".
    Barrier(u64),
    /// "I know that this peer is lost, and this round comes next here."
    Word(Rank, u64),
}

/// What happens between two pushes: a peer changes its values.
pub type Step = Arc<dyn Fn(Rank, u64, &mut [f64]) + Send + Sync>;

/// Adds messages to those that are sent, or takes some away, as a wrong machine would. The flag tells whether they come from a reduce.
pub type Spoil = fn(&mut Vec<Mix>, received: Option<&Mix>);

/// How a peer mixes.
#[derive(Clone)]
pub struct Setup {
    /// Whose values go into whose.
    pub weights: Arc<Weights>,
    /// How many values there are.
    pub length: usize,
    /// And in a message.
    pub piece: usize,
    /// Bytes that each takes on the wire: 8, or more where few stand for many.
    pub value_bytes: usize,
    /// What peers wait for.
    pub synchronization: Synchronization,
    /// How many rounds.
    pub rounds: u64,
    /// What a round computes, and how long that takes.
    pub step: Step,
    /// See [`Setup::step`].
    pub work: Span,
    /// Whether it goes on without peers that are lost.
    pub outlives: bool,
    /// Leaves lost peers out from its own next round on, whatever others say: a fault to be found.
    pub alone: bool,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Setup")
            .field("length", &self.length)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Computing,
    /// It has values to push.
    Pushing,
    /// It is at a barrier; before the reduce if true.
    Barrier(bool),
    Reducing,
    Over,
}

/// Who is left agrees on the first round without a lost peer.
#[derive(Debug)]
struct Agreement {
    gone: Rank,
    /// Those whose word is missing.
    others: Vec<Rank>,
    /// The largest round so far.
    round: u64,
}

/// A peer that mixes.
#[derive(Debug)]
pub struct Mixing {
    setup: Setup,
    me: Rank,
    mixer: Mixer<f64>,
    values: Vec<f64>,
    stage: Stage,
    /// What it had after each round, and what each reduce found.
    history: Vec<(Vec<f64>, Reduced)>,
    /// When each round ended.
    ends: Vec<Moment>,
    /// Barriers it has come to, and that others have told it of.
    barriers: u64,
    heard: Vec<u64>,
    /// What it pushed in each round.
    pushed: Vec<Vec<f64>>,
    /// Losses that were not dealt with yet; what others said, by the lost one and who said it; what is being agreed on.
    due: VecDeque<Rank>,
    words: BTreeMap<(Rank, Rank), u64>,
    agreement: Option<Agreement>,
    /// Who was left out, from which round on.
    losses: Vec<(Rank, u64)>,
    spoil: Option<Spoil>,
}

impl Mixing {
    /// One of the peers.
    pub fn new(me: Rank, peers: usize, setup: Setup) -> Result<Self, String> {
        let Setup { weights, length, piece, synchronization, .. } = &setup;
        let mixer = Mixer::new(me, weights.clone(), *length, *piece, *synchronization);
        Ok(Self {
            me,
            mixer: mixer.map_err(|error| error.to_string())?,
            values: vec![0.0; setup.length],
            stage: Stage::Computing,
            history: Vec::new(),
            ends: Vec::new(),
            barriers: 0,
            // Only the first peer hears of all.
            heard: vec![0; if me == Rank::ROOT { peers } else { 1 }],
            pushed: Vec::new(),
            due: VecDeque::new(),
            words: BTreeMap::new(),
            agreement: None,
            losses: Vec::new(),
            spoil: None,
            setup,
        })
    }

    /// Spoils what it sends.
    #[must_use]
    pub fn spoiled(mut self, spoil: Option<Spoil>) -> Self {
        self.spoil = spoil;
        self
    }

    /// What it had after each round, and what each reduce found.
    #[must_use]
    pub fn history(&self) -> &[(Vec<f64>, Reduced)] {
        &self.history
    }

    /// When each round ended.
    #[must_use]
    pub fn ends(&self) -> &[Moment] {
        &self.ends
    }

    /// What it pushed in each round.
    #[must_use]
    pub fn pushed(&self) -> &[Vec<f64>] {
        &self.pushed
    }

    /// Whom it did without, from which round on, in the order it learned of it.
    #[must_use]
    pub fn losses(&self) -> &[(Rank, u64)] {
        &self.losses
    }

    /// Deals with losses, one after the other; then goes on.
    fn settle(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        loop {
            let Some(agreement) = &mut self.agreement else {
                let Some(gone) = self.due.pop_front() else { return self.go_on(context) };
                self.begin_agreement(gone, context);
                continue;
            };
            let Agreement { gone, others, round } = agreement;
            others.retain(|from| match self.words.remove(&(*gone, *from)) {
                Some(theirs) => {
                    *round = theirs.max(*round);
                    false
                }
                // One that is lost as well will not say anything any more.
                None => !self.due.contains(from),
            });
            if !others.is_empty() {
                context.waits(0, "waits for a word");
                return Ok(());
            }
            let (gone, round) = (*gone, if self.setup.alone { self.mixer.next_round() } else { *round });
            self.agreement = None;
            self.losses.push((gone, round));
            self.mixer.lose(gone, round).map_err(|error| error.to_string())?;
        }
    }

    fn begin_agreement(&mut self, gone: Rank, context: &mut Context<'_, Message>) {
        let round = self.mixer.next_round();
        let lost = |other: &Rank| self.losses.iter().any(|(lost, _)| lost == other);
        let left = |other: &Rank| *other != self.me && *other != gone && !lost(other);
        let others: Vec<Rank> = Rank::all(context.peers()).filter(left).collect();
        for to in &others {
            context.send(*to, Lane::Control, 16 + FRAME, Message::Word(gone, round));
        }
        self.agreement = Some(Agreement { gone, others, round });
    }

    fn compute(&mut self, context: &mut Context<'_, Message>) {
        context.goes_on(0);
        self.stage = if self.history.len() as u64 == self.setup.rounds { Stage::Over } else { Stage::Computing };
        if self.stage == Stage::Computing {
            context.compute(0, "computes", self.setup.work, 0);
        }
    }

    /// Sends what the mixer wants sent. `received` is what it was in answer to, if it was.
    fn send(&mut self, mut out: Vec<Mix>, received: Option<&Mix>, context: &mut Context<'_, Message>) {
        if let Some(spoil) = self.spoil {
            spoil(&mut out, received);
        }
        for message in out {
            let (lane, bytes) = match &message.body {
                Body::Piece { values, .. } => (Lane::Bulk, values.len() / size_of::<f64>() * self.setup.value_bytes),
                Body::Notify => (Lane::Bulk, 0),
                Body::Ack => (Lane::Control, 0),
            };
            context.send(message.to, lane, bytes + HEADER + FRAME, Message::Mix(message));
        }
    }

    /// Comes to a barrier.
    fn come(&mut self, before_reduce: bool, context: &mut Context<'_, Message>) {
        self.barriers += 1;
        self.stage = Stage::Barrier(before_reduce);
        if self.me == Rank::ROOT {
            self.heard[0] = self.barriers;
        } else {
            context.send(Rank::ROOT, Lane::Control, 8 + FRAME, Message::Barrier(self.barriers));
        }
    }

    /// Whether all have come to this barrier; the first peer then tells the others.
    fn all_came(&mut self, context: &mut Context<'_, Message>) -> bool {
        if self.me != Rank::ROOT {
            return self.heard[0] >= self.barriers;
        }
        let all = self.heard.iter().all(|heard| *heard >= self.barriers);
        if all {
            for to in Rank::all(context.peers()).skip(1) {
                context.send(to, Lane::Control, 8 + FRAME, Message::Barrier(self.barriers));
            }
        }
        all
    }

    /// Goes as far as it can.
    fn go_on(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        let barrier = self.setup.synchronization == Synchronization::Barrier;
        while self.agreement.is_none() {
            match self.stage {
                Stage::Pushing if self.mixer.can_push() => {
                    let mut out = Vec::new();
                    self.mixer.push(&self.values, &mut out).map_err(|error| error.to_string())?;
                    self.pushed.push(self.values.clone());
                    self.send(out, None, context);
                    if barrier {
                        self.come(true, context);
                    } else {
                        self.stage = Stage::Reducing;
                    }
                }
                Stage::Barrier(before_reduce) => {
                    if !self.all_came(context) {
                        context.waits(0, "waits at a barrier");
                        return Ok(());
                    }
                    if !before_reduce {
                        self.compute(context);
                        return Ok(());
                    }
                    self.stage = Stage::Reducing;
                }
                Stage::Reducing if self.mixer.can_reduce() => {
                    let mut out = Vec::new();
                    let reduced = self.mixer.reduce(&mut self.values, &mut out).map_err(|error| error.to_string())?;
                    self.history.push((self.values.clone(), reduced));
                    self.ends.push(context.now());
                    self.send(out, None, context);
                    if barrier {
                        self.come(false, context);
                    } else {
                        self.compute(context);
                        return Ok(());
                    }
                }
                Stage::Pushing | Stage::Reducing => {
                    context.waits(0, "waits for neighbours");
                    return Ok(());
                }
                Stage::Computing | Stage::Over => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Actor for Mixing {
    type Message = Message;

    fn start(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.compute(context);
        Ok(())
    }

    fn receive(&mut self, from: Rank, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        match message {
            Message::Mix(message) => {
                if self.spoil.is_some() {
                    self.send(Vec::new(), Some(&message), context);
                }
                self.mixer.receive(message).map_err(|error| error.to_string())?;
            }
            Message::Barrier(count) => self.heard[from.index()] = count,
            Message::Word(gone, round) => {
                self.words.insert((gone, from), round);
                return self.settle(context);
            }
        }
        self.go_on(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Message>) -> Outcome {
        (self.setup.step)(self.me, self.history.len() as u64, &mut self.values);
        self.stage = Stage::Pushing;
        self.go_on(context)
    }

    fn lost(&mut self, peer: Rank, context: &mut Context<'_, Message>) -> Outcome {
        if !self.setup.outlives {
            return if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) };
        }
        self.due.push_back(peer);
        self.settle(context)
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Over && self.agreement.is_none()
    }

    fn waits(&self) -> Vec<Wait> {
        let round = self.history.len();
        if let Some(Agreement { gone, others, .. }) = &self.agreement {
            return vec![Wait::new("driver", format!("word of the loss of peer {gone}"), others.clone())];
        }
        match self.stage {
            Stage::Computing | Stage::Over => Vec::new(),
            Stage::Barrier(_) => {
                let late = self.heard.iter().enumerate().filter(|(_, heard)| **heard < self.barriers);
                let late = late.map(|(peer, _)| Rank::new(peer as u32));
                let on = if self.me == Rank::ROOT { late.collect() } else { vec![Rank::ROOT] };
                vec![Wait::new("driver", format!("a barrier of round {round}"), on)]
            }
            Stage::Pushing | Stage::Reducing => {
                let (acks, notifies) = self.mixer.waits();
                let wait = |what, on: Vec<Rank>| Wait::new("driver", format!("{what} of round {round}"), on);
                [wait("ACKs", acks), wait("NOTIFYs", notifies)].into_iter().filter(|wait| !wait.on.is_empty()).collect()
            }
        }
    }
}
