//! How messages get into the slots of a mixer.

use crate::error::refused;
use hemiola_cluster::{Ending, Error, Link, Mailbox, Result};
use hemiola_collective_proto::Mixer;
use hemiola_collective_proto::mix::{Message, Mixed};
use hemiola_core::{ChannelId, Lane, Outgoing, Payload, Purpose};
use parking_lot::Mutex;
use std::time::Duration;

/// How long the service goes without looking around; it is woken for its end.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// How long it holds back between a loss and its being forgiven.
const PAUSE: Duration = Duration::from_millis(2);

/// Takes a message in.
pub(super) fn take<T: Mixed>(mixer: &mut Mixer<T>, message: &hemiola_core::Message) -> Result<()> {
    if message.payload.is_empty() {
        return Ok(()); // it is there to wake
    }
    let to = mixer.me();
    Message::from_bytes(message.from, to, &message.payload).and_then(|message| mixer.receive(message)).map_err(refused)
}

/// Takes in everything that is here.
pub(super) fn take_all<T: Mixed>(mailbox: &Mailbox, mixer: &mut Mixer<T>) -> Result<()> {
    while let Some(message) = mailbox.try_receive() {
        take(mixer, &message)?;
    }
    Ok(())
}

/// Writes what comes into the slots until told to end. Where losses are outlived, it waits for the program to do so.
pub(super) fn serve<T: Mixed>(
    link: &Link,
    values: &Mailbox,
    mixer: &Mutex<Mixer<T>>,
    outlives: bool,
    ending: &Ending,
) -> Result<()> {
    while !ending.has_come() {
        match link.receive_within(values, LOOK_AROUND) {
            Ok(Some(message)) => take(&mut mixer.lock(), &message)?,
            Ok(None) => {}
            Err(Error::Lost(_)) if outlives => link.env().pause(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes the service look around.
pub(super) fn wake_up(link: &Link, channel: ChannelId) {
    let message = Outgoing { lane: Lane::Control, channel, purpose: Purpose::Liveness, payload: Payload::empty() };
    // If this peer has left, its service knows.
    let _ = link.send(link.rank(), message);
}
