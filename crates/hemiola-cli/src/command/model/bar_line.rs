//! The progress bar of a training run, as one line that fits into the terminal.
//!
//! A narrow terminal drops parts in this order: the bar, then the end of the metrics. **Invariant:**
//! the line has at most one column less than the terminal, so no terminal wraps it.

use crate::terminal::Palette;

/// Frames of the spinner.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Minimum number of columns of the bar between its brackets.
const SHORTEST_BAR: usize = 8;
/// Maximum number of columns of the bar between its brackets.
const LONGEST_BAR: usize = 60;

/// State of a bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarLine<'a> {
    /// Number of redraws so far, which turn the spinner.
    pub(super) frame: usize,
    pub(super) epoch: u64,
    pub(super) epochs: u64,
    /// Metrics beside the bar.
    pub(super) metrics: &'a str,
}

impl BarLine<'_> {
    /// Formats the line for a terminal with this number of columns.
    pub(super) fn text(&self, columns: usize, palette: Palette) -> String {
        let Self { frame, epoch, epochs, metrics } = *self;
        let room = columns.saturating_sub(1);
        let spinner = SPINNER[frame % SPINNER.len()].to_string();
        let count = format!(" epoch {epoch}/{epochs}");
        let head = 1 + count.chars().count();
        let rest = room.saturating_sub(head);
        if rest == 0 {
            return clipped(&format!("{spinner}{count}"), room);
        }
        let metrics_columns = metrics.chars().count();
        // A space and two brackets before the bar, a space behind it.
        let bar = rest.saturating_sub(metrics_columns + 4).min(LONGEST_BAR);
        let (spinner, metrics) = (palette.code(&spinner), clipped(metrics, rest.saturating_sub(1)));
        if bar < SHORTEST_BAR {
            return format!("{spinner}{count} {metrics}");
        }
        let done = usize::try_from(epoch.min(epochs) * bar as u64 / epochs.max(1)).unwrap_or(bar);
        let filled = palette.code(&"=".repeat(done));
        format!("{spinner}{count} [{filled}{}] {metrics}", " ".repeat(bar - done))
    }
}

/// Returns the first columns of a text, with an ellipsis if something is missing.
fn clipped(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let Some(kept) = columns.checked_sub(1) else { return String::new() };
    text.chars().take(kept).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "objective 0.8100  ndcg@10 0.2000  66.6 M/s  2 min 30 s left";

    fn line(columns: usize) -> String {
        BarLine { frame: 0, epoch: 100, epochs: 200, metrics: METRICS }.text(columns, Palette::new(false))
    }

    #[test]
    fn the_line_fits_into_every_terminal() {
        for columns in 0..200 {
            assert!(line(columns).chars().count() <= columns.saturating_sub(1), "{columns}");
        }
    }

    #[test]
    fn a_narrow_terminal_drops_the_bar_and_then_the_end_of_the_metrics() {
        assert_eq!(line(30), "⠋ epoch 100/200 objective 0.…");
        assert_eq!(line(50), "⠋ epoch 100/200 objective 0.8100  ndcg@10 0.2000…");
        assert_eq!(line(80), format!("⠋ epoch 100/200 {METRICS}"));
        assert_eq!(line(96), format!("⠋ epoch 100/200 [========         ] {METRICS}"));
        assert_eq!(line(10), "⠋ epoch …");
    }

    #[test]
    fn colours_add_no_columns() {
        let bar = BarLine { frame: 1, epoch: 1, epochs: 2, metrics: METRICS };
        let (plain, coloured) = (bar.text(100, Palette::new(false)), bar.text(100, Palette::new(true)));
        assert!(coloured.contains("\x1b[36m="), "{coloured:?}");
        let mut stripped = coloured;
        for code in ["\x1b[36m", "\x1b[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }
}
