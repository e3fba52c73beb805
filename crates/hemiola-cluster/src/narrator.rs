//! Tells a person at the terminal what a cluster reports, unless the program brings an [`Observer`] of its own.
//!
//! Only what someone may act on is printed, to standard error: stalls and refusals. A lost peer is not, because every
//! peer ends with that error anyway. Everything also goes to `tracing`.

use hemiola_core::{Event, Observer};
use std::io::Write;

/// The observer that is used when none is given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrator;

impl Observer for Narrator {
    // `eprintln!` would panic on the monitor's thread if the disk behind standard error is full or its reader gone.
    fn observe(&self, event: &Event) {
        match event {
            Event::Joined { rank, size, took } => tracing::info!(%rank, size, ?took, "joined"),
            Event::Refused { address, reason } => {
                tracing::warn!(address, reason, "refused");
                let _ = writeln!(std::io::stderr().lock(), "hemiola: turned away {address}: {reason}");
            }
            Event::Lost(loss) => tracing::error!(peer = %loss.rank, cause = %loss.cause, "lost"),
            Event::Stalled(stall) => {
                tracing::warn!(%stall, "stalled");
                let _ = write!(std::io::stderr().lock(), "hemiola: {stall}");
            }
            _ => {}
        }
    }
}
