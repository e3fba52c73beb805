//! SMPFRAME, figure 8: rotation of model blocks around a ring, with a barrier after every iteration
//! ("micro synchronization") and without ("macro").
//!
//! The numbers are those of the paper's topic model of New York Times articles (tables 2 and 3):
//! 99.5 million tokens, 43 million tokens per second on 25 machines without a barrier, so 1.7
//! million per second and machine. A word-topic table of 100,000 words with about 100 topics each
//! at 8 bytes is 80 MB, divided into rotating blocks. The duration of every visit varies a little.

use super::{FigurePanel, PaperFigure};
use crate::actors::rotation::{RotationActor, RotationSetup};
use crate::cluster_spec::{ClusterSpec, ComputeModel};
use crate::simulation::Simulation;
use crate::units::{DataRate, SimDuration};
use hemiola_schedule::plan::ring::RingDirection;
use std::sync::Arc;

const TOKENS: f64 = 99.5e6;
const TOKENS_A_SECOND: f64 = 1.7e6;
const TABLE_BYTES: usize = 80_000_000;
const ROTATIONS: usize = 10;
/// Blocks per ring position in the variant that overlaps computation and communication.
const SEVERAL: usize = 4;

/// Returns the end of each rotation on all peers, in seconds.
fn rotations(peers: usize, link: u64, deviation: f64, blocks: usize, barrier: bool) -> Result<Vec<f64>, String> {
    let mut cluster = ClusterSpec::new(peers);
    cluster.link.bandwidth = DataRate::from_bits(link);
    cluster.compute = vec![ComputeModel::Jitter { deviation }];
    let all = (peers * blocks) as f64;
    let visit = SimDuration::from_secs_f64(TOKENS / TOKENS_A_SECOND / peers as f64 / all);
    let setup = RotationSetup {
        blocks: vec![blocks; peers],
        length: 1,
        direction: RingDirection::ToHigher,
        rotations: ROTATIONS as u64,
        work: Arc::new(move |_, _, _| visit),
        barrier,
        value_bytes: TABLE_BYTES / (peers * blocks),
        visit: |_, _, _| {},
        pass_out_of_order: false,
    };
    let simulation = Simulation::new(&cluster, 1, |me| RotationActor::new(me, setup.clone()));
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    simulation.run().map_err(|trouble| trouble.to_string())?;
    let end = |rotation: usize| {
        simulation.actors().iter().map(|actor| actor.rotation_ends()[rotation].as_nanos()).max().unwrap_or(0) as f64
            * 1e-9
    };
    Ok((0..ROTATIONS).map(end).collect())
}

/// Runs the simulations and builds the figure.
pub(super) fn draw(peers: &[usize]) -> Result<PaperFigure, String> {
    let kinds = [("barrier", 1, true), ("ring", 1, false), ("ring, 4 blocks each", SEVERAL, false)];
    let (mut rows, mut lines, mut by_jitter) = (Vec::new(), Vec::new(), Vec::new());
    for &count in peers {
        for (network, link) in [("20gbit", 20_000_000_000), ("1gbit", 1_000_000_000)] {
            for deviation in [0.0, 0.1, 0.2, 0.3] {
                let mut micro = 0.0;
                for (name, blocks, barrier) in kinds {
                    let ends = rotations(count, link, deviation, blocks, barrier)?;
                    let seconds = ends[ROTATIONS - 1];
                    if barrier {
                        micro = seconds;
                    }
                    rows.push(vec![
                        name.to_owned(),
                        count.to_string(),
                        network.to_owned(),
                        format!("{:.0} %", 100.0 * deviation),
                        format!("{:.1}", TOKENS * 1e-6 * ROTATIONS as f64 / seconds),
                        format!("{:.2}", micro / seconds),
                    ]);
                    if count == peers[0] {
                        if network == "1gbit" && (deviation - 0.1).abs() < 1e-9 {
                            let tokens = |at: usize| TOKENS * 1e-6 * (at + 1) as f64;
                            let points = ends.iter().enumerate().map(|(at, end)| [*end, tokens(at)]);
                            lines.push((name.to_owned(), std::iter::once([0.0, 0.0]).chain(points).collect()));
                        }
                        if !barrier {
                            by_jitter.push((format!("{name}, {network}"), [100.0 * deviation, micro / seconds]));
                        }
                    }
                }
            }
        }
    }
    let mut speeds: Vec<(String, Vec<[f64; 2]>)> = Vec::new();
    for (name, point) in by_jitter {
        match speeds.iter_mut().find(|(one, _)| *one == name) {
            Some((_, points)) => points.push(point),
            None => speeds.push((name, vec![point])),
        }
    }
    let axes = |x: &str, y: &str| [x.to_owned(), y.to_owned()];
    let panels = vec![
        FigurePanel {
            axes: axes(&format!("seconds, {} peers, 1gbit, 10 % jitter", peers[0]), "million tokens"),
            lines,
        },
        FigurePanel { axes: axes("jitter of a visit (%)", "times faster than with a barrier"), lines: speeds },
    ];
    let columns = vec!["run", "peers", "network", "jitter", "million tokens/s", "times faster"];
    let title = "A ring against a barrier after every iteration".to_owned();
    Ok(PaperFigure { title, panels, columns, rows })
}
