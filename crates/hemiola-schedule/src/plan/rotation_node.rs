//! Node of a rotation, without I/O: holds the blocks of a segment, and decides which runs next and
//! where it is sent.
//!
//! A node has the positions of one [`RingSegment`]. Threads with queues and TCP drive it, and so
//! does the simulator. Every event has at most one effect, which the call returns:
//!
//! | event | call | effect |
//! |---|---|---|
//! | a position is idle | [`start_block`](RotationNode::start_block) | the block to run |
//! | a position has run a block | [`finish_block`](RotationNode::finish_block) | a block to send |
//! | a block has arrived | [`on_block`](RotationNode::on_block) | refused if out of order |
//! | a stop signal has arrived | [`on_stop`](RotationNode::on_stop) | passed on once |
//! | the rotation is over here | [`begin_rotation`](RotationNode::begin_rotation) | the next one |
//!
//! A sender may be one rotation ahead. Its blocks wait until this node has begun that rotation.
//!
//! **Invariants:** a position runs blocks in the order of
//! [`Ring::visit`](super::ring::Ring::visit). A block is on one node, or in flight between two. A
//! node keeps at most the blocks of the ring, once for this rotation and once for the next.

use super::ring::RingVisit;
use super::ring_segment::RingSegment;
use super::rotation_inbox::{OutOfOrderBlock, RotationInbox};
use std::collections::{BTreeMap, VecDeque};

/// Node of a rotation with blocks of type `B`. See the [module](self).
#[derive(Clone, Debug)]
pub struct RotationNode<B> {
    inbox: RotationInbox,
    /// Blocks on this node that do not run, with their stages.
    held: BTreeMap<usize, (usize, B)>,
    /// Number of visits that each position has started.
    started: Vec<usize>,
    /// Visit that each position is making.
    running: Vec<Option<RingVisit>>,
    /// Blocks of the next rotation, in the order of their arrival.
    early: VecDeque<(usize, B)>,
}

/// Block that leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDeparture<B> {
    /// Position of another node that the block visits next.
    pub to: usize,
    /// Rotation that the visit belongs to.
    pub rotation: u64,
    /// Number of the block.
    pub block: usize,
    /// Content of the block.
    pub content: B,
}

impl<B> RotationNode<B> {
    /// Creates a node at the start of rotation 0. `home` are the blocks whose home is this node, in
    /// the order of their numbers.
    ///
    /// # Panics
    /// If `home` has fewer blocks than the segment.
    #[must_use]
    pub fn new(segment: RingSegment, home: impl IntoIterator<Item = B>) -> Self {
        let blocks = segment.home_blocks();
        let held: BTreeMap<_, _> = blocks.clone().zip(home).map(|(block, content)| (block, (0, content))).collect();
        assert_eq!(held.len(), blocks.len(), "a node starts with the blocks of its home");
        let positions = segment.positions().len();
        let (started, running) = (vec![0; positions], vec![None; positions]);
        Self { inbox: RotationInbox::new(segment, 0), held, started, running, early: VecDeque::new() }
    }

    /// Positions of this node.
    #[must_use]
    pub fn segment(&self) -> &RingSegment {
        self.inbox.segment()
    }

    /// Number of the current rotation.
    #[must_use]
    pub fn rotation(&self) -> u64 {
        self.inbox.rotation()
    }

    /// Arrivals of the current rotation.
    #[must_use]
    pub fn inbox(&self) -> &RotationInbox {
        &self.inbox
    }

