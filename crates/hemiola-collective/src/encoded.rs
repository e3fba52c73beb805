//! Collectives in fewer bytes: drives an [`Exchange`] of `hemiola-collective-proto`, one collective after the other.
//!
//! **Invariants.** An exchange takes the tags of all its collectives when it begins, so peers agree on them whatever happens in between. An encoder is lent or handed over
//! and always comes back: changed if the exchange came to its end, and as it was if not.

use crate::background::{Begun, Came, Pending};
use crate::collectives::Collectives;
use crate::error::{Error, refused};
use crate::flight::{Flight, Progress};
use crate::outcome::{Awaited, Outcome, Wake};
use hemiola_cluster::{Cluster, Reason, Result};
use hemiola_collective_proto::encode::{Buffer, Exchange, Goal, Leg, Next, Place};
use hemiola_collective_proto::protocol::{Operator, Tag, count_nan, cut};
use hemiola_collective_proto::{Algorithm, Encoder, Encoding};
use hemiola_core::{ChannelId, Rank};
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// The vectors that a matrix is a sum of products of: `Σ uₖ vₖᵀ`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors<'a> {
    /// All `u`, one after the other, of `rows` numbers each.
    pub u: &'a [f32],
    /// As many `v`, of `columns` numbers each.
    pub v: &'a [f32],
    /// Of the matrix.
    pub rows: usize,
    /// Of the matrix.
    pub columns: usize,
}

/// Calls something with the numbers in a buffer, whatever their type.
macro_rules! with {
    ($buffer:expr, $elements:ident => $body:expr) => {
        match $buffer {
            Buffer::F32($elements) => $body,
            Buffer::Bf16($elements) => $body,
            Buffer::F16($elements) => $body,
            Buffer::I64($elements) => $body,
            Buffer::U8($elements) => $body,
        }
    };
}

impl Collectives {
    /// An encoder for vectors of so many numbers: one for each vector, on every peer, for all its updates.
    pub fn encoder(&self, encoding: Encoding, length: usize) -> Result<Encoder> {
        Encoder::new(encoding, length).map_err(refused)
    }

    /// An encoder for matrices of this shape, row by row; [`Encoding::LowRank`] needs one.
    pub fn matrix_encoder(&self, encoding: Encoding, rows: usize, columns: usize) -> Result<Encoder> {
        Encoder::for_matrix(encoding, rows, columns).map_err(refused)
    }

