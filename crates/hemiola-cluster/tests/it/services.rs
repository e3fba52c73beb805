//! Services: they end with their cluster, and do not fail silently.

use crate::support::with_watchdog;
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CHANNEL: ChannelId = ChannelId::of(ChannelOwner::Application, 1);

fn message(bytes: &[u8]) -> OutgoingMessage {
    let payload = Payload::from(bytes.to_vec());
    OutgoingMessage { lane: Lane::Control, channel: CHANNEL, purpose: Purpose::Custom, payload }
}

/// Starts a service that counts messages until it is shut down, or until a message makes it fail.
fn count(cluster: &Cluster, seen: &Arc<AtomicUsize>) -> Result<hemiola_cluster::ServiceHandle> {
    let (receiver, peer_handle, wake, seen) =
        (cluster.open_channel(CHANNEL, Lane::Control), cluster.peer_handle(), cluster.peer_handle(), seen.clone());
    let wake = move || drop(wake.send(wake.rank(), message(b"")));
    cluster.service("count", wake, move |shutdown| {
        while !shutdown.is_shutdown_requested() {
            let Some(message) = peer_handle.receive_within(&receiver, Duration::from_secs(100))? else { continue };
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
                // The watchdog ends this if messages are missing.
                while seen.load(Ordering::SeqCst) < 9 {
                    cluster.env().sleep(Duration::from_millis(1));
                }
                cluster.barrier()?;
                if cluster.is_root() {
                    service.shutdown();
                    assert!(service.is_finished());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 9);
    });
}

#[test]
fn a_failing_service_fails_the_job_with_its_reason() {
    for (command, expected) in [("fail", "count: it was told to"), ("panic", "count: it panicked: it was told to")] {
        with_watchdog(|| {
            let outcome = standalone(2).run(|cluster| {
                count(cluster, &Arc::default())?;
                cluster.barrier()?;
                if cluster.is_root() {
                    cluster.send(Rank::new(1), message(command.as_bytes()))?;
                }
                // No message arrives: the service ends the wait, on its own peer and on the other.
                let never = cluster.open_channel(ChannelId::of(ChannelOwner::Application, 2), Lane::Control);
                let error = never.receive(Duration::from_secs(100)).map(drop).unwrap_err();
                Err::<(), _>(Error::program(error))
            });
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("lost peer 1") && error.contains(expected), "{error}");
        });
    }
}
