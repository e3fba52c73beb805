//! Communication graphs as they are typed.

use hemiola::collective::Topology;

/// Reads the name of a graph, after a colon what it needs: `ring`, `halton:3`, `random:4`, `circulant:1,5`.
pub(super) fn graph(text: &str) -> Result<Topology, String> {
    let (name, detail) = text.split_once(':').map_or((text, None), |(name, detail)| (name, Some(detail)));
    let expected = || {
        "expected complete, ring, star, root-expander, chord, halton, halton:DEGREE, random:DEGREE, two-level:PEERS or \
         circulant:OFFSET,.."
            .to_owned()
    };
    let number = |detail: &str| detail.parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(expected);
    Ok(match (name, detail) {
        ("complete", None) => Topology::Complete,
        ("ring", None) => Topology::Ring,
        ("star", None) => Topology::Star,
        ("root-expander", None) => Topology::RootExpander,
        ("chord", None) => Topology::Chord,
        ("halton", None) => Topology::Halton { degree: None },
        ("halton", Some(degree)) => Topology::Halton { degree: Some(number(degree)?) },
        // The graph is part of the settings: another seed of the training must not change it.
        ("random", Some(degree)) => Topology::RandomRegular { degree: number(degree)?, seed: 1 },
        ("two-level", Some(group)) => Topology::TwoLevel { group: number(group)? },
        ("circulant", Some(offsets)) => {
            Topology::Circulant { offsets: offsets.split(',').map(number).collect::<Result<_, _>>()? }
        }
        _ => return Err(expected()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_have_names_and_details() {
        assert_eq!(graph("root-expander"), Ok(Topology::RootExpander));
        assert_eq!(graph("halton:3"), Ok(Topology::Halton { degree: Some(3) }));
        assert_eq!(graph("circulant:1,5"), Ok(Topology::Circulant { offsets: vec![1, 5] }));
        for wrong in ["tree", "halton:many", "ring:3", "random", "two-level:0", "circulant:"] {
            assert!(graph(wrong).unwrap_err().contains("root-expander"), "{wrong}");
        }
    }
}