    /// An [`all_reduce`](Collectives::all_reduce) that sends fewer bytes, at a price in precision: see [`Encoding`]. Each vector needs an [`Encoder`] of its own on every
    /// peer, used for all its updates, since what one update does not tell, the next ones do.
    ///
    /// All peers get the same bits. Encodings with error feedback (one bit, top-k, low rank) take sums only, and only of finite numbers: if one peer has another, the call
    /// fails on all, encoders and vectors stay as they were, and all may go on with the next update. `bf16` and `f16` deliver NaN and infinity like any number. On a single peer
    /// the vector is encoded and decoded just the same.
    ///
    /// ```
    /// use hemiola_collective::{Encoding, MakeCollectives, Operator};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let mut encoder = collectives.encoder(Encoding::TopK { keep: 1 }, 4)?;
    ///     let mut gradient = vec![0.0, 0.5, 0.0, 3.0];
    ///     collectives.all_reduce_encoded(&mut gradient, Operator::Sum, &mut encoder)?;
    ///     assert_eq!(gradient, [0.0, 0.0, 0.0, 6.0]);
    ///     let mut nothing_new = vec![0.0; 4];
    ///     collectives.all_reduce_encoded(&mut nothing_new, Operator::Sum, &mut encoder)?;
    ///     assert_eq!(nothing_new, [0.0, 1.0, 0.0, 0.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_encoded(&self, vector: &mut [f32], operator: Operator, encoder: &mut Encoder) -> Result<()> {
        if encoder.encoding() == Encoding::Plain && vector.len() == encoder.length() {
            return self.all_reduce(vector, operator);
        }
        let sum = self.exchange(encoder, vector, Goal::AllReduce, operator)?;
        vector.copy_from_slice(&sum);
        Ok(())
    }

    /// A [`reduce_scatter`](Collectives::reduce_scatter) in fewer bytes. The part that is returned becomes the sum of all peers' there, as it comes out of the encoding; the rest stays what
    /// it was. Followed by an [`all_gather_encoded`](Collectives::all_gather_encoded) of the parts this is an all-reduce in two steps, and a peer may change its part in between.
    ///
    /// Encodings with error feedback keep what they have not told of the whole vector, whoever it was for.
    ///
    /// ```
    /// use hemiola_collective::{Encoding, MakeCollectives, Operator};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let mut encoder = collectives.encoder(Encoding::Bf16, 4)?;
    ///     let mut gradient = vec![1.0, 2.0, 3.0, 4.0];
    ///     let part = collectives.reduce_scatter_encoded(&mut gradient, Operator::Sum, &mut encoder)?;
    ///     let expected = [[2.0, 4.0], [6.0, 8.0]][cluster.rank().index()];
    ///     assert_eq!(gradient[part], expected);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_scatter_encoded(
        &self,
        vector: &mut [f32],
        operator: Operator,
        encoder: &mut Encoder,
    ) -> Result<Range<usize>> {
        let sum = self.exchange(encoder, vector, Goal::ReduceScatter, operator)?;
        let part = cut(vector.len(), self.cluster().size(), self.cluster().rank().index());
        vector[part.clone()].copy_from_slice(&sum);
        Ok(part)
    }

    /// A [`reduce`](Collectives::reduce) in fewer bytes: the root gets what an [`all_reduce_encoded`](Collectives::all_reduce_encoded) would give to all, and the others' vectors stay what they
    /// were.
    #[track_caller]
    pub fn reduce_encoded(
        &self,
        root: Rank,
        vector: &mut [f32],
        operator: Operator,
        encoder: &mut Encoder,
    ) -> Result<()> {
        let sum = self.exchange(encoder, vector, Goal::Reduce { root }, operator)?;
        if root == self.cluster().rank() {
            vector.copy_from_slice(&sum);
        }
        Ok(())
    }

    /// An [`all_gather`](Collectives::all_gather) in fewer bytes: everybody's vector, equally long, as it comes out of the encoding, by rank; one's own, too, so that all have the same bits.
    ///
    /// With error feedback the vectors must be updates that are summed up in the end, since what one does not tell comes with the next. Low rank forms a sum and goes with none of these.
    #[track_caller]
    pub fn all_gather_encoded(&self, vector: &[f32], encoder: &mut Encoder) -> Result<Vec<f32>> {
        self.exchange(encoder, vector, Goal::AllGather, Operator::Sum)
    }

    /// A [`broadcast`](Collectives::broadcast) in fewer bytes: all get the root's vector as it comes out of the encoding, the root among them. Only the root's encoder changes.
    ///
    /// ```
    /// use hemiola_collective::{Encoding, MakeCollectives};
    /// use hemiola_core::Rank;
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let mut encoder = collectives.encoder(Encoding::TopK { keep: 1 }, 3)?;
    ///     let mut update = if cluster.is_root() { [1.0, 7.0, 2.0] } else { [0.0; 3] };
    ///     collectives.broadcast_encoded(Rank::ROOT, &mut update, &mut encoder)?;
    ///     assert_eq!(update, [0.0, 7.0, 0.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_encoded(&self, root: Rank, vector: &mut [f32], encoder: &mut Encoder) -> Result<()> {
        let told = self.exchange(encoder, vector, Goal::Broadcast { root }, Operator::Sum)?;
        vector.copy_from_slice(&told);
        Ok(())
    }

    /// An [`all_to_all`](Collectives::all_to_all) in fewer bytes: block `j` of peer `i` becomes, as it comes out of the encoding, block `i` of peer `j`.
    #[track_caller]
    pub fn all_to_all_encoded(&self, vector: &mut [f32], encoder: &mut Encoder) -> Result<()> {
        let told = self.exchange(encoder, vector, Goal::AllToAll, Operator::Sum)?;
        vector.copy_from_slice(&told);
        Ok(())
    }

    /// Begins any encoded collective and returns at once. [`PendingEncoded::finish`] gives the encoder back, and what this peer gets: the sum; its own part of it alone (reduce-scatter); nothing (a reduce whose
    /// root is another); all vectors by rank (all-gather); or the vector (broadcast, all-to-all). The operator is for goals that combine.
    #[track_caller]
    pub fn begin_encoded(
        &self,
        goal: Goal,
        vector: &[f32],
        operator: Operator,
        mut encoder: Encoder,
    ) -> Result<PendingEncoded> {
        let trip = self.trip(&mut encoder, vector, (goal, operator), Location::caller())?;
        let awaited = self.set_out(trip, encoder, |encoder, sum| (encoder, sum))?;
        Ok(PendingEncoded { awaited })
    }

    /// Begins an [`all_reduce_encoded`](Collectives::all_reduce_encoded) and returns at once. The encoder comes back from [`PendingEncoded::finish`].
    ///
    /// ```
    /// use hemiola_collective::{Encoding, MakeCollectives, Operator};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let encoder = collectives.encoder(Encoding::Bf16, 1000)?;
    ///     let pending = collectives.begin_all_reduce_encoded(vec![1.5; 1000], Operator::Sum, encoder)?;
    ///     // Compute something else here.
    ///     let (_encoder, sum) = pending.finish();
    ///     assert_eq!(sum?, [3.0; 1000]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn begin_all_reduce_encoded(
        &self,
        vector: Vec<f32>,
        operator: Operator,
        encoder: Encoder,
    ) -> Result<PendingEncoded> {
        let begun = self.begin_encoded(Goal::AllReduce, &vector, operator, encoder);
        drop(vector);
        begun
    }

    /// The sum of all peers' matrices, each of which is known as a sum of products `u vᵀ`: the pairs travel, and every peer multiplies. Exact but for rounding, and peers
    /// may bring different numbers of pairs, none among them. The matrix is replaced. [`crate::cost::MatrixUpdate::best_scheme`] says when this sends less than the matrix.
    ///
    /// ```
    /// use hemiola_collective::{Factors, MakeCollectives};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let mut matrix = vec![0.0; 6];
    ///     let factors = Factors { u: &[1.0, 10.0], v: &[1.0, 2.0, 3.0], rows: 2, columns: 3 };
    ///     collectives.all_reduce_factors(factors, &mut matrix)?;
    ///     assert_eq!(matrix, [2.0, 4.0, 6.0, 20.0, 40.0, 60.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_factors(&self, factors: Factors<'_>, matrix: &mut [f32]) -> Result<()> {
        let Factors { rows, columns, .. } = factors;
        if rows.checked_mul(columns) != Some(matrix.len()) {
            return Err(Error::WrongShape { rows, columns, found: matrix.len() }.into());
        }
        let (trip, mut encoder) = self.factors_trip(factors, Location::caller())?;
        let sum = self.carry_through(trip, &mut encoder)?;
        matrix.copy_from_slice(&sum);
        Ok(())
    }

    /// Begins an [`all_reduce_factors`](Collectives::all_reduce_factors); finishing it gives the matrix.
    #[track_caller]
    pub fn begin_all_reduce_factors(&self, factors: Factors<'_>) -> Result<Pending<f32>> {
        let (trip, encoder) = self.factors_trip(factors, Location::caller())?;
        Ok(Pending::new(self.set_out(trip, encoder, |_, sum| sum)?))
    }

    /// All of it, on the calling thread.
    #[track_caller]
    fn exchange(&self, encoder: &mut Encoder, vector: &[f32], goal: Goal, operator: Operator) -> Result<Vec<f32>> {
        let trip = self.trip(encoder, vector, (goal, operator), Location::caller())?;
        self.carry_through(trip, encoder)
    }

    /// Who exchanges. Every encoding of an all-reduce asks how those travel, so that peers with different ones measure it together and then hear of each other.
    #[track_caller]
    fn place(&self, goal: Goal, operator: Operator, summed_bytes: usize) -> Result<Place> {
        let (me, peers) = (self.cluster().rank(), self.cluster().size());
        let algorithm = if goal.combines() { self.algorithm(summed_bytes)? } else { Algorithm::Ring };
        Ok(Place { me, peers, operator, algorithm })
    }

    fn trip(
        &self,
        encoder: &mut Encoder,
        vector: &[f32],
        (goal, operator): (Goal, Operator),
        site: &'static Location<'static>,
    ) -> Result<Trip> {
        let place = self.place(goal, operator, encoder.summed_bytes())?;
        let (exchange, leg) = Exchange::begin(encoder, vector, goal, place).map_err(refused)?;
        let tags = self.take_tags(Exchange::legs(encoder.encoding(), goal));
        Trip::begin(self, tags, (exchange, leg), encoder, site)
    }

    fn factors_trip(&self, factors: Factors<'_>, site: &'static Location<'static>) -> Result<(Trip, Encoder)> {
        let Factors { u, v, rows, columns } = factors;
        let place = self.place(Goal::AllReduce, Operator::Sum, 0)?;
        let (exchange, leg, mut encoder) = Exchange::begin_factors((u, v), (rows, columns), place).map_err(refused)?;
        let tags = self.take_tags(Exchange::legs(encoder.encoding(), Goal::AllReduce));
        let trip = Trip::begin(self, tags, (exchange, leg), &mut encoder, site)?;
        Ok((trip, encoder))
    }

    /// All of it, on the calling thread.
    fn carry_through(&self, mut trip: Trip, encoder: &mut Encoder) -> Result<Vec<f32>> {
        let sum = loop {
            if let Some(sum) = trip.fly(encoder)? {
                break sum;
            }
        };
        self.count(trip.legs, count_nan(&sum));
        Ok(sum)
    }

    /// Hands it to the service.
    fn set_out<R: Send + 'static>(
        &self,
        trip: Trip,
        encoder: Encoder,
        result: fn(Encoder, Result<Vec<f32>>) -> R,
    ) -> Result<Awaited<R>> {
        let (outcome, awaited) = Outcome::new(self.cluster().link(), trip.reason(), trip.tag, self.wake());
        let job = Job { trip, encoder: Some(encoder), outcome, result, ring: None };
        self.with_background(|background| background.carry(Box::new(job)))?;
        Ok(awaited)
    }
}

