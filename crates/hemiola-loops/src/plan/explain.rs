//! Text form of a plan, as printed by `explain`.

use super::tables::hidden_updates_advice;
use super::{ArrayPlacement, LoopPlan, LoopSchedule, TablePlan};
use hemiola_analysis::{Parallelization, WriteMode};
use hemiola_tables_proto::{ClockInterval, Consistency};
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
            self.fmt_table(formatter, table)?;
        }
        let cost = &self.cost;
        let network =
            if self.tables.is_empty() || self.peers == 1 { "on the network" } else { "on the network besides tables" };
        writeln!(
            formatter,
            "  cost of a pass: {} bytes {network}, {} bytes of arrays per peer, imbalance {:.2}, utilization {:.0} %",
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

impl LoopPlan {
    fn fmt_table(&self, formatter: &mut fmt::Formatter<'_>, table: &TablePlan) -> fmt::Result {
        let (unit, of_worker) = match table.clocks {
            ClockInterval::Iterations(_) => ("chunk", true),
            ClockInterval::Run | ClockInterval::Step => ("block", false),
        };
        let rows = match (table.announced, table.next_pass) {
            (true, true) => format!("announced one {unit} ahead, also across passes"),
            (true, false) => format!("announced one {unit} ahead"),
            (false, _) => format!("fetched at the start of a {unit}"),
        };
        let clocks = match table.clocks {
            ClockInterval::Run => "pass".to_owned(),
            ClockInterval::Step => "block".to_owned(),
            ClockInterval::Iterations(count) => counted(count.get() as usize, "iteration"),
        };
        let of_worker = if of_worker { " of a worker" } else { "" };
        let name = &table.name;
        writeln!(formatter, "    table `{name}`: rows {rows}; the clock advances after each {clocks}{of_worker}")?;
        if let Some(delay) = self.read_delay(table) {
            writeln!(
                formatter,
                "      a read may miss the updates of about {} iterations: {} of {} on each of {}",
                delay.total(),
                counted(delay.clocks as usize, "clock"),
                delay.iterations,
                counted(delay.workers as usize, "other worker")
            )?;
        } else if table.consistency == Consistency::Async && self.cuts.peers_used > 1 {
            writeln!(formatter, "      a read may miss any number of updates of other peers")?;
        }
        if self.hides_updates(table) {
            writeln!(formatter, "      warning: {}", hidden_updates_advice(name))?;
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
