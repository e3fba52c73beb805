//! The loop around the passes of any model: epochs, held-out figures, the best model, checkpoints, the end.
//!
//! A model is a [`Learner`]; everything else is here, so that all models stop, save, resume and report alike.
//!
//! **Invariant:** what is done next depends on the history, on limits and on what all peers have agreed on, never on the clock or a
//! watcher of one peer. A training that was resumed has the history of the one it goes on from, so it decides as that
//! would have.

use super::checkpoint::plain;
use super::{
    Checkpoints, ClusterFacts, DataFacts, Figure, Journal, Keep, Limits, Metrics, Nobody, Progress, Report, Session,
    Summary, Watch, Wish,
};
use hemiola::loops::Plan;
use hemiola::{Cluster, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A model that is being trained.
pub trait Learner {
    /// What it is.
    type Model: Keep;
    /// What it needs to go on besides the model: the step it has come to, say.
    type Own: Serialize + DeserializeOwned;

    /// The model as it is now.
    fn model(&self) -> &Self::Model;

    /// What else it needs to go on.
    fn own(&self) -> Self::Own;

    /// Goes on from where another one was.
    fn go_on(&mut self, model: Self::Model, own: Self::Own);

    /// *Collective.* One epoch. `before` is the objective of the one before.
    fn epoch(&mut self, before: Option<f64>) -> Result<Pass>;

    /// *Collective.* Figures on held-out entries, if there are any.
    fn evaluate(&mut self) -> Result<Option<Metrics>>;

    /// *Collective.* Digests of the data, those trained on and those held out. Asked for only if checkpoints are saved.
    fn digests(&self) -> Result<[u64; 2]>;

    /// Why there is nothing left to learn, if so. The same on every peer.
    fn finished(&self) -> Option<&'static str> {
        None
    }

    /// Whether a training by `before` goes on to the same bits by `now`.
    fn same_bits(&self, before: &ClusterFacts, now: &ClusterFacts) -> bool {
        before.in_all() == now.in_all()
    }

    /// How it is made parallel, in words, where no [plan](Pass::plan) says so.
    fn explanation(&self) -> Option<String> {
        None
    }
}

/// What came of an epoch.
#[derive(Clone, Debug)]
pub struct Pass {
    /// What is minimized, per entry.
    pub objective: f64,
    /// Figures on the entries that were trained on, as they were met.
    pub train: Metrics,
    /// How long it took.
    pub took: Duration,
    /// How the loop ran, if it was one of `parallel_for!`.
    pub plan: Option<Plan>,
    /// Entries used.
    pub updates: u64,
    /// Something out of the ordinary.
    pub note: Option<String>,
}

/// What is known of a training before it begins.
#[derive(Clone, Debug)]
pub struct Terms<'a, S> {
    /// Which model: `mf`.
    pub model: &'static str,
    /// What was chosen; see [`Journal::settings`].
    pub settings: &'a S,
    /// What all chance comes from.
    pub seed: u64,
    /// When it stops.
    pub limits: &'a Limits,
    /// The figure that counts.
    pub figure: Figure,
    /// What it is trained on.
    pub data: DataFacts,
}

/// *Collective.* Trains until a limit is reached or somebody wants the end; the best model and the report.
pub fn drive<L: Learner, S: Serialize>(
    cluster: &Cluster,
    learner: L,
    terms: Terms<'_, S>,
    session: Session<'_>,
) -> Result<(L::Model, Report)> {
    let Session { watch, checkpoints, lock, profiled: _ } = session;
    let mut nobody = Nobody;
    let watch = watch.unwrap_or(&mut nobody);
    let mut drive = Drive { cluster, learner, terms, checkpoints, past: Past::default(), best: None, digests: [0; 2] };
    let (mut end, mut claimed) = (None, None);
    if let Some(checkpoints) = &drive.checkpoints {
        // The best model and the newest one.
        let copies = if drive.terms.data.valid > 0 { 2 } else { 1 };
        claimed = checkpoints.claim(cluster, drive.terms.model, copies * drive.learner.model().bytes(), lock)?;
        drive.digests = drive.learner.digests()?;
        if checkpoints.resumes() {
            end = drive.resume(watch)?;
        }
    }
    let ended = match end {
        Some(end) => end,
        None => drive.run(watch)?,
    };
    // All is saved, and others may train into the same folder.
    drop(claimed);
    drive.finish(ended)
}

