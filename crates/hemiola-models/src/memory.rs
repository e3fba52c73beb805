//! Memory that a model needs, checked before it is taken.
//!
//! A failed allocation of a vector aborts the process, and an overcommitted one is ended by the
//! operating system, both without a message. Sizes that come from data or settings are therefore
//! compared with the free memory first.

use crate::Error;

/// Returns an error if `bytes` are more than this process can get. `what` describes the content.
pub fn ensure_available(bytes: u128, what: impl FnOnce() -> String) -> Result<(), Error> {
    match available() {
        Some(available) if bytes > u128::from(available) => {
            let needed = u64::try_from(bytes).unwrap_or(u64::MAX);
            Err(Error::NotEnoughMemory { what: what(), needed, available })
        }
        _ => Ok(()),
    }
}

/// Returns the number of free bytes, where the operating system reports it: free memory, at most
/// the limit of the address space and that of the control group.
fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let free = kilobytes(&read("/proc/meminfo"), "MemAvailable:")?;
    let limits = read("/proc/self/limits");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let limit = limit.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let group = read("/sys/fs/cgroup/memory.max").trim().parse::<u64>().ok();
    [Some(free), limit, group].into_iter().flatten().min()
}

/// Returns a line of `/proc/meminfo` in bytes.
fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_sizes_are_refused_with_both_numbers() {
        assert_eq!(ensure_available(1 << 20, || unreachable!("a megabyte is there")), Ok(()));
        let told = ensure_available(1 << 60, || "a model".to_owned()).unwrap_err().to_string();
        assert!(told.starts_with("a model needs 1073741824.0 GiB, and this machine has"), "{told}");
        assert_eq!(kilobytes("MemTotal: 5 kB\nMemAvailable:  12 kB\n", "MemAvailable:"), Some(12 * 1024));
    }
}
