//! The kinds of graph as they are typed, and which flags belong to which.

use super::Show;
use crate::failure::Failure;
use clap::ValueEnum;
use hemiola::collective::Topology;
use hemiola_core::Rank;

/// A kind of graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Everybody sends to everybody.
    Complete,
    /// Each sends to the next.
    Ring,
    /// Each sends to the next, the last to nobody.
    Chain,
    /// Everybody sends to the root, and the root to everybody.
    Star,
    /// Each sends to the next and to the one √peers further.
    RootExpander,
    /// Offsets spread as the Halton sequence spreads points.
    Halton,
    /// Half of the way round, a quarter, an eighth, and so on.
    Chord,
    /// All send to and receive from --degree random peers.
    RandomRegular,
    /// All of one's group of --group, and a root expander of groups.
    TwoLevel,
    /// Offsets of your own: --offsets.
    Circulant,
    /// Edges of your own: --edges.
    Edges,
    /// The largest spectral gap that can be found for --degree.
    Best,
}

impl Kind {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Refuses flags that would do nothing, and asks for those that are needed.
    pub(super) fn check(self, show: &Show) -> anyhow::Result<()> {
        let given = [
            ("--degree", show.degree.is_some(), [Self::Halton, Self::RandomRegular, Self::Best].as_slice()),
            ("--seed", show.seed.is_some(), &[Self::RandomRegular, Self::Best]),
            ("--group", show.group.is_some(), &[Self::TwoLevel]),
            ("--offsets", !show.offsets.is_empty(), &[Self::Circulant]),
            ("--edges", !show.edges.is_empty(), &[Self::Edges]),
        ];
        for (flag, given, kinds) in given {
            if given && !kinds.contains(&self) {
                let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
                let message = format!("{flag} does nothing for a graph of kind `{}`", self.name());
                return Err(Failure::usage(message)
                    .hint(format!("leave it out, or use it with --kind {}", kinds.join(" or ")))
                    .into());
            }
        }
        let missing = match self {
            Self::TwoLevel if show.group.is_none() => Some("--group"),
            Self::Circulant if show.offsets.is_empty() => Some("--offsets"),
            Self::Edges if show.edges.is_empty() => Some("--edges"),
            Self::RandomRegular if show.degree.is_none() => Some("--degree"),
            _ => None,
        };
        match missing {
            Some(flag) => {
                let message = format!("a graph of kind `{}` needs {flag}", self.name());
                Err(Failure::usage(message).hint("`hemiola topology --help` has examples").into())
            }
            None => Ok(()),
        }
    }

    /// The graph by name; nothing if it has to be searched for.
    pub(super) fn topology(self, show: &Show) -> anyhow::Result<Option<Topology>> {
        Ok(Some(match self {
            Self::Complete => Topology::Complete,
            Self::Ring => Topology::Ring,
            Self::Chain => Topology::Chain,
            Self::Star => Topology::Star,
            Self::RootExpander => Topology::RootExpander,
            Self::Halton => Topology::Halton { degree: show.degree },
            Self::Chord => Topology::Chord,
            Self::RandomRegular => {
                Topology::RandomRegular { degree: show.degree.unwrap_or(2), seed: show.seed.unwrap_or(0) }
            }
            Self::TwoLevel => Topology::TwoLevel { group: show.group.unwrap_or(1) },
            Self::Circulant => Topology::Circulant { offsets: show.offsets.clone() },
            Self::Edges => {
                Topology::Edges { edges: show.edges.iter().map(|edge| parse(edge)).collect::<anyhow::Result<_>>()? }
            }
            Self::Best => return Ok(None),
        }))
    }
}

/// Two ranks with a dash between.
fn parse(edge: &str) -> anyhow::Result<(Rank, Rank)> {
    let ranks = edge.split_once('-').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    let (from, to) = ranks.ok_or_else(|| {
        Failure::usage(format!("`{edge}` is no edge"))
            .hint("write sender and receiver as in `0-1`, with commas between edges")
    })?;
    Ok((Rank::new(from), Rank::new(to)))
}
