//! Update rule that checks the contract towards rules: versions are kept while updates refer to
//! them, attachments return unchanged, and every copy is released.

use hemiola_tables_proto::update_rule::{LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Observations of a probe, shared with the test.
#[derive(Debug, Default)]
pub(crate) struct ProbeLog {
    /// By row and version: unreleased copies, and the row as it was sent.
    kept: BTreeMap<(u64, u64), (u32, Vec<i32>)>,
    pub(crate) problems: Vec<String>,
}

impl ProbeLog {
    pub(crate) fn kept(&self) -> usize {
        self.kept.values().filter(|(copies, _)| *copies > 0).count()
    }
}

/// Adds updates like `Addition`, but with a read-only cache.
#[derive(Debug)]
pub(crate) struct ProbeRule {
    has_attachments: bool,
    log: Arc<Mutex<ProbeLog>>,
}

impl ProbeRule {
    pub(crate) fn new(has_attachments: bool, log: Arc<Mutex<ProbeLog>>) -> Self {
        Self { has_attachments, log }
    }
}

impl UpdateRule<i32> for ProbeRule {
    fn local_apply(&self) -> LocalApply<i32> {
        LocalApply::Never
    }

    /// The state is a copy of the row.
    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn attachment<'a>(&self, state: &'a [i32]) -> &'a [i32] {
        if self.has_attachments { state } else { &[] }
    }

    fn apply(&self, update: &RowUpdate<'_, i32>, row: &mut [i32], state: &mut [i32]) -> Result<(), UnknownVersion> {
        let mut log = self.log.lock().unwrap();
        if update.version > 0 {
            match log.kept.get(&(update.key, update.version)) {
                Some((_, sent)) if self.has_attachments && sent != update.attachment => {
                    let problem = format!(
                        "version {} of row {} was {sent:?} and came back as {:?}",
                        update.version, update.key, update.attachment
                    );
                    log.problems.push(problem);
                }
                Some((0, _)) if !self.has_attachments => return Err(UnknownVersion),
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

    fn on_send(&mut self, key: u64, version: u64, state: &[i32]) {
        let mut log = self.log.lock().unwrap();
        let kept = log.kept.entry((key, version)).or_insert_with(|| (0, state.to_vec()));
        kept.0 += 1;
        if kept.1 != state {
            log.problems.push(format!("row {key} has changed without a new version"));
        }
    }

    fn on_release(&mut self, key: u64, version: u64, copies: u32) {
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

    fn tracks_copies(&self) -> bool {
        !self.has_attachments
    }
}
