//! Tells a person at the terminal what a cluster reports, unless the program brings an [`Observer`] of its own.
//!
//! Only what someone may act on is printed, to standard error: stalls and refusals. A lost peer is not, because every
//! peer ends with that error anyway. Everything also goes to `tracing`.

use hemiola_core::{Event, Observer};

/// The observer that is used when none is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrator;

impl Observer for Narrator {
    #[expect(clippy::print_stderr, reason = "a stalled job that says nothing is the worst kind")]
    fn observe(&self, event: &Event) {
        match event {
            Event::Joined { rank, size, took } => tracing::info!(%rank, size, ?took, "joined"),
            Event::Refused { address, reason } => {
                tracing::warn!(address, reason, "refused");
                eprintln!("hemiola: turned away {address}: {reason}");
            }
            Event::Lost(loss) => tracing::error!(peer = %loss.rank, cause = %loss.cause, "lost"),
            Event::Stalled(stall) => {
                tracing::warn!(%stall, "stalled");
                eprint!("hemiola: {stall}");
            }
            _ => {}
        }
    }
}
