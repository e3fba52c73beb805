//! The loop around the steps of any net: epochs, held-out figures, checkpoints, the end.
//!
//! It does for nets what `training::drive` does for models that are arrays; the trainer saves what only it has. **Invariant:** what is done next depends on the history and on what all peers have agreed on.

use super::super::frame::{Common, Prepared};
use super::super::progress::Figures;
use super::flags::{ByNameOrFile, Chosen, Flags, Read};
use super::folder::{self, Kept};
use crate::failure::{Failure, carried};
use crate::output::{Compress, Staged};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Rank;
use hemiola_models::training::{
    Checkpoints, ClusterFacts, DataFacts, Figure, Journal, Limits, Metrics, Progress, Report, Summary, Watch, Wish,
    peak_memory,
};
use hemiola_nn::data::{Batches, Examples};
use hemiola_nn::models::{Device, Net};
use hemiola_nn::trace::perfetto;
use hemiola_nn::{Trainer, TrainerBuilder};
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Held-out examples that are looked at together, at most: an evaluation keeps no gradients, and smaller batches save nothing.
const LOOK: usize = 256;

/// Steps in a trace: the last of the last epoch.
const TRACED: usize = 20;

/// A kind of net, and what it is usually trained with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// As in `hemiola train NAME`.
    pub(super) name: &'static str,
    /// The figure that counts.
    pub(super) figure: Figure,
    /// Examples of a step.
    pub(super) batch: u32,
}

/// What there is to train on.
pub(super) struct Loaded<E, C> {
    pub(super) train: E,
    pub(super) valid: Option<E>,
    /// What was read, for people.
    pub(super) headline: String,
    /// The net for it.
    pub(super) config: C,
    /// Words of an example, or 1.
    pub(super) positions: usize,
    pub(super) shape: Vec<u64>,
}

/// A command: what was typed.
pub(super) struct Command<'a> {
    pub(super) kind: Kind,
    pub(super) common: &'a Common,
    pub(super) flags: &'a Flags,
}

impl Command<'_> {
    /// Trains what `init` makes of the configuration that `load` found to fit the data. `sizes` are the settings of the net that were typed.
    pub(super) fn execute<N, E, C: Serialize>(
        &self,
        sizes: &impl Serialize,
        load: impl FnOnce() -> anyhow::Result<Loaded<E, C>>,
        init: impl FnOnce(&C, &Device) -> N,
    ) -> anyhow::Result<ExitCode>
    where
        N: Net<Batch = E::Batch>,
        E: Examples,
    {
        let Self { kind, common, flags } = self;
        let limits = common.limits(&Limits { epochs: 10, patience: None, ..Limits::default() });
        let chosen = flags.chosen(kind.batch, limits.epochs)?;
        let read = flags.read()?;
        let settings = json!({ "net": sizes, "seed": common.seed, "learning": chosen });
        if let Some(checkpoints) = common.checkpoints() {
            folder::check(&checkpoints, kind.name, &settings)?;
        }
        common.check_report()?;
        common.run(|cluster| {
            let start = cluster.env().now();
            let lock = common.claim(cluster)?;
            let loaded = load().map_err(carried)?;
            same_everywhere(cluster, &loaded)?;
            let device = flags.device(cluster.rank()).map_err(carried)?;
            let headline = format!("{}; {}{}", loaded.headline, ClusterFacts::of(cluster), flags.where_to());
            let loading = cluster.env().now() - start;
            let figures = Figures { metric: kind.figure.name, unit: "examples" };
            let prepared = Prepared { headline, loading, figures, limits: &limits, lock };
            common.attend(cluster, prepared, |watch| {
                let net = init(&loaded.config, &device.clone().autodiff());
                let job = Job {
                    cluster,
                    device,
                    kind: *kind,
                    flags,
                    chosen: &chosen,
                    settings: &settings,
                    limits: &limits,
                    seed: common.seed,
                    checkpoints: common.checkpoints(),
                    data: &loaded,
                };
                job.run(net, &read, watch)
            })
        })
    }
}