/// An exchange on its way, and the collective that it is at.
struct Trip {
    cluster: Cluster,
    channel: Box<dyn Fn(u64) -> ChannelId + Send>,
    /// Of the collectives that are still to come.
    tags: Range<u64>,
    /// Of the first, and how many there are.
    tag: Tag,
    legs: u64,
    site: &'static Location<'static>,
    exchange: Exchange,
    flight: Flight,
    buffer: Buffer,
}

impl Trip {
    fn begin(
        collectives: &Collectives,
        mut tags: Range<u64>,
        (mut exchange, leg): (Exchange, Leg),
        encoder: &mut Encoder,
        site: &'static Location<'static>,
    ) -> Result<Self> {
        let (cluster, channel) = (collectives.cluster().clone(), Box::new(collectives.channels()));
        let (tag, legs) = (Tag::new(tags.start), tags.end - tags.start);
        match take_off(&cluster, &channel, &mut tags, &leg, site) {
            Ok(flight) => Ok(Self { cluster, channel, tags, tag, legs, site, exchange, flight, buffer: leg.buffer }),
            Err(error) => {
                exchange.give_up(encoder);
                Err(error)
            }
        }
    }

    fn reason(&self) -> Reason {
        self.flight.reason()
    }

    /// One collective, on the calling thread; the sum, if it was the last.
    fn fly(&mut self, encoder: &mut Encoder) -> Result<Option<Vec<f32>>> {
        let flown = with!(&mut self.buffer, elements => self.flight.run(elements));
        self.or_give_up(encoder, flown)?;
        self.land(encoder)
    }

