//! Drawing of a communication graph: peers on a circle, an arrow for each edge.

use hemiola::collective::Graph;
use hemiola_core::Rank;
use hemiola_plot::{ColorRole, Picture, StrokeStyle, TextAnchor, TextStyle};
use std::f64::consts::TAU;

const SIZE: f64 = 520.0;
const CAPTION: f64 = 40.0;
/// Distance from the border of the picture to the center of a peer.
const MARGIN: f64 = 40.0;
const LARGEST_PEER: f64 = 13.0;
const HEAD: f64 = 7.0;
/// Number of edges above which edges become fainter, so that the structure stays visible.
const OPAQUE_EDGES: f64 = 60.0;

/// Maximum number of edges in a picture. Larger graphs show the edges of some peers only.
const MAX_EDGES: usize = 4000;

/// Returns the number of peers whose edges are drawn: all, or as many as [`MAX_EDGES`] allows.
pub(super) fn senders_drawn(graph: &Graph) -> usize {
    let (peers, edges) = (graph.peers(), graph.edges().count());
    if edges <= MAX_EDGES { peers } else { (MAX_EDGES / graph.max_out_degree().max(1)).clamp(1, peers) }
}

/// Draws a graph with the edges of [`senders_drawn`] peers, evenly spread around the circle.
pub(super) fn draw(graph: &Graph, caption: &str) -> Picture {
    let mut picture = Picture::new(SIZE, SIZE + CAPTION);
    picture.set_title(caption);
    picture.text([SIZE / 2.0, 26.0], caption, TextStyle::new(14.0, ColorRole::Text).anchor(TextAnchor::Middle).bold());
    let peers = graph.peers();
    let radius = SIZE / 2.0 - MARGIN;
    // Small enough that neighbours on the circle do not touch.
    let dot = LARGEST_PEER.min(0.38 * TAU * radius / peers as f64).max(2.0);
    let position = |rank: Rank| {
        let angle = TAU * rank.index() as f64 / peers as f64;
        [SIZE / 2.0 + radius * angle.sin(), CAPTION + SIZE / 2.0 - radius * angle.cos()]
    };
    let drawn = senders_drawn(graph);
    let senders = (0..drawn).map(|number| Rank::new((number * peers / drawn) as u32));
    let edges: Vec<(Rank, Rank)> =
        senders.flat_map(|from| graph.receivers(from).iter().map(move |&to| (from, to))).collect();
    let opacity = (OPAQUE_EDGES / edges.len().max(1) as f64).clamp(0.15, 1.0);
    for (from, to) in edges {
        let (start, end) = (position(from), position(to));
        let length = (end[0] - start[0]).hypot(end[1] - start[1]);
        let along = [(end[0] - start[0]) / length, (end[1] - start[1]) / length];
        let at = |base: [f64; 2], by: f64, aside: f64| {
            [base[0] + along[0] * by - along[1] * aside, base[1] + along[1] * by + along[0] * aside]
        };
        // Opposite edges between two peers are drawn side by side.
        let aside = if graph.has_edge(to, from) { 2.5 } else { 0.0 };
        let ink = ColorRole::Series(0);
        let tip = at(end, -dot, aside);
        let head = HEAD.min(length / 3.0);
        picture.line([at(start, dot, aside), at(tip, -head, 0.0)], StrokeStyle::new(ink, 1.3).opacity(opacity));
        picture.polygon([tip, at(tip, -head, head * 0.4), at(tip, -head, -head * 0.4)], ink, opacity.max(0.4));
    }
    for rank in Rank::all(peers) {
        let center = position(rank);
        picture.circle(center, dot, ColorRole::Background, Some(StrokeStyle::new(ColorRole::Text, 1.3)));
        if dot >= 7.0 {
            let size = dot * 0.85;
            picture.text(
                [center[0], center[1] + size * 0.36],
                &rank.to_string(),
                TextStyle::new(size, ColorRole::Text).anchor(TextAnchor::Middle),
            );
        }
    }
    picture
}
