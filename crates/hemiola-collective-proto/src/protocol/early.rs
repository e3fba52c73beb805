//! Messages of calls that this peer has not begun.
//!
//! Other peers may be ahead. On a cluster each call has a channel of its own, and the router of the
//! network keeps what arrives before the channel is opened. [`EarlyMessages`] is that router for
//! drivers that carry all messages themselves: the simulator, and tests that deliver messages in
//! every order a transport might. It makes no decision; a call that has begun
//! [takes](EarlyMessages::take) its messages before it advances.

use super::{CollectiveBody, CollectiveMessage, Tag};
use std::collections::BTreeMap;

/// Arrived messages by the tag of their call.
#[derive(Debug, Default)]
pub struct EarlyMessages {
    messages: BTreeMap<Tag, Vec<CollectiveMessage>>,
    bytes: usize,
}

impl EarlyMessages {
    /// Keeps an arrived message until its call takes it.
    pub fn keep(&mut self, message: CollectiveMessage) {
        self.bytes += element_bytes(&message);
        self.messages.entry(message.tag).or_default().push(message);
    }

    /// Removes the messages of a call, in order of arrival.
    pub fn take(&mut self, tag: Tag) -> Vec<CollectiveMessage> {
        let taken = self.messages.remove(&tag).unwrap_or_default();
        self.bytes -= taken.iter().map(element_bytes).sum::<usize>();
        taken
    }

    /// Bytes of elements in kept messages; a driver can stop reading when they become too many.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if no message is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

fn element_bytes(message: &CollectiveMessage) -> usize {
    match &message.body {
        CollectiveBody::Elements(elements) => elements.len(),
        CollectiveBody::Failed(_) => 0,
    }
}
