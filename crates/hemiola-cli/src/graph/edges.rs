//! Parser of custom edges: one edge per line of a file, or comma-separated on the command line.
//!
//! An edge is a sender and a receiver: `0 1`, `0,1`, `0-1` or `0 -> 1`. Empty lines and comments
//! after a `#` are ignored.

use hemiola_core::Rank;
use std::path::Path;

/// Custom edges, each from a sender to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrawnEdges(pub(crate) Vec<(Rank, Rank)>);

impl DrawnEdges {
    /// Parses a list of edges such as `0-1,1-0`, or reads a file of edges.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if !Path::new(text).exists() && text.split(',').any(|edge| parse(edge).is_some()) {
            let edges = text.split(',').map(|edge| parse(edge).ok_or_else(|| invalid_edge(edge, None)));
            return edges.collect::<Result<_, _>>().map(Self);
        }
        let lines = std::fs::read_to_string(text).map_err(|error| {
            format!("`{text}` is not a list of edges such as `0-1,1-0`, and cannot be read as a file: {error}")
        })?;
        let edges = from_lines(&lines).map_err(|(line, wrong)| invalid_edge(&wrong, Some((text, line))))?;
        if edges.is_empty() {
            return Err(format!("`{text}` has no edges; write one per line, such as `0 1`"));
        }
        Ok(Self(edges))
    }
}

/// Parses one edge per line. The error is the number and the text of the first invalid line.
fn from_lines(text: &str) -> Result<Vec<(Rank, Rank)>, (usize, String)> {
    let lines = text.lines().enumerate().filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then(|| parse(line).ok_or_else(|| (number + 1, line.to_owned())))
    });
    lines.collect()
}

/// Parses two ranks separated by a space, a comma, a dash or an arrow.
fn parse(edge: &str) -> Option<(Rank, Rank)> {
    let (sender, rest) = leading_rank(edge.trim())?;
    let separator = rest.trim_start();
    // Behind a space, a dash before a digit is the sign of a number.
    let signed = separator.strip_prefix('-').is_some_and(|number| leading_rank(number).is_some());
    if signed && separator.len() < rest.len() {
        return None;
    }
    let receiver = ["->", "→", ",", "-"].iter().find_map(|sign| separator.strip_prefix(sign)).unwrap_or(separator);
    let (receiver, rest) = leading_rank(receiver.trim_start())?;
    rest.is_empty().then_some((sender, receiver))
}

/// Splits a text into the rank that it starts with and the rest.
fn leading_rank(text: &str) -> Option<(Rank, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (rank, rest) = text.split_at(end);
    Some((Rank::new(rank.parse().ok()?), rest))
}

fn invalid_edge(text: &str, location: Option<(&str, usize)>) -> String {
    let location = location.map(|(file, line)| format!("line {line} of `{file}`: ")).unwrap_or_default();
    format!(
        "{location}`{}` is not an edge; write the ranks of sender and receiver, such as `0 1` or `0-1`",
        text.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_no_sign() {
        assert_eq!(parse("1 2"), Some((Rank::new(1), Rank::new(2))));
        for wrong in
            ["-1 2", "-1-2", ",1 2", "1 2 3", "1 --x", "1 -2", "1--2", "1,-2", "1 -> -2", "+1 2", "1 +2", "1,,2", "12"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    fn edges(numbers: &[(u32, u32)]) -> Vec<(Rank, Rank)> {
        numbers.iter().map(|&(from, to)| (Rank::new(from), Rank::new(to))).collect()
    }

    #[test]
    fn edges_have_several_notations() {
        let text = "# a ring\n0 1\n1,2\n\n2-3  # across\r\n3 -> 0\n0\t2\n2→0";
        assert_eq!(from_lines(text), Ok(edges(&[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 0)])));
        assert_eq!(DrawnEdges::read("0-1,1-0"), Ok(DrawnEdges(edges(&[(0, 1), (1, 0)]))));
    }

    #[test]
    fn an_invalid_edge_is_reported_with_its_line() {
        for wrong in ["0", "0 1 2", "a b", "0 -1 x", "1.5 2", "0 99999999999"] {
            assert_eq!(from_lines(&format!("0 1\n\n{wrong}\n")), Err((3, wrong.to_owned())), "{wrong}");
        }
        assert!(DrawnEdges::read("0-1,2").unwrap_err().contains("`2` is not an edge"));
        assert!(DrawnEdges::read("no such file").unwrap_err().contains("`no such file` is not a list of edges"));
    }
}
