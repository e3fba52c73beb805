//! A plan in words.

use super::{Placement, Plan, Schedule};
use hemiola_analysis::{Strategy, Usage};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.extents.iter().map(|range| format!("{}..{}", range.start, range.end)).collect();
        writeln!(
            formatter,
            "{}, over {}: {} entries in [{}]",
            self.title,
            self.space_text,
            self.entries,
            extents.join(", ")
        )?;
        writeln!(formatter, "{}", indented(&self.analysis.to_string()))?;
        writeln!(formatter, "  plan: {}", self.analysis.describe(&self.strategy))?;
        let (parts, times) = (self.cuts.parts(), self.cuts.times());
        let blocks = match self.cuts.schedule {
            Schedule::Independent if parts == 1 => "all entries one after the other".to_owned(),
            Schedule::Independent => format!("{parts} parts that need nothing of each other"),
            Schedule::Rotation { .. } => {
                format!("{}, {} that go round", counted(parts, "part"), counted(times, "time block"))
            }
            Schedule::Wavefront => format!("{}, {} in waves", counted(parts, "part"), counted(times, "time block")),
        };
        let workers = |peers: usize| counted(self.workers * peers, "worker");
        let who = match (self.strategy == Strategy::Serial, self.cuts.peers_used < self.peers) {
            (true, _) => "one worker".to_owned(),
            (false, true) => format!("{} of the first of {} peers", workers(1), self.peers),
            (false, false) => format!("{} on {}", workers(self.peers), counted(self.peers, "peer")),
        };
        writeln!(formatter, "    {blocks}, on {who}")?;
        if let Some(prediction) = &self.prediction {
            let others = prediction.tried.iter().filter(|tried| tried.ratio != prediction.ratio);
            let others: Vec<String> = others.map(|tried| format!("{}: {:.2}", tried.ratio, tried.over_even)).collect();
            writeln!(
                formatter,
                "    {} for each part, by a pass predicted to take {:.2} of evenly shared work; with {}",
                counted(prediction.ratio, "time block"),
                prediction.over_even(),
                others.join(", ")
            )?;
        }
        for array in &self.arrays {
            let usage = match array.usage {
                Usage::ReadOnly => "read",
                Usage::Buffered => "written through buffers",
                Usage::Written => "written",
            };
            let place = match array.placement {
                Placement::Local { .. } => "local",
                Placement::Rotating { .. } => "rotating",
                Placement::Halo { .. } => "shared at the edges",
                Placement::Whole => "whole",
                Placement::Served => "served",
            };
            let reason = array.reason.strip_prefix(place).and_then(|reason| reason.strip_prefix(", "));
            let reason = reason.unwrap_or(&array.reason);
            writeln!(formatter, "    `{}` {:?}, {usage}: {place} ({reason})", array.name, array.shape)?;
        }
        for table in &self.tables {
            let rows = match (table.announced, table.next_pass) {
                (true, true) => "announced one block ahead, those of the next pass too",
                (true, false) => "announced one block ahead",
                (false, _) => "fetched when a block begins",
            };
            let clocks = if table.clock_each_block { "block" } else { "pass" };
            writeln!(formatter, "    rows of table `{}` are {rows}; its clocks end with each {clocks}", table.name)?;
        }
        let cost = &self.cost;
        writeln!(
            formatter,
            "  cost of a pass: {} bytes between peers, {} bytes of arrays per peer, busiest part {:.2} of the mean, workers busy {:.0} %",
            cost.wire_bytes,
            cost.memory_bytes,
            cost.imbalance,
            cost.utilization * 100.0
        )?;
        for other in &self.alternatives {
            let ratio = other.cost.seconds / cost.seconds;
            writeln!(
                formatter,
                "    instead, {}: {ratio:.2} of the cost, {} bytes between peers",
                other.text, other.cost.wire_bytes
            )?;
        }
        Ok(())
    }
}

/// So many of a thing.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