/// *Collective.* An error if a peer has other data than the first.
fn same_everywhere<E: Examples, C>(cluster: &Cluster, loaded: &Loaded<E, C>) -> Result<()> {
    let digests = cluster.all_gather(loaded.digests())?;
    match digests.iter().position(|digest| *digest != digests[0]) {
        Some(rank) => {
            let failure = Failure::usage(format!("peer {rank} has other data than peer 0"));
            Err(carried(failure.hint("copy the same files to every machine").into()))
        }
        None => Ok(()),
    }
}

impl<E: Examples, C> Loaded<E, C> {
    fn digests(&self) -> [u64; 2] {
        [self.train.digest(), self.valid.as_ref().map_or(0, Examples::digest)]
    }

    fn facts(&self) -> DataFacts {
        let valid = self.valid.as_ref().map_or(0, Examples::len) as u64;
        DataFacts { shape: self.shape.clone(), train: self.train.len() as u64, valid }
    }
}

/// A training.
struct Job<'a, E, C> {
    cluster: &'a Cluster,
    device: Device,
    kind: Kind,
    flags: &'a Flags,
    chosen: &'a Chosen,
    settings: &'a Value,
    limits: &'a Limits,
    seed: u64,
    checkpoints: Option<Checkpoints>,
    data: &'a Loaded<E, C>,
}

/// What has happened so far.
#[derive(Default)]
struct Past {
    history: Vec<Progress>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    bytes_before: u64,
    /// Epochs and seconds of training when a checkpoint was last made.
    saved: (u32, f64),
}

