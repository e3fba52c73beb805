//! Choice of the strategy of a model, so that equal runs have equal bits.
//!
//! Another strategy sums gradients in another order. **Invariant:** the strategy depends on the
//! model, the number of peers, the settings of the run and the checkpoint that it resumes, and on a
//! measurement only where the run asks for one. A measured strategy is saved with every checkpoint;
//! a resumed run takes it from there and does not measure again.

use crate::builder::StrategySource;
use crate::error::Error;
use hemiola_cluster::Result;
use hemiola_strategy::{LinkSpec, ModelSpec, ResourceSpec, Strategy, StrategyBuilder};
use serde::{Deserialize, Serialize};

/// Links for which strategies are chosen unless others are given or measured: 1 Gbit/s, 0.1 ms.
pub const DEFAULT_LINK: LinkSpec = LinkSpec { bytes_per_second: 125e6, latency: 1e-4 };

/// Strategy of a run with its origin, as checkpoints and reports keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyRecord {
    /// Name of the builder; `None` for an explicit strategy.
    pub builder: Option<String>,
    /// The links were measured for it.
    pub tuned: bool,
    /// Number of peers, the last ones, that serve and do not train.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serving_peers: usize,
    /// The strategy.
    pub strategy: Strategy,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Source of the link speeds that a strategy is chosen for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LinkSource {
    /// [`DEFAULT_LINK`] between all peers.
    Default,
    /// Given by the program.
    Given(ResourceSpec),
    /// Measured when the model is built.
    Measured,
}

/// Request for a strategy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrategyRequest<'a> {
    /// Requested source; `None` takes the recorded strategy, or else the default builder.
    pub(crate) source: Option<&'a StrategySource>,
    pub(crate) links: &'a LinkSource,
    pub(crate) model: &'a ModelSpec,
    pub(crate) peers: usize,
    /// Number of peers, the last ones, that serve and do not train.
    pub(crate) serving_peers: usize,
}

