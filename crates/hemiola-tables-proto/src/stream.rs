//! Ordered stream between two protocol endpoints: numbered, exactly once, acknowledged.
//!
//! Network lanes overtake each other, and a simulated network repeats and delays messages, so the
//! order is restored here. Nothing is retransmitted: a transport delivers, or the peer is lost and
//! the job ends. **Invariants:** a receiver sees bodies 1, 2, 3, ... each once, whatever order and
//! however often they arrive. An acknowledgement never goes back.

use std::collections::BTreeMap;

/// Capacity of the reorder buffer. A message further ahead is a protocol error.
const REORDER_WINDOW: usize = 1 << 16;

/// Message with its sequence number, or an acknowledgement alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequenced<M> {
    /// Sequence number of the body; 0 if there is none.
    pub number: u64,
    /// All messages up to this number have arrived in the opposite direction.
    pub acknowledged: u64,
    /// Message body; `None` for a bare acknowledgement.
    pub body: Option<M>,
}

/// Both directions of a stream, seen from one end. `R` is the type of received bodies.
#[derive(Clone, Debug)]
pub struct OrderedStream<R> {
    /// Number of the last body sent.
    sent: u64,
    /// Last number that the other side has acknowledged.
    acknowledged: u64,
    /// Number of the last body delivered.
    delivered: u64,
    /// Last number that was acknowledged to the other side.
    acked: u64,
    /// The body after the last delivered one. Most arrive in order and need no map.
    next: Option<R>,
    /// Reorder buffer: bodies that arrived early.
    reorder_buffer: BTreeMap<u64, R>,
}

impl<R> Default for OrderedStream<R> {
    fn default() -> Self {
        Self { sent: 0, acknowledged: 0, delivered: 0, acked: 0, next: None, reorder_buffer: BTreeMap::new() }
    }
}

impl<R> OrderedStream<R> {
    /// Numbers an outgoing body.
    pub fn send<S>(&mut self, body: S) -> Sequenced<S> {
        self.sent += 1;
        self.acked = self.delivered;
        Sequenced { number: self.sent, acknowledged: self.delivered, body: Some(body) }
    }

    /// Creates an acknowledgement, if there is something to acknowledge.
    pub fn acknowledge<S>(&mut self) -> Option<Sequenced<S>> {
        self.owes_acknowledgement().then(|| {
            self.acked = self.delivered;
            Sequenced { number: 0, acknowledged: self.delivered, body: None }
        })
    }

    /// Returns true if there is something to acknowledge.
    #[must_use]
    pub fn owes_acknowledgement(&self) -> bool {
        self.acked < self.delivered
    }

    /// Accepts a received message; [`OrderedStream::deliver`] returns its body. The error describes
    /// a protocol violation.
    pub fn accept(&mut self, message: Sequenced<R>) -> Result<(), String> {
        let Sequenced { number, acknowledged, body } = message;
        if acknowledged > self.sent {
            return Err(format!("message {acknowledged} is acknowledged, but only {} were sent", self.sent));
        }
        self.acknowledged = self.acknowledged.max(acknowledged);
        let Some(body) = body else { return Ok(()) };
        if number == 0 {
            return Err("a message body without a sequence number".to_owned());
        }
        if number == self.delivered + 1 {
            // A repetition is dropped: the first copy is still here.
            if self.next.is_none() && !self.reorder_buffer.contains_key(&number) {
                self.next = Some(body);
            }
        } else if number > self.delivered && !self.reorder_buffer.contains_key(&number) {
            if number - self.delivered > REORDER_WINDOW as u64 {
                return Err(format!("message {number} is too far ahead of message {}", self.delivered));
            }
            self.reorder_buffer.insert(number, body);
        }
        Ok(())
    }

    /// Next body in order, with its number.
    pub fn deliver(&mut self) -> Option<(u64, R)> {
        let body = self.next.take().or_else(|| {
            let entry = self.reorder_buffer.first_entry().filter(|entry| *entry.key() == self.delivered + 1)?;
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

    /// Last number that the other side has acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of the last body delivered.
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
        fn bodies_are_delivered_once_and_in_order(order in prop::collection::vec(0..30_usize, 0..300)) {
            let (mut sender, mut receiver) = (OrderedStream::<()>::default(), OrderedStream::<usize>::default());
            let sent: Vec<_> = (0..30).map(|body| sender.send(body)).collect();
            let mut seen = Vec::new();
            for at in order.into_iter().chain(0..30) {
                receiver.accept(sent[at].clone()).unwrap();
                seen.extend(std::iter::from_fn(|| receiver.deliver()).map(|(_, body)| body));
                prop_assert!(seen.iter().copied().eq(0..seen.len()));
            }
            prop_assert_eq!(seen.len(), 30);
            let acked = receiver.acknowledge::<()>().unwrap();
            prop_assert_eq!(receiver.acknowledge::<()>(), None);
            sender.accept(acked).unwrap();
            prop_assert_eq!(sender.acknowledged(), 30);
        }
    }

    #[test]
    fn protocol_violations_are_errors() {
        let mut stream = OrderedStream::<u8>::default();
        for (number, acknowledged, body) in [(1, 1, Some(0)), (0, 0, Some(0)), (1 << 40, 0, Some(0))] {
            assert!(stream.accept(Sequenced { number, acknowledged, body }).is_err());
        }
        assert_eq!(stream.deliver(), None);
    }
}