struct Drive<'a, L: Learner, S> {
    cluster: &'a Cluster,
    learner: L,
    terms: Terms<'a, S>,
    checkpoints: Option<Checkpoints>,
    past: Past,
    /// The best model before the newest, and its place in the history. `None` where the newest is kept, whatever it does.
    best: Option<(L::Model, usize)>,
    digests: [u64; 2],
}

/// What has happened so far.
#[derive(Default)]
struct Past {
    history: Vec<Progress>,
    plan: Option<Plan>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    /// Bytes that were sent before this process took over.
    bytes_before: u64,
    /// Epochs and seconds of training when a checkpoint was last tried, whether it came off or not.
    tried: (u32, f64),
}

impl<L: Learner, S: Serialize> Drive<'_, L, S> {
    /// *Collective.* Goes on from a checkpoint. Why there is nothing to do, if so.
    fn resume(&mut self, watch: &mut dyn Watch) -> Result<Option<String>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let (journal, best, newest) = Journal::load::<L::Model>(self.cluster, checkpoints.folder(), self.terms.model)?;
        journal.must_have_settings(&plain(self.terms.settings))?;
        journal.must_have_data(&self.terms.data, self.digests)?;
        let own = serde_json::from_value(journal.own);
        let torn = |error: serde_json::Error| crate::Error::NotThisModel {
            problem: format!("its journal is damaged ({error})"),
        };
        let own = own.map_err(torn)?;
        let last = journal
            .progress
            .last()
            .ok_or_else(|| crate::Error::NotThisModel { problem: "its journal has no epochs".to_owned() })?;
        self.past.tried = (last.epoch, last.seconds);
        self.past.training = Duration::from_secs_f64(last.seconds.max(0.0));
        self.past.evaluation = Duration::from_secs_f64(journal.evaluation_seconds.max(0.0));
        self.past.bytes_before = last.bytes_sent;
        let mut verdict = self.terms.limits.judge(&journal.progress, self.terms.figure);
        let newest = newest.unwrap_or_else(|| best.clone());
        self.learner.go_on(newest, own);
        verdict.end = verdict.end.or(self.learner.finished());
        if verdict.end.is_some() {
            watch.note(&format!("nothing is left to do after epoch {}; other limits would go on", last.epoch));
        } else {
            watch.note(&format!("going on after epoch {}", last.epoch));
        }
        let cluster = ClusterFacts::of(self.cluster);
        if verdict.end.is_none() && !self.learner.same_bits(&journal.cluster, &cluster) {
            watch.note(&format!(
                "it was trained by {} and now is by {cluster}: the result will be as good, but not the same bits",
                journal.cluster
            ));
        }
        self.explain(journal.plan.as_ref(), watch);
        self.past.plan = journal.plan;
        self.past.history = journal.progress;
        if self.terms.data.valid > 0 {
            self.best = Some((best, journal.best));
        }
        Ok(verdict.end.map(str::to_owned))
    }

    /// Passes until the end; why it came.
    fn run(&mut self, watch: &mut dyn Watch) -> Result<String> {
        loop {
            let pass = self.learner.epoch(self.past.history.last().map(|last| last.objective))?;
            if self.past.history.is_empty() {
                self.explain(pass.plan.as_ref(), watch);
            }
            self.past.plan.clone_from(&pass.plan);
            let progress = self.progress(pass)?;
            let wish = watch.progress(&progress);
            self.past.history.push(progress);
            let mut verdict = self.terms.limits.judge(&self.past.history, self.terms.figure);
            verdict.end = verdict.end.or(self.learner.finished());
            // Clocks differ from peer to peer, so the first decides; whoever wants the end gets it.
            let last = &self.past.history[self.past.history.len() - 1];
            let (epoch, seconds) = (last.epoch, last.seconds);
            let (tried_epoch, tried_seconds) = self.past.tried;
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(epoch - tried_epoch, seconds - tried_seconds));
            let stop = wish == Wish::Stop;
            let said = self.cluster.all_gather((verdict.end.map(str::to_owned), stop, due))?;
            let stop = said.iter().any(|(_, stop, _)| *stop);
            let (end, _, due) = said.into_iter().next().expect("every peer has said something");
            let end = end.or_else(|| stop.then(|| Summary::ASKED.to_owned()));
            if end.is_some() {
                self.save()?;
            } else if due && let Err(error) = self.save() {
                // What was saved before is still there, and the disk may have room again when the next one is due.
                if !matches!(error, hemiola::Error::Layer { .. }) {
                    return Err(error);
                }
                watch.warn(&format!("the checkpoint after epoch {epoch} could not be saved: {error}"));
            }
            if let Some(end) = end {
                return Ok(end);
            }
            // The next pass changes the newest model; without held-out entries that one is kept, whatever it does.
            if verdict.best && self.terms.data.valid > 0 {
                self.best = Some((self.learner.model().clone(), self.past.history.len() - 1));
            }
        }
    }

    /// Tells how it is made parallel.
    fn explain(&self, plan: Option<&Plan>, watch: &mut dyn Watch) {
        if let Some(plan) = plan {
            watch.planned(plan);
        } else if let Some(explanation) = self.learner.explanation() {
            watch.explained(&explanation);
        }
    }

    fn progress(&mut self, pass: Pass) -> Result<Progress> {
        self.past.training += pass.took;
        let start = self.cluster.env().now();
        let valid = self.learner.evaluate()?;
        self.past.evaluation += self.cluster.env().now() - start;
        let sent: u64 = self.cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum();
        let epoch = self.past.history.len() as u32 + 1;
        Ok(Progress {
            epoch,
            seconds: self.past.training.as_secs_f64(),
            objective: pass.objective,
            train: pass.train,
            valid,
            updates: self.past.history.last().map_or(0, |last| last.updates) + pass.updates,
            bytes_sent: self.past.bytes_before + self.cluster.all_gather(sent)?.into_iter().sum::<u64>(),
            note: pass.note,
        })
    }

    /// The place in the history of the model that is kept.
    fn kept(&self) -> usize {
        let newest = self.past.history.len() - 1;
        match &self.best {
            Some((_, best)) if !self.terms.limits.judge(&self.past.history, self.terms.figure).best => *best,
            _ => newest,
        }
    }

    /// *Collective.* Saves a checkpoint, if there is a place for it.
    fn save(&mut self) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let start = self.cluster.env().now();
        let (kept, newest) = (self.kept(), self.past.history.len() - 1);
        let last = &self.past.history[newest];
        self.past.tried = (last.epoch, last.seconds);
        let journal = Journal {
            settings: plain(self.terms.settings),
            data: self.terms.data.clone(),
            digests: self.digests,
            cluster: ClusterFacts::of(self.cluster),
            progress: self.past.history.clone(),
            best: kept,
            apart: kept != newest,
            evaluation_seconds: self.past.evaluation.as_secs_f64(),
            plan: self.past.plan.clone(),
            own: serde_json::to_value(self.learner.own()).expect("what a model needs is plain data"),
        };
        let (folder, model) = (checkpoints.folder(), self.terms.model);
        match &self.best {
            Some((best, at)) if *at == kept => {
                journal.save(self.cluster, folder, model, best, Some(self.learner.model()))?;
            }
            _ => journal.save(self.cluster, folder, model, self.learner.model(), None)?,
        }
        self.past.saving += self.cluster.env().now() - start;
        Ok(())
    }

    fn finish(self, ended: String) -> Result<(L::Model, Report)> {
        let at = self.kept();
        let Self { cluster, learner, terms, past, best, .. } = self;
        let model = match best {
            Some((best, place)) if place == at => best,
            _ => learner.model().clone(),
        };
        let history = past.history;
        let (seconds, last) = (past.training.as_secs_f64(), &history[history.len() - 1]);
        let result = Summary {
            seconds,
            loading_seconds: None,
            evaluation_seconds: past.evaluation.as_secs_f64(),
            saving_seconds: past.saving.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: history[at].objective,
            valid: history[at].valid.clone(),
            best_epoch: history[at].epoch,
            ended,
            bytes_sent: last.bytes_sent,
            peak_rss_bytes: peak_memory(cluster)?,
        };
        let report = Report {
            model: terms.model.to_owned(),
            data: terms.data,
            cluster: ClusterFacts::of(cluster),
            seed: terms.seed,
            progress: history,
            result,
            plan: past.plan,
        };
        Ok((model, report))
    }
}

/// *Collective.* The most memory any peer has used, where the system tells.
pub fn peak_memory(cluster: &Cluster) -> Result<Option<u64>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kilo| kilo * 1024);
    Ok(cluster.all_gather(bytes)?.into_iter().max().flatten())
}
