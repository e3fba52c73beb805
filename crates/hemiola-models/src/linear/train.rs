//! Rounds of passes and averages, the objective and the gap after each epoch.
//!
//! Every peer has a model of its own (`local`). In a round its workers make a pass each from there ([`Part::round`]); their copies are averaged, and so are
//! the models of peers, over the graph. Beside it each peer adds up what its own examples have changed, `Σ Δα y x`: at the end of an epoch all of those together
//! give the model that belongs to the dual variables exactly (`model.weights`), however far peers have come in agreeing. It is what is
//! evaluated and kept.
//!
//! **Invariant:** `model.weights` is `Σ α y x` over all peers, up to rounding. The mean of all `local` is the same as long as every reduce found
//! the values of its own round; if one did not, all peers go on from `model.weights`, or they would converge to something else.

use super::LinearClassifier;
use super::figures::Figures;
use super::model::{Model, State};
use super::pass::{Part, Rules};
use super::shard::{Shard, classes, deal, labels};
use crate::Error;
use crate::training::{ClusterFacts, DataFacts, Learner, Metrics, Pass, Report, Session, Terms, digest, drive};
use hemiola::array::dist::Labelled;
use hemiola::array::random::Values;
use hemiola::collective::{
    Algorithm, Collectives, MakeCollectives, MakeMixing, Mixing, MixingTally, Operator, Synchronization,
};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The draw that decides what is held out.
const HELD_OUT: u64 = 7;

/// A trained model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model of the best epoch.
    pub model: Model,
    /// Every epoch, and the end.
    pub report: Report,
    /// What this peer's averages over the graph found.
    pub mixing: Option<MixingTally>,
}

impl LinearClassifier {
    /// *Collective.* Trains on examples, a share of which is held out as the settings say.
    pub fn fit(&self, cluster: &Cluster, examples: &Labelled) -> Result<Trained> {
        self.fit_with(cluster, examples, None, Session::new())
    }

    /// *Collective.* The same, with checkpoints and a watcher as `session` says. If held-out examples are given, all of `examples` are trained on.
    pub fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &Labelled,
        valid: Option<&Labelled>,
        session: Session<'_>,
    ) -> Result<Trained> {
        let settings = &self.settings;
        let labels_of_all = labels(examples)?;
        let share = if valid.is_some() { 0.0 } else { settings.valid };
        let values = Values::new(settings.seed);
        let apart = |row: u64| share > 0.0 && values.chosen(row, HELD_OUT, share);
        let kept = |(row, label): (usize, &f32)| (!apart(row as u64)).then_some(*label);
        let trained_on: Vec<f32> = labels_of_all.iter().enumerate().filter_map(kept).collect();
        let classes = classes(&trained_on, &self.names)?;
        let [rows, columns] = examples.features.shape().extents();
        let rows = rows.max(labels_of_all.len() as u64);
        let dealt = deal(cluster, examples, &labels_of_all, &classes, (columns, settings.seed), apart)?;
        let (mut held_out, mut count) = (dealt.held_out, labels_of_all.len() - trained_on.len());
        if let Some(valid) = valid {
            let of_valid = labels(valid)?;
            count = of_valid.len();
            held_out = deal(cluster, valid, &of_valid, &classes, (columns, settings.seed), |_| false)?.shards;
        }
        let model = Model::start(cluster, classes, &self.names, columns, settings);
        let rules = Rules {
            loss: settings.loss,
            c: settings.c,
            bias: settings.bias,
            width: model.width(),
            workers: dealt.workers,
            seed: settings.seed,
        };
        let part = |(place, shard)| Mutex::new(Part::new(shard, dealt.first + place, model.problems(), &rules));
        let parts: Vec<Mutex<Part>> = dealt.shards.into_iter().enumerate().map(part).collect();
        let mixing = if cluster.size() > 1 {
            let graph = cluster.graph(&settings.graph)?;
            let mixing = cluster.mixing::<f64>(&graph, model.weights.len());
            Some(mixing.synchronization(settings.synchronization).build()?)
        } else {
            None
        };
        let data = DataFacts { shape: vec![rows, columns], train: trained_on.len() as u64, valid: count as u64 };
        let terms = Terms {
            model: settings.loss.kind(),
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            figure: settings.loss.figure(),
            data: data.clone(),
        };
        let local = Vec::clone(&model.weights);
        let mut tally = None;
        let mut training = Training {
            cluster,
            settings: self,
            examples,
            valid,
            rules,
            parts,
            held_out: if count > 0 { Some(held_out) } else { None },
            data,
            // The fastest by measured links would be another in another run, with other bits.
            collectives: cluster.collectives()?.by(Algorithm::Ring),
            mixing,
            local,
            model,
            place: Place { epoch: 0, gap: None },
            tally: &mut tally,
        };
        // Whatever the disk needs is known before the first epoch.
        training.keep();
        let (model, report) = drive(cluster, training, terms, session)?;
        Ok(Trained { model, report, mixing: tally })
    }
}

