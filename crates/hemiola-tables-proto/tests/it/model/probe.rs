//! A procedure that checks the promises made to procedures: versions are there while updates refer to them, what is carried back is what was
//! sent, every copy is released.

use hemiola_tables_proto::procedure::{Procedure, UnknownVersion, Update, View};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a probe has seen, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// By row and version: copies that are out, and the row as it was sent.
    kept: BTreeMap<(u64, u64), (u32, Vec<i32>)>,
    pub(crate) problems: Vec<String>,
}

impl Log {
    pub(crate) fn kept(&self) -> usize {
        self.kept.values().filter(|(copies, _)| *copies > 0).count()
    }
}

/// Adds, but only the shard may know that.
#[derive(Debug)]
pub(crate) struct Probe {
    carries: bool,
    log: Arc<Mutex<Log>>,
}

impl Probe {
    pub(crate) fn new(carries: bool, log: Arc<Mutex<Log>>) -> Self {
        Self { carries, log }
    }
}

impl Procedure<i32> for Probe {
    fn view(&self) -> View<i32> {
        View::ReadOnly
    }

    /// The state is a copy of the row.
    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn carried<'a>(&self, state: &'a [i32]) -> &'a [i32] {
        if self.carries { state } else { &[] }
    }

    fn apply(&self, update: &Update<'_, i32>, row: &mut [i32], state: &mut [i32]) -> Result<(), UnknownVersion> {
        let mut log = self.log.lock().unwrap();
        if update.version > 0 {
            match log.kept.get(&(update.key, update.version)) {
                Some((_, sent)) if self.carries && sent != update.carried => {
                    let problem = format!(
                        "version {} of row {} was {sent:?} and came back as {:?}",
                        update.version, update.key, update.carried
                    );
                    log.problems.push(problem);
                }
                Some((0, _)) if !self.carries => return Err(UnknownVersion),
                Some(_) => {}
                None => return Err(UnknownVersion),
            }
        }
        update.cells.add_to(row, None);
        if row[..] != state[..] {
            update.cells.add_to(state, None);
        }
        if row != state {
            log.problems.push(format!("the state of row {} is {state:?} and the row {row:?}", update.key));
        }
        Ok(())
    }

    fn sent(&mut self, key: u64, version: u64, state: &[i32]) {
        let mut log = self.log.lock().unwrap();
        let kept = log.kept.entry((key, version)).or_insert_with(|| (0, state.to_vec()));
        kept.0 += 1;
        if kept.1 != state {
            log.problems.push(format!("row {key} has changed without a new version"));
        }
    }

    fn released(&mut self, key: u64, version: u64, copies: u32) {
        let mut log = self.log.lock().unwrap();
        let out = log.kept.get_mut(&(key, version)).map_or(0, |kept| {
            let out = kept.0;
            kept.0 = out.saturating_sub(copies);
            out
        });
        if out < copies {
            log.problems
                .push(format!("{copies} copies of version {version} of row {key} were released, and {out} are out"));
        }
    }

    fn wants_releases(&self) -> bool {
        !self.carries
    }
}
