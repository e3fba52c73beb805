//! Text form of a plan, as printed by `explain`.

use super::{ArrayPlacement, LoopPlan, LoopSchedule};
use hemiola_analysis::{Parallelization, WriteMode};
use std::fmt;

impl fmt::Display for LoopPlan {
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
        writeln!(formatter, "  plan: {}", self.analysis.describe(&self.parallelization))?;
        let (parts, times) = (self.cuts.parts(), self.cuts.times());
        let blocks = match self.cuts.schedule {
            LoopSchedule::Independent if parts == 1 => "all entries in order".to_owned(),
            LoopSchedule::Independent => format!("{parts} independent parts"),
            LoopSchedule::Rotation { .. } => {
                format!("{}, {}", counted(parts, "part"), counted(times, "rotating time block"))
            }
            LoopSchedule::Wavefront => {
                format!("{}, {} in a wavefront", counted(parts, "part"), counted(times, "time block"))
            }
        };
        let workers = |peers: usize| counted(self.workers * peers, "worker");
        let who = match (self.parallelization == Parallelization::Serial, self.cuts.peers_used < self.peers) {
            (true, _) => "one worker".to_owned(),
            (false, true) => format!("{} of the first of {} peers", workers(1), self.peers),
            (false, false) => format!("{} on {}", workers(self.peers), counted(self.peers, "peer")),
        };
        writeln!(formatter, "    {blocks}, on {who}")?;
        if let Some(prediction) = &self.prediction {
            let others = prediction.trials.iter().filter(|trial| trial.ratio != prediction.ratio);
            let others: Vec<String> =
                others.map(|trial| format!("{}: {:.2}", trial.ratio, trial.relative_time)).collect();
            writeln!(
                formatter,
                "    {} per part: predicted time {:.2} of perfectly balanced work ({})",
                counted(prediction.ratio, "time block"),
                prediction.relative_time(),
                others.join(", ")
            )?;
        }
        for array in &self.arrays {
            let usage = match array.write_mode {
                WriteMode::ReadOnly => "read",
                WriteMode::Buffered => "written through buffers",
                WriteMode::Written => "written",
            };
            let placement = match array.placement {
                ArrayPlacement::Local { .. } => "local",
                ArrayPlacement::Rotating { .. } => "rotating",
                ArrayPlacement::Halo { .. } => "halo",
                ArrayPlacement::Replicated => "replicated",
                ArrayPlacement::Served => "served",
            };
            let reason = array.reason.strip_prefix(placement).and_then(|reason| reason.strip_prefix(", "));
            let reason = reason.unwrap_or(&array.reason);
            writeln!(formatter, "    `{}` {:?}, {usage}: {placement} ({reason})", array.name, array.shape)?;
        }
        for table in &self.tables {
            let rows = match (table.announced, table.next_pass) {
                (true, true) => "announced one block ahead, also across passes",
                (true, false) => "announced one block ahead",
                (false, _) => "fetched at the start of a block",
            };
            let clocks = if table.clock_each_block { "block" } else { "pass" };
            writeln!(formatter, "    table `{}`: rows {rows}; the clock advances after each {clocks}", table.name)?;
        }
        let cost = &self.cost;
        writeln!(
            formatter,
            "  cost of a pass: {} bytes on the network, {} bytes of arrays per peer, imbalance {:.2}, utilization {:.0} %",
            cost.wire_bytes,
            cost.memory_bytes,
            cost.imbalance,
            cost.utilization * 100.0
        )?;
        for other in &self.alternatives {
            let ratio = other.cost.seconds / cost.seconds;
            writeln!(
                formatter,
                "    alternative, {}: {ratio:.2} times the cost, {} bytes on the network",
                other.text, other.cost.wire_bytes
            )?;
        }
        Ok(())
    }
}

/// A count with the singular or plural of its noun.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
