//! Files of Linux that describe the machine: `/proc`, `/sys`, `/dev`.
//!
//! **Invariant:** a file that is missing or has another form gives no fact; containers hide many of
//! them.

use super::facts::{GpuFacts, MemoryFacts};
use std::fs;
use std::path::{Path, PathBuf};

/// System files below a root folder, which is `/` except in tests.
#[derive(Clone, Debug)]
pub(super) struct SystemFiles {
    root: PathBuf,
}

impl Default for SystemFiles {
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

impl SystemFiles {
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// Returns the names in a folder, sorted.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the number of cores of the machine.
    pub(super) fn cores(&self) -> Option<usize> {
        let ranges = self.read("sys/devices/system/cpu/online")?;
        let count = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
        };
        ranges.trim().split(',').map(count).sum()
    }

    /// Returns the control groups of this process that may have limits: folders below `/sys`, the
    /// innermost first.
    fn groups(&self, controller: &str) -> Vec<PathBuf> {
        let text = self.read("proc/self/cgroup").unwrap_or_default();
        let mut folders = Vec::new();
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let base = match controllers {
                "" => PathBuf::from("sys/fs/cgroup"),
                list if list.split(',').any(|one| one == controller) => Path::new("sys/fs/cgroup").join(controller),
                _ => continue,
            };
            let inner = Path::new(path.trim_start_matches('/'));
            // A container often sees its own group as the root.
            folders.extend(inner.ancestors().map(|part| base.join(part)));
        }
        folders
    }

    /// Returns the CPU limit of the control groups, in cores.
    pub(super) fn group_cores(&self) -> Option<f64> {
        let limit = |folder: PathBuf| {
            let (quota, period) = match self.read(folder.join("cpu.max")) {
                Some(text) => {
                    let (quota, period) = text.trim().split_once(' ')?;
                    (quota.to_owned(), period.to_owned())
                }
                None => (self.read(folder.join("cpu.cfs_quota_us"))?, self.read(folder.join("cpu.cfs_period_us"))?),
            };
            let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
            (quota > 0.0 && period > 0.0).then_some(quota / period)
        };
        self.groups("cpu").into_iter().filter_map(limit).reduce(f64::min)
    }

    /// Returns the memory of the machine and of the control groups.
    pub(super) fn memory(&self) -> MemoryFacts {
        let text = self.read("proc/meminfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        let machine = field("MemTotal:");
        let number = |path: PathBuf| self.read(path)?.trim().parse::<u64>().ok();
        let limits = self.groups("memory").into_iter().filter_map(|folder| {
            let limit = number(folder.join("memory.max")).or_else(|| number(folder.join("memory.limit_in_bytes")))?;
            let used = number(folder.join("memory.current")).or_else(|| number(folder.join("memory.usage_in_bytes")));
            // Without a limit, the first version of control groups has a number beyond all memory.
            machine.is_none_or(|machine| limit < machine).then_some((limit, used))
        });
        let (group_limit, group_used) = limits.min().unzip();
        MemoryFacts { machine, available: field("MemAvailable:"), group_limit, group_used: group_used.flatten() }
    }

    /// Returns the network interfaces that are up, without loopback.
    pub(super) fn interfaces(&self) -> Vec<String> {
        let is_up = |name: &String| {
            let state = self.read(format!("sys/class/net/{name}/operstate")).unwrap_or_default();
            name != "lo" && state.trim() != "down"
        };
        let with_speed = |name: String| {
            let speed = self.read(format!("sys/class/net/{name}/speed"));
            match speed.and_then(|text| text.trim().parse::<i64>().ok()).filter(|speed| *speed > 0) {
                Some(speed) => format!("{name} ({speed} Mbit/s)"),
                None => name,
            }
        };
        self.list("sys/class/net").into_iter().filter(is_up).map(with_speed).collect()
    }

    /// Returns the NVIDIA GPUs. `enabled` tells whether this build can use them.
    pub(super) fn gpu(&self, enabled: bool) -> GpuFacts {
        let model = |bus: &String| {
            let text = self.read(format!("proc/driver/nvidia/gpus/{bus}/information"))?;
            text.lines().find_map(|line| line.strip_prefix("Model:")).map(|model| model.trim().to_owned())
        };
        let is_device = |name: &&String| {
            name.strip_prefix("nvidia")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|one| one.is_ascii_digit()))
        };
        let driver = self.read("proc/driver/nvidia/version").and_then(|text| {
            let words = text.lines().next()?.split_whitespace();
            words.into_iter().find(|word| word.starts_with(|first: char| first.is_ascii_digit())).map(str::to_owned)
        });
        GpuFacts {
            models: self.list("proc/driver/nvidia/gpus").iter().filter_map(model).collect(),
            devices: self.list("dev").iter().filter(is_device).count(),
            driver,
            enabled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns system files with this content, and the folder that holds them.
    fn system(files: &[(&str, &str)]) -> (SystemFiles, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (SystemFiles { root: root.path().to_owned() }, root)
    }

    #[test]
    fn limits_of_control_groups_are_those_of_the_innermost_and_all_above() {
        let (files, _root) = system(&[
            ("proc/self/cgroup", "0::/pods/job\n"),
            ("sys/fs/cgroup/pods/job/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pods/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pods/job/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/pods/job/memory.current", "1048576\n"),
            ("sys/fs/cgroup/pods/memory.max", "max\n"),
            ("proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
        ]);
        assert_eq!(files.group_cores(), Some(1.5));
        assert_eq!(files.cores(), Some(5));
        let memory = files.memory();
        assert_eq!((memory.machine, memory.available), (Some(8 << 30), Some(4 << 30)));
        assert_eq!((memory.group_limit, memory.group_used), (Some(1 << 30), Some(1 << 20)));
    }

    #[test]
    fn the_first_version_of_control_groups_is_read_too() {
        let (files, _root) = system(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/docker/1\n9:memory:/docker/1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("proc/meminfo", "MemTotal:  8388608 kB\n"),
        ]);
        assert_eq!(files.group_cores(), Some(2.0));
        assert_eq!(files.memory().group_limit, None, "a limit beyond all memory is none");
    }

    #[test]
    fn gpus_and_interfaces_are_listed() {
        let (files, _root) = system(&[
            ("dev/nvidia0", ""),
            ("dev/nvidiactl", ""),
            ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module  580.82.07  Release\n"),
            ("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n"),
            ("sys/class/net/lo/operstate", "unknown\n"),
            ("sys/class/net/eth0/operstate", "up\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/eth1/operstate", "down\n"),
        ]);
        let gpu = files.gpu(false);
        assert_eq!((gpu.models, gpu.devices), (vec!["NVIDIA H200".to_owned()], 1));
        assert_eq!(gpu.driver.as_deref(), Some("580.82.07"));
        assert_eq!(files.interfaces(), ["eth0 (10000 Mbit/s)"]);
    }

    #[test]
    fn nothing_is_known_of_a_system_without_these_files() {
        let (files, _root) = system(&[]);
        assert_eq!((files.cores(), files.group_cores()), (None, None));
        let (memory, gpu) = (files.memory(), files.gpu(true));
        assert_eq!((memory.machine, memory.available, memory.group_limit), (None, None, None));
        assert_eq!((gpu.devices, gpu.driver, files.interfaces()), (0, None, Vec::new()));
    }
}