struct Training<'a> {
    cluster: &'a Cluster,
    settings: &'a LinearClassifier,
    examples: &'a Labelled,
    valid: Option<&'a Labelled>,
    rules: Rules,
    /// For each worker of this peer.
    parts: Vec<Mutex<Part>>,
    held_out: Option<Vec<Shard>>,
    data: DataFacts,
    collectives: Collectives,
    /// `None` where there is nobody to average with.
    mixing: Option<Mixing<f64>>,
    /// This peer's model.
    local: Vec<f64>,
    /// That of all peers' examples, after the last epoch.
    model: Model,
    place: Place,
    tally: &'a mut Option<MixingTally>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    epoch: u32,
    /// The duality gap, in shares of the objective, after the last epoch.
    gap: Option<f64>,
}

/// The objective and what else is found when all examples are looked at.
struct Found {
    objective: f64,
    gap: f64,
    figures: Metrics,
}

impl Learner for Training<'_> {
    type Model = Model;
    type Own = Place;

    fn model(&self) -> &Model {
        &self.model
    }

    fn own(&self) -> Place {
        self.place
    }

    fn go_on(&mut self, model: Model, place: Place) {
        let problems = model.problems();
        if let Some(state) = &model.state {
            self.local.clone_from(&state.own);
            for part in &self.parts {
                let part = &mut *lock(part);
                for (place, row) in part.shard.rows.iter().enumerate() {
                    for (problem, duals) in part.duals.iter_mut().enumerate() {
                        duals[place] = state.duals[*row as usize * problems + problem];
                    }
                }
            }
        }
        self.model = model;
        // The limits may be others now.
        self.model.settings = self.settings.settings.clone();
        self.place = place;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<Pass> {
        let start = self.cluster.env().now();
        let consistent = self.rounds()?;
        let Found { objective, gap, mut figures } = self.look()?;
        self.place = Place { epoch: self.place.epoch + 1, gap: Some(gap) };
        let took = self.cluster.env().now() - start;
        self.keep();
        figures.insert("gap".to_owned(), gap);
        figures.extend(consistent.map(|share| ("consistent".to_owned(), share)));
        let note = consistent.filter(|share| *share < 1.0).map(|share| {
            format!("{:.1} % of averages were consistent; peers go on from the exact model", 100.0 * share)
        });
        let updates = self.data.train * u64::from(self.settings.settings.rounds);
        Ok(Pass { objective, train: figures, took, plan: None, updates, note })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let Some(held_out) = &self.held_out else { return Ok(None) };
        Ok(Some(self.model.figures(self.cluster, held_out)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        let of = |examples: &Labelled| {
            Ok::<u64, hemiola::Error>(digest(&examples.features)?.rotate_left(1) ^ digest(&examples.labels)?)
        };
        Ok([of(self.examples)?, self.valid.map_or(Ok(0), of)?])
    }

    fn finished(&self) -> Option<&'static str> {
        let tolerance = self.settings.settings.tolerance;
        self.place.gap.filter(|gap| *gap <= tolerance && tolerance > 0.0).map(|_| "it has converged")
    }

    fn same_bits(&self, before: &ClusterFacts, now: &ClusterFacts) -> bool {
        before == now
    }

    fn explanation(&self) -> Option<String> {
        Some(self.explain())
    }
}

impl Training<'_> {
    /// *Collective.* The rounds of an epoch; the share of averages that were consistent, if there were any.
    fn rounds(&mut self) -> Result<Option<f64>> {
        let Self { cluster, rules, parts, local, .. } = self;
        let (epoch, rounds) = (self.place.epoch, self.settings.settings.rounds);
        let before = self.mixing.as_ref().map(|mixing| (mixing.tally().reduces, mixing.tally().consistent));
        let mut changed = vec![0.0; if self.mixing.is_some() { local.len() } else { 0 }];
        for round in 0..rounds {
            cluster.each_worker(|worker| {
                for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                    lock(part).round(rules, (epoch, round), local);
                }
            })?;
            average(parts, local, &mut changed, cluster.size());
            if let Some(mixing) = &mut self.mixing {
                mixing.mix(local)?;
            }
        }
        let Some((reduces, consistent)) = before else {
            self.model.weights = Arc::new(local.clone());
            return Ok(None);
        };
        self.collectives.all_reduce(&mut changed, Operator::Sum)?;
        let weights = self.model.weights.iter().zip(&changed).map(|(weight, change)| weight + change).collect();
        self.model.weights = Arc::new(weights);
        let mixing = self.mixing.as_ref().expect("there are peers to average with");
        *self.tally = Some(mixing.tally().clone());
        let mine = (mixing.tally().reduces - reduces, mixing.tally().consistent - consistent);
        let all: Vec<(u64, u64)> = self.cluster.all_gather(mine)?;
        let (reduces, consistent) = all.iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        if consistent < reduces {
            self.local.clone_from(&self.model.weights);
        }
        Ok(Some(consistent as f64 / reduces.max(1) as f64))
    }

    /// *Collective.* The objective, the gap and figures of the examples trained on.
    fn look(&self) -> Result<Found> {
        let Self { cluster, rules, parts, model, .. } = self;
        let Rules { loss, c, .. } = *rules;
        let sums = cluster.each_worker(|worker| {
            let (mut costs, mut gains, mut figures) = (0.0, 0.0, Figures::default());
            let mut scores = vec![0.0; model.problems()];
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                let part = lock(part);
                for (place, class) in part.shard.classes.iter().enumerate() {
                    model.scores(&part.shard, place, &mut scores);
                    figures.add(&scores, *class);
                    if let [score] = scores[..] {
                        costs += loss.cost(if *class == 1 { score } else { -score });
                    } else {
                        for (problem, score) in scores.iter().enumerate() {
                            costs += loss.cost(if *class == problem as u32 { *score } else { -score });
                        }
                    }
                }
                gains += part.gain(rules);
            }
            (costs, gains, figures)
        })?;
        let mine = sums.iter().fold((0.0, 0.0), |sum, worker| (sum.0 + worker.0, sum.1 + worker.1));
        let all: Vec<(f64, f64)> = cluster.all_gather(mine)?;
        let (costs, gains) = all.into_iter().fold((0.0, 0.0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        let figures: Vec<Figures> = sums.into_iter().map(|worker| worker.2).collect();
        let (_, figures) = Figures::settle(&figures, cluster, loss.has_chances())?;
        let penalty = 0.5 * model.weights.iter().map(|weight| weight * weight).sum::<f64>();
        let (objective, dual) = (penalty + c * costs, gains - penalty);
        if !objective.is_finite() {
            return Err(Error::OutOfRange.into());
        }
        Ok(Found { objective, gap: (objective - dual) / objective.max(f64::MIN_POSITIVE), figures })
    }

    /// Puts what it takes to go on into the model.
    fn keep(&mut self) {
        let (problems, rows) = (self.model.problems(), self.data.shape[0]);
        let mut duals = vec![0.0; rows as usize * problems];
        for part in &self.parts {
            let part = lock(part);
            for (place, row) in part.shard.rows.iter().enumerate() {
                for (problem, of_problem) in part.duals.iter().enumerate() {
                    duals[*row as usize * problems + problem] = of_problem[place];
                }
            }
        }
        let (own, duals) = (Arc::new(self.local.clone()), Arc::new(duals));
        self.model.state = Some(State { own, duals, rows, collectives: Some(self.collectives.clone()) });
    }

    /// How it is made parallel, for people.
    fn explain(&self) -> String {
        let settings = &self.settings.settings;
        let (peers, workers) = (self.cluster.size(), self.rules.workers);
        let weights = self.model.weights.len();
        let mut text = format!(
            "{} rounds in an epoch; in each, every worker ({workers} in all) makes a pass of dual coordinate ascent over its own examples, \
             from the average of models\n  workers of a peer are averaged in its memory: {weights} weights",
            settings.rounds
        );
        if peers > 1
            && let Ok(graph) = self.cluster.graph(&settings.graph)
        {
            let bytes = graph.total_bytes_per_step((weights * size_of::<f64>()) as u64);
            let _ = write!(
                text,
                "\n  {peers} peers are averaged over a graph in which each sends to at most {} others, with a spectral gap of {:.3}: {bytes} bytes in a round, {} in an epoch\n  \
                 synchronization: {}",
                graph.max_out_degree(),
                graph.spectral_gap(),
                bytes * u64::from(settings.rounds),
                synchronization_name(settings.synchronization),
            );
        }
        text
    }
}

/// This peer's model becomes the mean of its workers' copies. `changed` grows by what its examples have changed.
fn average(parts: &[Mutex<Part>], local: &mut [f64], changed: &mut [f64], peers: usize) {
    let parts: Vec<MutexGuard<'_, Part>> = parts.iter().map(lock).collect();
    let (count, peers) = (parts.len() as f64, peers as f64);
    let mut changed = changed.iter_mut();
    for (place, weight) in local.iter_mut().enumerate() {
        let mean = parts.iter().map(|part| part.model[place]).sum::<f64>() / count;
        // Its workers have moved their copies `peers · workers` times as far as their examples say; the mean has gone `peers` times as far.
        if let Some(changed) = changed.next() {
            *changed += (mean - *weight) / peers;
        }
        *weight = mean;
    }
}

/// Nobody leaves a part half changed: a worker that panics ends the job.
fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn synchronization_name(synchronization: Synchronization) -> &'static str {
    match synchronization {
        Synchronization::NotifyAck => "NOTIFY-ACK, each waits for its neighbours alone",
        Synchronization::Barrier => "a barrier, all wait for all",
        Synchronization::Asynchronous => "none, nobody waits",
    }
}
