//! Communication graphs on the command line: a name, and its parameters after a colon, as in
//! `halton:3` or `edges:graph.txt`.
//!
//! **Invariant:** only this module knows the names of graphs; `hemiola train --graph` and `hemiola
//! topology --kind` accept the same.

mod edges;

pub(crate) use edges::DrawnEdges;

use crate::arguments::named_value::NamedValueParser;
use clap::ValueEnum;
use hemiola::collective::Topology;

/// Kind of communication graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyName {
    Complete,
    Ring,
    Chain,
    Star,
    RootExpander,
    Halton,
    Chord,
    #[value(alias = "random")]
    RandomRegular,
    TwoLevel,
    Circulant,
    Edges,
    Best,
}

/// Parameters of a graph; each kind uses some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologyParameters {
    pub(crate) degree: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) group: Option<usize>,
    pub(crate) offsets: Vec<usize>,
    pub(crate) edges: Option<DrawnEdges>,
}

/// Graph as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopologyArgs {
    pub(crate) kind: TopologyName,
    pub(crate) parameters: TopologyParameters,
}

/// Parser of a graph for training.
pub(crate) const FOR_TRAINING: NamedValueParser<Topology> =
    NamedValueParser::new(parse_for_training, || names(&[TopologyName::Best]));

/// Parser of any graph.
pub(crate) const ANY: NamedValueParser<TopologyArgs> = NamedValueParser::new(parse, || names(&[]));

/// Names of all graphs but `excluded`, with the separator after which a parameter must follow.
fn names(excluded: &[TopologyName]) -> Vec<String> {
    let with_parameter =
        [TopologyName::RandomRegular, TopologyName::TwoLevel, TopologyName::Circulant, TopologyName::Edges];
    let kinds = TopologyName::value_variants().iter().filter(|kind| !excluded.contains(kind));
    kinds.map(|kind| kind.name() + if with_parameter.contains(kind) { ":" } else { "" }).collect()
}

/// Error text that lists all accepted graphs.
const EXPECTED: &str = "expected complete, ring, chain, star, root-expander, chord, halton, halton:DEGREE, random:DEGREE, two-level:PEERS, circulant:OFFSET,.. or edges:FILE \
                        (or edges:0-1,1-0,..)";

impl TopologyName {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the topology, or `None` for [`TopologyName::Best`], which needs a search. An error
    /// names the missing flag.
    pub(crate) fn topology(self, parameters: &TopologyParameters) -> Result<Option<Topology>, &'static str> {
        let TopologyParameters { degree, seed, group, offsets, edges } = parameters;
        Ok(Some(match self {
            Self::Complete => Topology::Complete,
            Self::Ring => Topology::Ring,
            Self::Chain => Topology::Chain,
            Self::Star => Topology::Star,
            Self::RootExpander => Topology::RootExpander,
            Self::Halton => Topology::Halton { degree: *degree },
            Self::Chord => Topology::Chord,
            Self::RandomRegular => {
                Topology::RandomRegular { degree: degree.ok_or("--degree")?, seed: seed.unwrap_or_default() }
            }
            Self::TwoLevel => Topology::TwoLevel { group: group.ok_or("--group-size")? },
            Self::Circulant if offsets.is_empty() => return Err("--offsets"),
            Self::Circulant => Topology::Circulant { offsets: offsets.clone() },
            Self::Edges => Topology::Edges { edges: edges.clone().ok_or("--edges")?.0 },
            Self::Best => return Ok(None),
        }))
    }
}

/// Parses a graph of the command line.
pub(crate) fn parse(text: &str) -> Result<TopologyArgs, String> {
    let (name, detail) = text.split_once(':').map_or((text, None), |(name, detail)| (name, Some(detail)));
    let expected =
        || format!("{EXPECTED}; `hemiola topology` also takes `best` and `best:DEGREE`, which search for one");
    let kind = TopologyName::from_str(name, false).map_err(|_| expected())?;
    let number = |detail: &str| detail.trim().parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(expected);
    let mut parameters = TopologyParameters::default();
    match (kind, detail) {
        (_, None) => {}
        (TopologyName::Halton | TopologyName::RandomRegular | TopologyName::Best, Some(degree)) => {
            parameters.degree = Some(number(degree)?);
        }
        (TopologyName::TwoLevel, Some(group)) => parameters.group = Some(number(group)?),
        (TopologyName::Circulant, Some(offsets)) => {
            parameters.offsets = offsets.split(',').map(number).collect::<Result<_, _>>()?;
        }
        (TopologyName::Edges, Some(edges)) => parameters.edges = Some(DrawnEdges::read(edges)?),
        _ => return Err(expected()),
    }
    Ok(TopologyArgs { kind, parameters })
}

/// Parses a graph for training. It cannot be searched for, because the number of peers is not yet
/// known.
pub(crate) fn parse_for_training(text: &str) -> Result<Topology, String> {
    let TopologyArgs { kind, mut parameters } = parse(text)?;
    // The graph is part of the settings: the random seed of training must not change it.
    parameters.seed = Some(1);
    kind.topology(&parameters).ok().flatten().ok_or_else(|| EXPECTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::Rank;

    #[test]
    fn graphs_are_parsed_with_their_parameters() {
        assert_eq!(parse_for_training("root-expander"), Ok(Topology::RootExpander));
        assert_eq!(parse_for_training("halton:3"), Ok(Topology::Halton { degree: Some(3) }));
        assert_eq!(parse_for_training("circulant:1,5"), Ok(Topology::Circulant { offsets: vec![1, 5] }));
        assert_eq!(parse_for_training("random:2"), Ok(Topology::RandomRegular { degree: 2, seed: 1 }));
        assert_eq!(parse_for_training("random-regular:2"), parse_for_training("random:2"));
        let edges = vec![(Rank::new(0), Rank::new(1)), (Rank::new(1), Rank::new(0))];
        assert_eq!(parse_for_training("edges:0-1,1-0"), Ok(Topology::Edges { edges }));
        for wrong in ["tree", "halton:many", "ring:3", "random", "two-level:0", "circulant:", "best", "edges"] {
            assert!(parse_for_training(wrong).unwrap_err().contains("root-expander"), "{wrong}");
        }
    }
}
