//! Default observer: prints cluster events for a person at the terminal.
//!
//! Only events that require action are printed, to standard error: stalls, refusals and warnings,
//! such as of traffic that leaves the host without encryption. A lost peer is not printed, because
//! every peer ends with that error anyway. All events also go to `tracing`. Text of other peers is
//! made printable.

use hemiola_core::{ClusterEvent, Observer, printable, printable_lines};
use std::io::Write;

/// Observer that prints stalls, refusals and warnings to standard error. Used unless the program
/// sets its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct StderrObserver;

impl Observer for StderrObserver {
    // `eprintln!` would panic on the monitor's thread if the disk behind standard error is full or
    // its reader is gone.
    fn observe(&self, event: &ClusterEvent) {
        match event {
            ClusterEvent::Joined { rank, size, took } => tracing::info!(%rank, size, ?took, "joined"),
            ClusterEvent::Refused { address, reason } => {
                let (address, reason) = (printable(address), printable(reason));
                tracing::warn!(%address, %reason, "refused");
                let _ = writeln!(std::io::stderr().lock(), "hemiola: refused {address}: {reason}");
            }
            ClusterEvent::Unencrypted { address } => {
                tracing::warn!(address, "unencrypted");
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "hemiola: warning: peers of other hosts join at {address} without TLS: the data of this job can be \
                     read on the network\nhint: set `HEMIOLA_TLS_CERT`, `HEMIOLA_TLS_KEY` and `HEMIOLA_TLS_CA` on every peer"
                );
            }
            ClusterEvent::Lost(loss) => tracing::error!(peer = %loss.rank, cause = %loss.cause, "lost"),
            ClusterEvent::Stalled(stall) => {
                tracing::warn!(%stall, "stalled");
                let _ = write!(std::io::stderr().lock(), "hemiola: {}", printable_lines(&stall.to_string()));
            }
            ClusterEvent::Warning { message } => {
                tracing::warn!(message, "warning");
                let _ = writeln!(std::io::stderr().lock(), "hemiola: warning: {}", printable_lines(message));
            }
            _ => {}
        }
    }
}
