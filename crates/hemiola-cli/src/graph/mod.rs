//! Communication graphs as they are typed: a name, and after a colon what it needs, as in `halton:3` or `edges:graph.txt`.
//!
//! **Invariant:** this is the only place that knows names of graphs; `hemiola train --graph` and `hemiola topology --kind` take the same.

mod edges;

pub(crate) use edges::DrawnEdges;

use clap::ValueEnum;
use hemiola::collective::Topology;

/// A kind of graph.
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

/// What a kind of graph needs, or can do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopologyParameters {
    pub(crate) degree: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) group: Option<usize>,
    pub(crate) offsets: Vec<usize>,
    pub(crate) edges: Option<DrawnEdges>,
}

/// A graph as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopologyArgs {
    pub(crate) kind: TopologyName,
    pub(crate) details: TopologyParameters,
}

/// All that can be typed.
const EXPECTED: &str = "expected complete, ring, chain, star, root-expander, chord, halton, halton:DEGREE, random:DEGREE, two-level:PEERS, circulant:OFFSET,.. or edges:FILE \
                        (or edges:0-1,1-0,..)";

impl TopologyName {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The graph; nothing if it has to be searched for. An error names the flag that says what is missing.
    pub(crate) fn topology(self, details: &TopologyParameters) -> Result<Option<Topology>, &'static str> {
        let TopologyParameters { degree, seed, group, offsets, edges } = details;
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
            Self::TwoLevel => Topology::TwoLevel { group: group.ok_or("--group")? },
            Self::Circulant if offsets.is_empty() => return Err("--offsets"),
            Self::Circulant => Topology::Circulant { offsets: offsets.clone() },
            Self::Edges => Topology::Edges { edges: edges.clone().ok_or("--edges")?.0 },
            Self::Best => return Ok(None),
        }))
    }
}

/// Reads a graph as it is typed.
pub(crate) fn typed(text: &str) -> Result<TopologyArgs, String> {
    let (name, detail) = text.split_once(':').map_or((text, None), |(name, detail)| (name, Some(detail)));
    let expected = || format!("{EXPECTED}; `best` and `best:DEGREE` look for one in `hemiola topology`");
    let kind = TopologyName::from_str(name, false).map_err(|_| expected())?;
    let number = |detail: &str| detail.trim().parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(expected);
    let mut details = TopologyParameters::default();
    match (kind, detail) {
        (_, None) => {}
        (TopologyName::Halton | TopologyName::RandomRegular | TopologyName::Best, Some(degree)) => {
            details.degree = Some(number(degree)?)
        }
        (TopologyName::TwoLevel, Some(group)) => details.group = Some(number(group)?),
        (TopologyName::Circulant, Some(offsets)) => {
            details.offsets = offsets.split(',').map(number).collect::<Result<_, _>>()?;
        }
        (TopologyName::Edges, Some(edges)) => details.edges = Some(DrawnEdges::read(edges)?),
        _ => return Err(expected()),
    }
    Ok(TopologyArgs { kind, details })
}

/// Reads a graph for a training, which cannot search for one: it learns only later how many peers there are.
pub(crate) fn for_training(text: &str) -> Result<Topology, String> {
    let TopologyArgs { kind, mut details } = typed(text)?;
    // The graph is part of the settings: another seed of the training must not change it.
    details.seed = Some(1);
    kind.topology(&details).ok().flatten().ok_or_else(|| EXPECTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::Rank;

    #[test]
    fn graphs_have_names_and_details() {
        assert_eq!(for_training("root-expander"), Ok(Topology::RootExpander));
        assert_eq!(for_training("halton:3"), Ok(Topology::Halton { degree: Some(3) }));
        assert_eq!(for_training("circulant:1,5"), Ok(Topology::Circulant { offsets: vec![1, 5] }));
        assert_eq!(for_training("random:2"), Ok(Topology::RandomRegular { degree: 2, seed: 1 }));
        assert_eq!(for_training("random-regular:2"), for_training("random:2"));
        let edges = vec![(Rank::new(0), Rank::new(1)), (Rank::new(1), Rank::new(0))];
        assert_eq!(for_training("edges:0-1,1-0"), Ok(Topology::Edges { edges }));
        for wrong in ["tree", "halton:many", "ring:3", "random", "two-level:0", "circulant:", "best", "edges"] {
            assert!(for_training(wrong).unwrap_err().contains("root-expander"), "{wrong}");
        }
    }
}