impl<E: Examples, C> Job<'_, E, C> {
    /// *Collective.* Trains to the end.
    fn run<N: Net<Batch = E::Batch>>(&self, net: N, read: &Read, watch: &mut dyn Watch) -> Result<Report> {
        let batches = Batches::new(self.data.train.len(), self.chosen.batch, self.cluster.size(), self.seed);
        let mut trainer = self.trainer(net, read, batches.steps() as u64).build()?;
        watch.explained(trainer.explain().to_string().trim_end());
        let mut past = Past::default();
        let mut end = self.resume(trainer.steps(), batches.steps() as u64, &mut past, watch)?;
        while end.is_none() {
            let progress = self.epoch(&mut trainer, &batches, &mut past)?;
            let wish = watch.progress(&progress);
            past.history.push(progress);
            let verdict = self.limits.judge(&past.history, self.kind.figure);
            let last = &past.history[past.history.len() - 1];
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(last.epoch - past.saved.0, last.seconds - past.saved.1));
            // Clocks differ from peer to peer, so the first decides; whoever wants the end gets it.
            let said = self.cluster.all_gather((verdict.end.map(str::to_owned), wish == Wish::Stop, due))?;
            let stop = said.iter().any(|(_, stop, _)| *stop);
            let (judged, _, due) = said.into_iter().next().expect("every peer has said something");
            end = judged.or_else(|| stop.then(|| Summary::ASKED.to_owned()));
            if due || end.is_some() {
                self.save(&mut trainer, &mut past)?;
            }
        }
        self.write_trace(&trainer)?;
        self.report(past, end.unwrap_or_default())
    }

    fn trainer<N: Net>(&self, net: N, read: &Read, steps: u64) -> TrainerBuilder<N> {
        let mut builder = Trainer::new(self.cluster, net, self.chosen.optimizer())
            .examples(self.chosen.batch.div_ceil(self.cluster.size()))
            .positions(self.data.positions)
            .schedule(self.chosen.schedule(steps * u64::from(self.limits.epochs)));
        builder = match &read.strategy {
            ByNameOrFile::Name(name) => builder.strategy(*name),
            ByNameOrFile::File(strategy) => builder.strategy((**strategy).clone()),
        };
        if let Some(network) = &read.network {
            builder = builder.network(network.clone());
        }
        if self.flags.trace().is_some() {
            builder = builder.trace();
        }
        if let Some(clip) = self.chosen.clip() {
            builder = builder.clip(clip);
        }
        if let Some(checkpoints) = &self.checkpoints {
            builder = builder.checkpoints(folder::checkpoint(checkpoints.folder()));
            if checkpoints.resumes() {
                builder = builder.resume();
            }
        }
        builder
    }

    /// *Collective.* The past of a training that goes on, and why there is nothing to do, if so.
    fn resume(&self, step: u64, steps: u64, past: &mut Past, watch: &mut dyn Watch) -> Result<Option<String>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let folder = checkpoints.folder();
        if !checkpoints.resumes() {
            return self.by_root(|| folder::clear(folder)).map(|()| None);
        }
        // As text: what describes itself, as settings do, cannot be sent otherwise.
        let text = self.by_root(|| Ok(serde_json::to_string(&folder::journal(folder, step)?)?))?;
        let Kept { journal, .. } = serde_json::from_str(&text).expect("the first peer has written it just now");
        journal.must_have_settings(self.settings)?;
        journal.must_have_data(&self.data.facts(), self.data.digests())?;
        let last = journal.progress.last().filter(|last| u64::from(last.epoch) * steps == step);
        let Some(last) = last else {
            let message = format!("the checkpoint in `{}` is not of the end of an epoch", folder.display());
            return Err(carried(Failure::usage(message).hint("train anew, in another folder").into()));
        };
        past.training = Duration::from_secs_f64(last.seconds.max(0.0));
        past.evaluation = Duration::from_secs_f64(journal.evaluation_seconds.max(0.0));
        past.bytes_before = last.bytes_sent;
        past.saved = (last.epoch, last.seconds);
        let end = self.limits.judge(&journal.progress, self.kind.figure).end;
        let epoch = last.epoch;
        watch.note(&match end {
            Some(_) => format!("nothing is left to do after epoch {epoch}; other limits would go on"),
            None => format!("going on after epoch {epoch}"),
        });
        past.history = journal.progress;
        Ok(end.map(str::to_owned))
    }

    /// *Collective.* The last steps of all peers, if they are wanted.
    fn write_trace<N: Net>(&self, trainer: &Trainer<N>) -> Result<()> {
        let Some(path) = self.flags.trace() else { return Ok(()) };
        let spans = self.cluster.all_gather(trainer.trace())?;
        self.by_root(|| {
            let spans: Vec<_> = Rank::all(spans.len()).zip(spans.iter().cloned()).collect();
            let mut file = Staged::create(path, Compress::None)?;
            file.write(perfetto(&spans).as_bytes())?;
            file.finish()?.publish()
        })
    }

    /// *Collective.* One pass over the examples, and how the net does then.
    fn epoch<N: Net<Batch = E::Batch>>(
        &self,
        trainer: &mut Trainer<N>,
        batches: &Batches,
        past: &mut Past,
    ) -> Result<Progress> {
        let (env, device, rank) = (self.cluster.env(), self.device.clone().autodiff(), self.cluster.rank().index());
        let start = env.now();
        let epoch = past.history.len() as u32;
        let (mut total, mut examples) = (0.0, 0_u64);
        for step in 0..batches.steps() {
            if step + TRACED == batches.steps() {
                drop(trainer.trace());
            }
            let share = batches.share(epoch, step, rank);
            let mut parts = share.chunks(share.len().div_ceil(self.flags.passes()).max(1)).peekable();
            let mut stepped = false;
            while let Some(part) = parts.next() {
                let forward = |net: &N| net.loss(&self.data.train.batch(part, &device));
                let loss = if parts.peek().is_some() {
                    trainer.accumulate(part.len(), forward)?
                } else {
                    stepped = true;
                    trainer.step(part.len(), forward)?
                };
                total += f64::from(loss) * part.len() as f64;
                examples += part.len() as u64;
            }
            if !stepped {
                // Others have examples.
                trainer.step(0, |_| unreachable!("there is nothing to look at"))?;
            }
        }
        let net = trainer.settled()?;
        past.training += env.now() - start;
        let start = env.now();
        let valid = self.data.valid.as_ref().map(|valid| self.evaluate(&net, valid)).transpose()?;
        past.evaluation += env.now() - start;
        let sent: u64 = self.cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum();
        let all = self.cluster.all_gather((total, examples, sent))?;
        let sum = all.iter().fold((0.0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        let objective = sum.0 / (sum.1 as f64).max(1.0);
        Ok(Progress {
            epoch: epoch + 1,
            seconds: past.training.as_secs_f64(),
            objective,
            train: Metrics::from([("loss".to_owned(), objective)]),
            valid,
            updates: past.history.last().map_or(0, |last| last.updates) + sum.1,
            bytes_sent: past.bytes_before + sum.2,
            note: None,
        })
    }

    /// *Collective.* Figures on held-out examples.
    fn evaluate<N: Net<Batch = E::Batch>>(&self, net: &N, valid: &E) -> Result<Metrics> {
        let look = self.chosen.batch.clamp(1, LOOK);
        let batches = Batches::new(valid.len(), look, self.cluster.size(), 0);
        let (mut total, mut right) = (0.0, 0.0);
        for part in batches.in_order(self.cluster.rank().index()) {
            let judged = net.judge(&valid.batch(&part, &self.device));
            total += judged.loss * part.len() as f64;
            right += judged.right.unwrap_or(0.0) * part.len() as f64;
        }
        let all = self.cluster.all_gather((total, right))?;
        let (total, right) = all.into_iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (loss, right) = (total / valid.len() as f64, right / valid.len() as f64);
        let figure = match self.kind.figure.name {
            "accuracy" => right,
            "perplexity" => loss.exp(),
            "rmse" => loss.sqrt(),
            _ => loss,
        };
        Ok(Metrics::from([("loss".to_owned(), loss), (self.kind.figure.name.to_owned(), figure)]))
    }

    /// *Collective.* Saves a checkpoint, if there is a place for it.
    fn save<N: Net>(&self, trainer: &mut Trainer<N>, past: &mut Past) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let (folder, step, start) = (checkpoints.folder(), trainer.steps(), self.cluster.env().now());
        let last = &past.history[past.history.len() - 1];
        past.saved = (last.epoch, last.seconds);
        let kept = Kept {
            net: self.kind.name.to_owned(),
            journal: Journal {
                settings: self.settings.clone(),
                data: self.data.facts(),
                digests: self.data.digests(),
                cluster: ClusterFacts::of(self.cluster),
                progress: past.history.clone(),
                best: past.history.len() - 1,
                apart: false,
                evaluation_seconds: past.evaluation.as_secs_f64(),
                plan: None,
                own: Value::Null,
            },
        };
        self.by_root(|| folder::announce(folder, step, &kept))?;
        trainer.checkpoint()?;
        self.by_root(|| folder::settle(folder, step))?;
        past.saving += self.cluster.env().now() - start;
        Ok(())
    }

    /// *Collective.* What the first peer does, for all.
    fn by_root<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T>,
    ) -> Result<T> {
        let mut failed = None;
        let done = self.cluster.is_root().then(act).and_then(|done| match done {
            Ok(done) => Some(done),
            Err(error) => {
                failed = Some(carried(error));
                None
            }
        });
        match (self.cluster.broadcast(done)?, failed) {
            (Some(done), _) => Ok(done),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::program("peer 0 has failed; see its message")),
        }
    }

    fn report(&self, past: Past, ended: String) -> Result<Report> {
        let history = past.history;
        let (seconds, last) = (past.training.as_secs_f64(), &history[history.len() - 1]);
        let result = Summary {
            seconds,
            loading_seconds: None,
            evaluation_seconds: past.evaluation.as_secs_f64(),
            saving_seconds: past.saving.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: last.objective,
            valid: last.valid.clone(),
            best_epoch: last.epoch,
            ended,
            bytes_sent: last.bytes_sent,
            peak_rss_bytes: peak_memory(self.cluster)?,
        };
        Ok(Report {
            model: self.kind.name.to_owned(),
            data: self.data.facts(),
            cluster: ClusterFacts::of(self.cluster),
            seed: self.seed,
            progress: history,
            result,
            plan: None,
        })
    }
}
