//! Messages between two machines: numbered, in order, exactly once, acknowledged.
//!
//! Lanes overtake each other and a simulated network repeats and delays, so order is made here. Nothing is sent again:
//! a transport delivers, or the peer is lost and the job ends. **Invariants:** a receiver sees bodies 1, 2, 3, ... each once,
//! whatever order and however often they come. An acknowledgement never goes back.

use std::collections::BTreeMap;

/// Messages that came too early are kept up to this many; somebody who is further ahead is not one of ours.
const PARKED_MESSAGES: usize = 1 << 16;

/// A body on its way, or an acknowledgement alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<M> {
    /// The number of the body; 0 if there is none.
    pub number: u64,
    /// Everything up to this number has arrived on the way back.
    pub acknowledged: u64,
    /// The body.
    pub body: Option<M>,
}

/// Both directions of a stream, seen from one end. `S` is what goes out, `R` what comes in.
#[derive(Clone, Debug)]
pub struct Stream<R> {
    /// Number of the last body sent.
    sent: u64,
    /// What the other side has said to have.
    acknowledged: u64,
    /// Number of the last body handed on.
    delivered: u64,
    /// What we have said to have.
    told: u64,
    /// The body after the last one handed on: most come in order, and need no map.
    next: Option<R>,
    /// Came too early.
    parked: BTreeMap<u64, R>,
}

impl<R> Default for Stream<R> {
    fn default() -> Self {
        Self { sent: 0, acknowledged: 0, delivered: 0, told: 0, next: None, parked: BTreeMap::new() }
    }
}

impl<R> Stream<R> {
    /// Numbers a body that goes out.
    pub fn send<S>(&mut self, body: S) -> Envelope<S> {
        self.sent += 1;
        self.told = self.delivered;
        Envelope { number: self.sent, acknowledged: self.delivered, body: Some(body) }
    }

    /// An acknowledgement, if the other side has not been told of everything.
    pub fn acknowledge<S>(&mut self) -> Option<Envelope<S>> {
        (self.told < self.delivered).then(|| {
            self.told = self.delivered;
            Envelope { number: 0, acknowledged: self.delivered, body: None }
        })
    }

    /// Takes what came in; [`Stream::deliver`] hands it on. An error says what is wrong with it.
    pub fn accept(&mut self, envelope: Envelope<R>) -> Result<(), String> {
        let Envelope { number, acknowledged, body } = envelope;
        if acknowledged > self.sent {
            return Err(format!("message {acknowledged} is acknowledged, and {} were sent", self.sent));
        }
        self.acknowledged = self.acknowledged.max(acknowledged);
        let Some(body) = body else { return Ok(()) };
        if number == 0 {
            return Err("a body without a number".to_owned());
        }
        if number == self.delivered + 1 {
            // If it is a repetition, the one that is here is as good.
            if self.next.is_none() && !self.parked.contains_key(&number) {
                self.next = Some(body);
            }
        } else if number > self.delivered && !self.parked.contains_key(&number) {
            if number - self.delivered > PARKED_MESSAGES as u64 {
                return Err(format!("message {number} came after message {}, too far ahead", self.delivered));
            }
            self.parked.insert(number, body);
        }
        Ok(())
    }

    /// The next body in order, with its number.
    pub fn deliver(&mut self) -> Option<(u64, R)> {
        let body = self.next.take().or_else(|| {
            let entry = self.parked.first_entry().filter(|entry| *entry.key() == self.delivered + 1)?;
            Some(entry.remove())
        })?;
        self.delivered += 1;
        Some((self.delivered, body))
    }

    /// Number of the last body sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Up to where the other side has what was sent.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of the last body handed on.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bodies_come_once_and_in_order(order in prop::collection::vec(0..30_usize, 0..300)) {
            let (mut sender, mut receiver) = (Stream::<()>::default(), Stream::<usize>::default());
            let sent: Vec<_> = (0..30).map(|body| sender.send(body)).collect();
            let mut seen = Vec::new();
            for at in order.into_iter().chain(0..30) {
                receiver.accept(sent[at].clone()).unwrap();
                seen.extend(std::iter::from_fn(|| receiver.deliver()).map(|(_, body)| body));
                prop_assert!(seen.iter().copied().eq(0..seen.len()));
            }
            prop_assert_eq!(seen.len(), 30);
            let told = receiver.acknowledge::<()>().unwrap();
            prop_assert_eq!(receiver.acknowledge::<()>(), None);
            sender.accept(told).unwrap();
            prop_assert_eq!(sender.acknowledged(), 30);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut stream = Stream::<u8>::default();
        for (number, acknowledged, body) in [(1, 1, Some(0)), (0, 0, Some(0)), (1 << 40, 0, Some(0))] {
            assert!(stream.accept(Envelope { number, acknowledged, body }).is_err());
        }
        assert_eq!(stream.deliver(), None);
    }
}
