//! Activity line on a terminal: what a command does before there is anything to print.
//!
//! Reading and evaluating large data take time without a result. The line has a spinner, the time so
//! far and, while the input is read, how much of it. It is drawn only if standard output and standard
//! error are terminals.
//!
//! **Invariant:** the line is gone before the command prints anything: [`output`](crate::output) and
//! the bar of a training [end](end) it.

use crate::readable;
use crate::terminal::{self, Palette};
use hemiola_core::Env;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which the line is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(125);
/// Frames of the spinner.
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Fraction of the input that must be read before the rest is estimated.
const LEAST_READ: f64 = 0.02;

/// Line that is shown. A process has one terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Begins the line `reading`, and after the input of `bytes` is read `then`.
pub(crate) fn begin(env: &Arc<dyn Env>, bytes: u64, then: &'static str) {
    if !(io::stdout().is_terminal() && io::stderr().is_terminal()) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let (env, start) = (env.clone(), read_bytes(&**env));
    let draw = move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
        let read = start.zip(read_bytes(&*env)).map_or(0, |(start, now)| now.saturating_sub(start));
        let activity = Activity { elapsed: state.elapsed(), read, bytes, then };
        let _ = line.write_str(&activity.text(terminal::columns(io::stderr()), Palette::stderr()));
    };
    bar.set_style(ProgressStyle::with_template("{line}").expect("the template is valid").with_key("line", draw));
    bar.enable_steady_tick(REDRAW_INTERVAL);
    end();
    *shown() = Some(bar);
}

/// Removes the line, if there is one.
pub(crate) fn end() {
    if let Some(bar) = shown().take() {
        bar.finish_and_clear();
    }
}

fn shown() -> std::sync::MutexGuard<'static, Option<ProgressBar>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes that this process has read from files so far.
fn read_bytes(env: &dyn Env) -> Option<u64> {
    env.process_work().map(|work| work.io_bytes)
}

/// State of the line.
struct Activity {
    elapsed: Duration,
    read: u64,
    /// Bytes of the input; 0 if unknown.
    bytes: u64,
    then: &'static str,
}

impl Activity {
    /// Formats the line for a terminal with this number of columns, so that no terminal wraps it.
    fn text(&self, columns: usize, palette: Palette) -> String {
        let Self { elapsed, read, bytes, then } = *self;
        let frame = SPINNER[(elapsed.as_millis() / REDRAW_INTERVAL.as_millis()) as usize % SPINNER.len()];
        let seconds = elapsed.as_secs_f64();
        let share = read as f64 / bytes.max(1) as f64;
        let text = if bytes == 0 || share >= 1.0 {
            format!("{}  {seconds:.0} s", if bytes == 0 { "working" } else { then })
        } else {
            let left =
                if share < LEAST_READ { String::new() } else { format!(", {:.0} s left", seconds / share - seconds) };
            format!("reading  {} of {}  {seconds:.0} s{left}", readable::bytes(read), readable::bytes(bytes))
        };
        // One column for the cursor, one for the spinner, one for the space behind it.
        let text: String = text.chars().take(columns.saturating_sub(3)).collect();
        if columns < 3 { String::new() } else { format!("{} {text}", palette.code(&frame.to_string())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(read: u64, bytes: u64, columns: usize) -> String {
        let activity = Activity { elapsed: Duration::from_secs(4), read, bytes, then: "evaluating" };
        activity.text(columns, Palette::new(false))
    }

    #[test]
    fn the_line_says_what_is_read_and_how_long_it_takes() {
        assert_eq!(text(40_000_000, 120_000_000, 80), "⠹ reading  40.0 MB of 120.0 MB  4 s, 8 s left");
        assert_eq!(text(1, 120_000_000, 80), "⠹ reading  1 bytes of 120.0 MB  4 s");
        assert_eq!(text(120_000_001, 120_000_000, 80), "⠹ evaluating  4 s");
        assert_eq!(text(0, 0, 80), "⠹ working  4 s");
    }

    #[test]
    fn the_line_fits_into_every_terminal() {
        for columns in 0..80 {
            assert!(text(40_000_000, 120_000_000, columns).chars().count() <= columns.saturating_sub(1), "{columns}");
        }
    }
}