impl StrategyRequest<'_> {
    /// Chooses the strategy. `recorded` is that of the resumed checkpoint. `measure` is called only
    /// for a new strategy that depends on measured links. Also returns the links.
    pub(crate) fn choose(
        self,
        recorded: Option<StrategyRecord>,
        measure: impl FnOnce() -> Result<ResourceSpec>,
    ) -> Result<(StrategyRecord, ResourceSpec)> {
        let links = match self.links {
            LinkSource::Given(links) => links.clone(),
            LinkSource::Default | LinkSource::Measured => ResourceSpec::uniform(self.peers, DEFAULT_LINK),
        };
        if let Some(recorded) = recorded.filter(|recorded| self.accepts(recorded)) {
            recorded.strategy.verify(self.model, &links).map_err(Error::from)?;
            return Ok((recorded, links));
        }
        match self.source {
            Some(StrategySource::Explicit(_)) if self.serving_peers > 0 => Err(Error::Unsupported {
                feature: "a number of serving peers with an explicit strategy".to_owned(),
                reason: "the strategy names its replicas; leave the serving peers out of them".to_owned(),
            }
            .into()),
            Some(StrategySource::Explicit(strategy)) => {
                strategy.verify(self.model, &links).map_err(Error::from)?;
                let strategy = (**strategy).clone();
                Ok((StrategyRecord { builder: None, tuned: false, serving_peers: 0, strategy }, links))
            }
            other => {
                let builder = other.map_or(StrategyBuilder::default(), |source| match source {
                    StrategySource::Built(builder) => *builder,
                    StrategySource::Explicit(_) => unreachable!("explicit strategies were handled above"),
                });
                let tuned = *self.links == LinkSource::Measured && self.peers > 1 && !self.model.variables.is_empty();
                let links = if tuned { measure()? } else { links };
                let strategy = builder.build(self.model, &links).map_err(Error::from)?;
                let (builder, serving_peers) = (Some(builder.to_string()), self.serving_peers);
                let strategy = strategy.with_serving_peers(serving_peers);
                strategy.verify(self.model, &links).map_err(Error::from)?;
                Ok((StrategyRecord { builder, tuned, serving_peers, strategy }, links))
            }
        }
    }

    /// Returns true if the recorded strategy is one that was requested, for as many peers.
    fn accepts(&self, recorded: &StrategyRecord) -> bool {
        let requested = match self.source {
            None => true,
            Some(StrategySource::Built(builder)) => recorded.builder.as_ref() == Some(&builder.to_string()),
            Some(StrategySource::Explicit(_)) => false,
        };
        let serving = recorded.serving_peers == self.serving_peers || self.serving_peers == 0 && self.source.is_none();
        requested && serving && recorded.strategy.peers == self.peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_strategy::VariableSpec;
    use std::cell::Cell;

    fn model() -> ModelSpec {
        let layers = [("one", [4096, 4096]), ("two", [512, 512]), ("three", [64, 64])];
        let mut variables: Vec<_> = layers.map(|(name, shape)| VariableSpec::linear(name, shape, 32)).to_vec();
        variables.push(VariableSpec::dense("bias", [4096]));
        ModelSpec::new(variables).unwrap()
    }

    fn measured(bytes_per_second: f64, latency: f64) -> ResourceSpec {
        ResourceSpec::uniform(4, LinkSpec { bytes_per_second, latency })
    }

    /// Chooses with an injected measurement. Also returns true if it was asked for.
    fn choose(
        source: Option<&StrategySource>,
        links: &LinkSource,
        recorded: Option<StrategyRecord>,
        measured: ResourceSpec,
    ) -> (StrategyRecord, bool) {
        let (model, asked) = (model(), Cell::new(false));
        let request = StrategyRequest { source, links, model: &model, peers: 4, serving_peers: 0 };
        let measure = || {
            asked.set(true);
            Ok(measured)
        };
        let (record, _) = request.choose(recorded, measure).unwrap();
        (record, asked.get())
    }

    #[test]
    fn the_default_strategy_does_not_depend_on_measurements() {
        let fast = choose(None, &LinkSource::Default, None, measured(1e12, 0.0));
        let slow = choose(None, &LinkSource::Default, None, measured(1e4, 1.0));
        assert_eq!(fast, slow);
        assert!(!fast.1 && !fast.0.tuned);
    }

    #[test]
    fn a_tuned_strategy_depends_on_measurements() {
        let fast = choose(None, &LinkSource::Measured, None, measured(1e12, 1e-3));
        let slow = choose(None, &LinkSource::Measured, None, measured(1e6, 1e-9));
        assert!(fast.1 && slow.1 && fast.0.tuned && slow.0.tuned);
        assert_ne!(fast.0.strategy, slow.0.strategy);
    }

    #[test]
    fn a_resumed_run_takes_the_recorded_strategy_and_does_not_measure() {
        let (tuned, _) = choose(None, &LinkSource::Measured, None, measured(1e12, 1e-3));
        let cheapest = StrategySource::Built(StrategyBuilder::Cheapest);
        for source in [None, Some(&cheapest)] {
            for links in [LinkSource::Default, LinkSource::Measured] {
                let resumed = choose(source, &links, Some(tuned.clone()), measured(1e6, 1e-9));
                assert_eq!(resumed, (tuned.clone(), false));
            }
        }
    }

    #[test]
    fn serving_peers_hold_what_is_served_and_do_not_train() {
        let (model, links) = (model(), LinkSource::Default);
        for builder in [StrategyBuilder::Balanced, StrategyBuilder::TABLES[2], StrategyBuilder::Cheapest] {
            let source = StrategySource::Built(builder);
            let request =
                StrategyRequest { source: Some(&source), links: &links, model: &model, peers: 4, serving_peers: 2 };
            let (record, _) = request.choose(None, || unreachable!("nothing is measured")).unwrap();
            assert_eq!(record.strategy.replicas, [0, 1].map(hemiola_core::Rank::new));
            for node in record.strategy.plans.iter().flat_map(|plan| &plan.nodes) {
                let hemiola_strategy::ShardPlacement::On(owner) = node.placement else { continue };
                assert!(owner.index() >= 2, "{builder}: {node:?}");
            }
            // A resumed run keeps them without naming them, and another number is another strategy.
            let resumed = StrategyRequest { source: None, serving_peers: 0, ..request };
            assert_eq!(resumed.choose(Some(record.clone()), || unreachable!()).unwrap().0, record);
            let fewer = StrategyRequest { serving_peers: 1, ..request };
            assert_eq!(fewer.choose(Some(record), || unreachable!()).unwrap().0.strategy.replicas.len(), 3);
        }
        let explicit =
            StrategySource::Explicit(Box::new(StrategyBuilder::Balanced.build(&model, &measured(1e8, 1e-4)).unwrap()));
        let request =
            StrategyRequest { source: Some(&explicit), links: &links, model: &model, peers: 4, serving_peers: 1 };
        let error = request.choose(None, || unreachable!()).unwrap_err().to_string();
        assert!(error.contains("the strategy names its replicas"), "{error}");
    }

    #[test]
    fn another_builder_or_another_number_of_peers_gets_a_new_strategy() {
        let (recorded, _) = choose(None, &LinkSource::Default, None, measured(1e6, 1e-9));
        let named = StrategySource::Built(StrategyBuilder::ParameterServer);
        let (other, _) = choose(Some(&named), &LinkSource::Default, Some(recorded.clone()), measured(1e6, 1e-9));
        assert_eq!(other.builder.as_deref(), Some("parameter-server"));
        let (model, links) = (model(), LinkSource::Default);
        let request = StrategyRequest { source: None, links: &links, model: &model, peers: 3, serving_peers: 0 };
        let (fewer, _) = request.choose(Some(recorded), || unreachable!("nothing is measured")).unwrap();
        assert_eq!(fewer.strategy.peers, 3);
    }
}
