//! Threads that serve other peers: they end with their cluster, and do not fail in silence.

use crate::support::with_watchdog;
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ChannelId, Lane, Outgoing, Payload, Purpose, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CHANNEL: ChannelId = ChannelId::of(99, 1);

fn message(bytes: &[u8]) -> Outgoing {
    let payload = Payload::from(bytes.to_vec());
    Outgoing { lane: Lane::Control, channel: CHANNEL, purpose: Purpose::Custom, payload }
}

/// Counts what comes until it is told to end, or a message says how to fail.
fn count(cluster: &Cluster, seen: &Arc<AtomicUsize>) -> Result<hemiola_cluster::Service> {
    let (mailbox, link, wake, seen) =
        (cluster.open(CHANNEL, Lane::Control), cluster.link(), cluster.link(), seen.clone());
    let wake = move || drop(wake.send(wake.rank(), message(b"")));
    cluster.service("count", wake, move |ending| {
        while !ending.has_come() {
            let Some(message) = link.receive_within(&mailbox, Duration::from_secs(100))? else { continue };
            match &message.payload[..] {
                b"fail" => return Err("it was told to".into()),
                b"panic" => panic!("it was told to"),
                b"" => {}
                _ => drop(seen.fetch_add(1, Ordering::SeqCst)),
            }
        }
        Ok(())
    })
}

#[test]
fn a_service_serves_while_the_program_computes_and_ends_with_it() {
    with_watchdog(|| {
        let seen = Arc::new(AtomicUsize::new(0));
        standalone(3)
            .run(|cluster| {
                let service = count(cluster, &seen)?;
                cluster.barrier()?;
                for peer in Rank::all(3) {
                    cluster.send(peer, message(b"one"))?;
                }
                // The watchdog ends this should they not come.
                while seen.load(Ordering::SeqCst) < 9 {
                    cluster.env().pause(Duration::from_millis(1));
                }
                cluster.barrier()?;
                if cluster.is_root() {
                    service.end();
                    assert!(service.has_ended());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 9);
    });
}

#[test]
fn a_service_that_fails_fails_the_job_and_says_why() {
    for (told, expected) in [("fail", "count: it was told to"), ("panic", "count: it panicked: it was told to")] {
        with_watchdog(|| {
            let outcome = standalone(2).run(|cluster| {
                count(cluster, &Arc::default())?;
                cluster.barrier()?;
                if cluster.is_root() {
                    cluster.send(Rank::new(1), message(told.as_bytes()))?;
                }
                // Nobody would ever come: the service ends the wait, on its own peer and on the other.
                let never = cluster.open(ChannelId::of(99, 2), Lane::Control);
                let error = never.receive(Duration::from_secs(100)).map(drop).unwrap_err();
                Err::<(), _>(Error::program(error))
            });
            let said = outcome.unwrap_err().to_string();
            assert!(said.contains("lost peer 1") && said.contains(expected), "{said}");
        });
    }
}
