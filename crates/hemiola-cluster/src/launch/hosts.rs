//! Assignment of peers to hosts.
//!
//! Peers are assigned in blocks, as `mpirun` does by slot, so that neighbouring ranks share a host:
//! `a:2,b:2` puts 0 and 1 on `a`, 2 and 3 on `b`. Without slots, the blocks are as equal as
//! possible.

use super::LaunchError;
use std::fmt;
use std::str::FromStr;

/// Error of parsing a host specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host: {fault}; write `host`, `user@host` or `host:slots`")]
pub struct HostError {
    /// Text given by the user.
    pub text: String,
    /// Description of the problem.
    pub fault: &'static str,
}

/// Host, and the number of peers that it takes.
///
/// ```
/// use hemiola_cluster::launch::LaunchHost;
/// let host: LaunchHost = "ada@node7:2".parse()?;
/// assert_eq!((host.destination(), host.name(), host.slots()), ("ada@node7", "node7", Some(2)));
/// # Ok::<(), hemiola_cluster::launch::HostError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchHost {
    destination: String,
    slots: Option<usize>,
}

impl LaunchHost {
    /// Returns the destination for ssh: `host` or `user@host`.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Returns the host without the user.
    #[must_use]
    pub fn name(&self) -> &str {
        self.destination.rsplit_once('@').map_or(&*self.destination, |(_, name)| name)
    }

    /// Returns the number of peers that it takes, if given.
    #[must_use]
    pub fn slots(&self) -> Option<usize> {
        self.slots
    }

    /// Returns true if the name refers to the machine on which it is used.
    pub(super) fn is_loopback(&self) -> bool {
        let name = self.name();
        name == "localhost" || name == "::1" || name.starts_with("127.")
    }
}

impl FromStr for LaunchHost {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let wrong = |fault| HostError { text: text.to_owned(), fault };
        let number = |slots: &str| match slots.parse() {
            Ok(0) | Err(_) => Err(wrong("the number of slots must be at least 1")),
            Ok(slots) => Ok(Some(slots)),
        };
        // `[fd00::1]:2` has brackets, `fd00::1` is an address without slots, `node:2` is a name
        // with slots.
        let (destination, slots) = if let Some((address, rest)) = text.replacen('[', "", 1).split_once(']') {
            match rest.strip_prefix(':') {
                Some(slots) => (address.to_owned(), number(slots)?),
                None if rest.is_empty() => (address.to_owned(), None),
                None => return Err(wrong("unexpected text after the bracket")),
            }
        } else {
            match text.split_once(':') {
                Some((name, slots)) if !slots.contains(':') => (name.to_owned(), number(slots)?),
                _ => (text.to_owned(), None),
            }
        };
        let host = Self { destination, slots };
        if host.name().is_empty() {
            return Err(wrong("it has no name"));
        }
        // ssh would parse it as an option.
        if host.destination.starts_with('-') || host.name().starts_with('-') {
            return Err(wrong("a name must not start with `-`"));
        }
        if host.destination.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(wrong("it contains white space"));
        }
        Ok(host)
    }
}

impl fmt::Display for LaunchHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.destination)
    }
}

/// Returns the host index of each peer, in rank order. Without a number of peers, each slot gets
/// one.
pub(super) fn assign(hosts: &[LaunchHost], peers: Option<usize>) -> Result<Vec<usize>, LaunchError> {
    let with_slots = hosts.iter().any(|host| host.slots.is_some());
    let slots: usize = hosts.iter().map(|host| host.slots.unwrap_or(1)).sum();
    let peers = peers.unwrap_or(slots);
    if peers == 0 {
        return Err(LaunchError::NoPeers);
    }
    if with_slots && peers > slots {
        return Err(LaunchError::TooFewSlots { peers, slots });
    }
    let block = |index: usize, host: &LaunchHost| {
        if with_slots {
            host.slots.unwrap_or(1)
        } else {
            peers / hosts.len() + usize::from(index < peers % hosts.len())
        }
    };
    let assigned = hosts.iter().enumerate().flat_map(|(index, host)| std::iter::repeat_n(index, block(index, host)));
    Ok(assigned.take(peers).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: &[&str]) -> Vec<LaunchHost> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_keep_their_colons() {
        let read = |text: &str| text.parse::<LaunchHost>().map(|host| (host.destination, host.slots));
        assert_eq!(read("fd00::1"), Ok(("fd00::1".into(), None)));
        assert_eq!(read("[fd00::1]"), Ok(("fd00::1".into(), None)));
        assert_eq!(read("ada@[fd00::1]:3"), Ok(("ada@fd00::1".into(), Some(3))));
        assert_eq!(read("10.0.0.1:3"), Ok(("10.0.0.1".into(), Some(3))));
    }

    #[test]
    fn wrong_hosts_are_refused() {
        for text in ["", "ada@", ":2", "a:0", "a:x", "-oProxyCommand=reboot", "ada@-x", "a b", "[::1]2", "a\n"] {
            assert!(text.parse::<LaunchHost>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn slots_are_filled_in_order() {
        assert_eq!(assign(&hosts(&["a:2", "b:2"]), None).unwrap(), [0, 0, 1, 1]);
        assert_eq!(assign(&hosts(&["a:2", "b:2"]), Some(3)).unwrap(), [0, 0, 1]);
        assert_eq!(assign(&hosts(&["a:3", "b"]), None).unwrap(), [0, 0, 0, 1]);
        assert!(matches!(assign(&hosts(&["a:2", "b"]), Some(4)), Err(LaunchError::TooFewSlots { peers: 4, slots: 3 })));
    }

    #[test]
    fn without_slots_blocks_are_equal() {
        assert_eq!(assign(&hosts(&["a", "b"]), None).unwrap(), [0, 1]);
        assert_eq!(assign(&hosts(&["a", "b"]), Some(5)).unwrap(), [0, 0, 0, 1, 1]);
        assert_eq!(assign(&hosts(&["a", "b", "c"]), Some(2)).unwrap(), [0, 1]);
        assert!(matches!(assign(&hosts(&["a"]), Some(0)), Err(LaunchError::NoPeers)));
    }
}