    /// Blocks on this node that do not run, with their numbers.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, &B)> {
        self.held.iter().map(|(block, (_, content))| (*block, content))
    }

    /// Blocks on this node that do not run, to be changed between rotations.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = (usize, &mut B)> {
        self.held.iter_mut().map(|(block, (_, content))| (*block, content))
    }

    fn index(&self, position: usize) -> usize {
        position - self.segment().positions().start
    }

    /// Next visit of a position, if it is idle and has not made all of them. The block may be on
    /// another node.
    #[must_use]
    pub fn next_visit(&self, position: usize) -> Option<RingVisit> {
        let index = self.index(position);
        self.segment().ring().visit(position, self.started[index]).filter(|_| self.running[index].is_none())
    }

    /// Returns whether a position can start its next visit now.
    #[must_use]
    pub fn can_start(&self, position: usize) -> bool {
        self.next_visit(position).is_some_and(|visit| self.is_here(visit))
    }

    fn is_here(&self, visit: RingVisit) -> bool {
        self.held.get(&visit.block).is_some_and(|(stage, _)| *stage == visit.stage)
    }

    /// Starts the next visit of a position, and returns its block; `None` if the position is busy
    /// or the block is not here.
    pub fn start_block(&mut self, position: usize) -> Option<(RingVisit, B)> {
        let visit = self.next_visit(position).filter(|visit| self.is_here(*visit))?;
        let (_, content) = self.held.remove(&visit.block)?;
        let index = self.index(position);
        self.started[index] += 1;
        self.running[index] = Some(visit);
        Some((visit, content))
    }

    /// Ends the visit of a position, and returns its block if it leaves this node.
    ///
    /// # Panics
    /// If the position has not started a visit.
    pub fn finish_block(&mut self, position: usize, content: B) -> Option<BlockDeparture<B>> {
        let index = self.index(position);
        let RingVisit { block, stage } = self.running[index].take().expect("a started visit ends");
        if self.segment().leaves_after(position) {
            return Some(BlockDeparture {
                to: self.segment().destination(),
                rotation: self.rotation(),
                block,
                content,
            });
        }
        self.held.insert(block, (stage + 1, content));
        None
    }

    /// Accepts a block of this rotation, or keeps one of the next.
    pub fn on_block(&mut self, rotation: u64, block: usize, content: B) -> Result<(), OutOfOrderBlock> {
        if rotation == self.rotation() {
            let visit = self.inbox.on_block(block)?;
            self.held.insert(block, (visit.stage, content));
            return Ok(());
        }
        if rotation != self.rotation() + 1 || self.early.len() == self.segment().ring().blocks() {
            return Err(self.inbox.out_of_order(rotation, block));
        }
        self.early.push_back((block, content));
        Ok(())
    }

    /// Stops the rotation: this node or another one has failed. Returns whether this is the first
    /// signal, which is to be passed on.
    pub fn on_stop(&mut self) -> bool {
        self.inbox.on_stop()
    }

    /// Returns whether the positions of this node have made all their visits.
    #[must_use]
    pub fn has_run_all(&self) -> bool {
        let (segment, mut started) = (self.segment(), self.started.iter());
        self.running.iter().all(Option::is_none)
            && segment.positions().all(|position| started.next() == Some(&segment.ring().visits(position)))
    }

    /// Returns whether the rotation is over here: all visits are made, and all blocks are home.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.has_run_all() && self.inbox.expected().is_none()
    }

    /// Begins the next rotation, with the blocks of it that have arrived.
    ///
    /// # Panics
    /// If the current rotation is not over here.
    pub fn begin_rotation(&mut self) -> Result<(), OutOfOrderBlock> {
        assert!(self.is_done(), "a rotation ends before the next one begins");
        self.inbox = RotationInbox::new(self.segment().clone(), self.rotation() + 1);
        self.started.fill(0);
        for (stage, _) in self.held.values_mut() {
            *stage = 0;
        }
        for (block, content) in std::mem::take(&mut self.early) {
            self.on_block(self.rotation(), block, content)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Ring, RingDirection};
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    type Visits = Vec<(u64, RingVisit)>;
    type Nodes = Vec<RotationNode<usize>>;

    /// Runs rotations whose positions act in the order `turns`. Returns the visits of each
    /// position, and the nodes.
    fn rotate(ring: &Arc<Ring>, lengths: &[usize], rotations: u64, turns: &[usize]) -> (Vec<Visits>, Nodes) {
        let mut nodes = Vec::new();
        let mut node_of = Vec::new();
        for length in lengths {
            let segment = RingSegment::new(Arc::clone(ring), node_of.len()..node_of.len() + length);
            node_of.extend(std::iter::repeat_n(nodes.len(), *length));
            nodes.push(RotationNode::new(segment.clone(), segment.home_blocks()));
        }
        let mut links = vec![VecDeque::new(); nodes.len()];
        let mut visits = vec![Vec::new(); ring.size()];
        let mut turn = 0;
        while !nodes.iter().all(|node| node.is_done() && node.rotation() + 1 == rotations) {
            assert!(turn < 100_000, "the ring is deadlocked");
            let position = turns.get(turn).map_or(turn, |chosen| *chosen) % ring.size();
            let node = &mut nodes[node_of[position]];
            turn += 1;
            // A position alternates between receiving a block and running one, if it can.
            let start = if (turn / ring.size()).is_multiple_of(2) { None } else { node.start_block(position) };
            if let Some((visit, content)) = start {
                assert_eq!(visit.block, content);
                visits[position].push((node.rotation(), visit));
                if let Some(BlockDeparture { to, rotation, block, content }) = node.finish_block(position, content) {
                    links[node_of[to]].push_back((rotation, block, content));
                }
            } else if let Some((rotation, block, content)) = links[node_of[position]].pop_front() {
                node.on_block(rotation, block, content).unwrap();
            } else if node.is_done() && node.rotation() + 1 < rotations {
                node.begin_rotation().unwrap();
            }
        }
        assert!(links.iter().all(VecDeque::is_empty));
        (visits, nodes)
    }

    proptest! {
        #[test]
        fn every_position_makes_its_visits_in_order_and_blocks_come_home(
            lengths in prop::collection::vec(1..3_usize, 1..5),
            blocks in prop::collection::vec(0..4_usize, 10),
            rotations in 1..3_u64,
            turns in prop::collection::vec(0..10_usize, 0..300),
        ) {
            let size: usize = lengths.iter().sum();
            for direction in [RingDirection::ToLower, RingDirection::ToHigher, RingDirection::Stationary] {
                let ring = Arc::new(Ring::new(direction, blocks[..size].iter().copied()));
                let (visits, nodes) = rotate(&ring, &lengths, rotations, &turns);
                for (position, visits) in visits.into_iter().enumerate() {
                    let of_rotation: Vec<RingVisit> = (0..).map_while(|nth| ring.visit(position, nth)).collect();
                    let all = |rotation| of_rotation.iter().map(move |visit| (rotation, *visit));
                    prop_assert_eq!(visits, (0..rotations).flat_map(all).collect::<Visits>());
                }
                for node in nodes {
                    prop_assert!(node.blocks().map(|(block, _)| block).eq(node.segment().home_blocks()));
                    prop_assert!(node.blocks().all(|(block, content)| block == *content));
                }
            }
        }
    }

    #[test]
    fn a_node_takes_blocks_of_this_rotation_and_the_next_alone() {
        let ring = Arc::new(Ring::new(RingDirection::ToLower, [1, 1]));
        let mut node = RotationNode::new(RingSegment::new(ring, 0..1), ["own"]);
        node.on_block(1, 1, "early").unwrap();
        let error = node.on_block(2, 1, "too early").unwrap_err();
        assert_eq!(
            error.to_string(),
            "ring positions from 0 on received block 1 of rotation 2, expected block 1 of rotation 0"
        );
        assert_eq!(node.on_block(0, 0, "own").unwrap_err().expected.block, Some(1));
        let (_, content) = node.start_block(0).unwrap();
        assert_eq!(node.start_block(0), None, "the position is busy");
        assert_eq!(node.finish_block(0, content).unwrap().to, 1);
        assert!(!node.can_start(0));
        node.on_block(0, 1, "other").unwrap();
        let (visit, content) = node.start_block(0).unwrap();
        assert_eq!((visit, content), (RingVisit { block: 1, stage: 1 }, "other"));
        node.finish_block(0, content).unwrap();
        node.on_block(0, 0, "own").unwrap();
        node.begin_rotation().unwrap();
        assert_eq!(node.blocks().collect::<Vec<_>>(), [(0, &"own"), (1, &"early")]);
        assert_eq!(node.on_block(1, 1, "twice").unwrap_err().expected.block, Some(0));
    }
}