    fn advance(&mut self) -> Result<Progress> {
        with!(&mut self.buffer, elements => self.flight.advance(elements))
    }

    /// Goes on after a collective: the sum, if it was the last.
    fn land(&mut self, encoder: &mut Encoder) -> Result<Option<Vec<f32>>> {
        let came = std::mem::replace(&mut self.buffer, Buffer::U8(Vec::new()));
        match self.exchange.advance(encoder, came).map_err(refused)? {
            Next::Done(sum) => Ok(Some(sum)),
            Next::Leg(leg) => {
                let flight = take_off(&self.cluster, &self.channel, &mut self.tags, &leg, self.site);
                self.flight = self.or_give_up(encoder, flight)?;
                self.buffer = leg.buffer;
                Ok(None)
            }
        }
    }

    fn or_give_up<T>(&mut self, encoder: &mut Encoder, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.exchange.give_up(encoder);
        }
        result
    }
}

fn take_off(
    cluster: &Cluster,
    channel: &impl Fn(u64) -> ChannelId,
    tags: &mut Range<u64>,
    leg: &Leg,
    site: &'static Location<'static>,
) -> Result<Flight> {
    let number = tags.next().expect("an exchange says how many collectives it takes");
    let what = (leg.buffer.kind(), leg.label.as_ref());
    Flight::begin_as(cluster, channel(number), Tag::new(number), &leg.operation, what, site)
}

/// A trip that the service carries on.
struct Job<R> {
    trip: Trip,
    /// Nothing once it is over.
    encoder: Option<Encoder>,
    outcome: Arc<Outcome<R>>,
    result: fn(Encoder, Result<Vec<f32>>) -> R,
    /// For each of the collectives that come.
    ring: Option<Wake>,
}

impl<R> Job<R> {
    /// Goes as far as it can: the sum, when all is done, or what it waits for.
    fn step(&mut self, encoder: &mut Encoder) -> Result<std::result::Result<Vec<f32>, Came>> {
        loop {
            let went = self.trip.advance().and_then(|progress| {
                if let Progress::Waits(peer) | Progress::Full(peer) = progress {
                    self.outcome.waits_for(peer);
                }
                Ok((progress, self.trip.flight.wait(progress, Duration::ZERO)?))
            });
            match self.trip.or_give_up(encoder, went)? {
                (Progress::Done, _) => {
                    if let Some(sum) = self.trip.land(encoder)? {
                        return Ok(Ok(sum));
                    }
                    if let Some(ring) = &self.ring {
                        self.trip.flight.with_bell(ring);
                    }
                }
                (Progress::Waits(_), true) => {}
                (Progress::Waits(_), false) => return Ok(Err(Came::Waits)),
                (Progress::Full(_), _) => return Ok(Err(Came::Full)),
            }
        }
    }

    fn end(&mut self, encoder: Encoder, sum: Result<Vec<f32>>) {
        self.outcome.tell((self.result)(encoder, sum));
    }
}

impl<R: Send> Begun for Job<R> {
    fn with_bell(&mut self, ring: &Wake) {
        self.trip.flight.with_bell(ring);
        self.ring = Some(ring.clone());
    }

    fn carry_on(&mut self) -> Came {
        let Some(mut encoder) = self.encoder.take() else { return Came::Over };
        match self.step(&mut encoder) {
            Ok(Ok(sum)) => self.end(encoder, Ok(sum)),
            Ok(Err(came)) => {
                self.encoder = Some(encoder);
                return came;
            }
            Err(error) => self.end(encoder, Err(error)),
        }
        Came::Over
    }
}

impl<R> Drop for Job<R> {
    fn drop(&mut self) {
        if let Some(mut encoder) = self.encoder.take() {
            self.trip.exchange.give_up(&mut encoder);
            let ended = Error::Ended { call: self.trip.flight.call().to_string(), tag: self.trip.tag.number() };
            self.end(encoder, Err(ended.into()));
        }
    }
}

/// An encoded collective that goes on by itself. Dropping this lets it go on; its result and the encoder are lost.
#[must_use = "the result and the encoder come from `finish`"]
pub struct PendingEncoded {
    awaited: Awaited<(Encoder, Result<Vec<f32>>)>,
}

impl PendingEncoded {
    /// Which collective of its handle this is, by count: the first of those it is made of.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.awaited.tag()
    }

    /// Whether [`PendingEncoded::finish`] would return at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.awaited.is_over()
    }

    /// Waits until it is over: the encoder, and the sum or what else this peer gets. If there is an error instead, the encoder is as it was given.
    pub fn finish(self) -> (Encoder, Result<Vec<f32>>) {
        self.awaited.finish()
    }
}

impl fmt::Debug for PendingEncoded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingEncoded").field("tag", &self.tag()).finish_non_exhaustive()
    }
}
