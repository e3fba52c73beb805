//! Detection from maps of variables: each launcher with its real variables, and each kind of
//! invalid input.

use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn detect(pairs: &[(&str, &str)]) -> Option<RankAssignment> {
    RankAssignment::detect(&map(pairs)).unwrap_or_else(|error| panic!("{error}"))
}

fn assigned(pairs: &[(&str, &str)]) -> RankAssignment {
    detect(pairs).expect("a launcher assigned a rank")
}

/// Checks that the error message contains each of `words`.
#[track_caller]
fn refused(pairs: &[(&str, &str)], words: &[&str]) {
    let message = match RankAssignment::detect(&map(pairs)) {
        Err(error) => error.to_string(),
        Ok(found) => panic!("not refused: {found:?}"),
    };
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

const HEMIOLA: [(&str, &str); 5] = [
    ("HEMIOLA_RANK", "2"),
    ("HEMIOLA_SIZE", "4"),
    ("HEMIOLA_LOCAL_RANK", "1"),
    ("HEMIOLA_RENDEZVOUS", "node0:4000"),
    ("HEMIOLA_JOB", "seven"),
];
const TORCHRUN: [(&str, &str); 6] = [
    ("RANK", "3"),
    ("WORLD_SIZE", "4"),
    ("LOCAL_RANK", "1"),
    ("MASTER_ADDR", "10.0.0.1"),
    ("MASTER_PORT", "29500"),
    ("TORCHELASTIC_RUN_ID", "none"),
];
/// Set by Open MPI 4.1.4 for `mpirun -n 2`.
const OPEN_MPI: [(&str, &str); 7] = [
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("OMPI_MCA_ess_base_jobid", "2067005441"),
    ("PMIX_NAMESPACE", "2067005441"),
    ("OMPI_MCA_orte_precondition_transports", "a010582958d7dbff-1169854bf368d5bc"),
];
/// Set by MPICH 4.0.2 for `mpiexec.hydra -n 2`.
const MPICH: [(&str, &str); 4] =
    [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "2")];
const SLURM: [(&str, &str); 7] = [
    ("SLURM_JOB_ID", "77"),
    ("SLURM_STEP_ID", "1"),
    ("SLURM_PROCID", "5"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NTASKS", "8"),
    ("SLURM_STEP_NUM_TASKS", "8"),
    ("SLURM_STEP_NODELIST", "node[01-04]"),
];
const KUBERNETES: [(&str, &str); 3] = [("JOB_COMPLETION_INDEX", "2"), ("HOSTNAME", "train-2"), ("HEMIOLA_SIZE", "3")];

fn with(
    pairs: &[(&'static str, &'static str)],
    name: &'static str,
    value: &'static str,
) -> Vec<(&'static str, &'static str)> {
    let mut pairs = without(pairs, name);
    pairs.push((name, value));
    pairs
}

fn without(pairs: &[(&'static str, &'static str)], name: &str) -> Vec<(&'static str, &'static str)> {
    pairs.iter().copied().filter(|(other, _)| *other != name).collect()
}

#[test]
fn no_launcher_means_a_single_peer() {
    assert_eq!(detect(&[]), None);
    assert_eq!(detect(&[("PATH", "/bin"), ("HOSTNAME", "laptop"), ("MASTER_ADDR", "x"), ("WORLD_SIZE", "2")]), None);
    assert_eq!(detect(&[("HEMIOLA_RANK", ""), ("RANK", "")]), None, "empty is unset");
    assert_eq!(detect(&[("HEMIOLA_WORKERS", "2"), ("HEMIOLA_SECRET", "s"), ("HEMIOLA_JOB", "j")]), None);
}

#[test]
fn hemiola_variables() {
    let expected = RankAssignment {
        rank: Rank::new(2),
        size: 4,
        local_rank: Some(1),
        local_size: None,
        cores: None,
        rendezvous: Some(Rendezvous::Address("node0:4000".into())),
        job: Some("seven".into()),
        launcher: LauncherKind::Hemiola,
    };
    assert_eq!(assigned(&HEMIOLA), expected);
    let file = assigned(&with(&HEMIOLA, "HEMIOLA_RENDEZVOUS", "file:/run/rendezvous"));
    assert_eq!(file.rendezvous, Some(Rendezvous::File(PathBuf::from("/run/rendezvous"))));
}

#[test]
fn hemiola_variables_override_all_launchers() {
    let all = [HEMIOLA.as_slice(), &TORCHRUN, &OPEN_MPI, &SLURM, &without(&KUBERNETES, "HEMIOLA_SIZE")].concat();
    assert_eq!(assigned(&all), assigned(&HEMIOLA));
}

#[test]
fn hemiola_rendezvous_and_job_override_the_launchers() {
    for launcher in [TORCHRUN.as_slice(), &OPEN_MPI, &SLURM, &KUBERNETES] {
        let found = assigned(&[launcher, &[("HEMIOLA_RENDEZVOUS", "[::1]:7"), ("HEMIOLA_JOB", "mine")]].concat());
        assert_eq!(found.rendezvous, Some(Rendezvous::Address("[::1]:7".into())));
        assert_eq!(found.job.as_deref(), Some("mine"));
        assert_ne!(found.launcher, LauncherKind::Hemiola);
    }
}

#[test]
fn incomplete_hemiola_variables_are_refused() {
    refused(&without(&HEMIOLA, "HEMIOLA_SIZE"), &["`HEMIOLA_RANK` is `2`", "`HEMIOLA_SIZE` is not set"]);
    refused(&without(&HEMIOLA, "HEMIOLA_RENDEZVOUS"), &["`HEMIOLA_RENDEZVOUS` is not set", "host:port"]);
    refused(&[("HEMIOLA_SIZE", "4")], &["`HEMIOLA_SIZE` is `4`", "`HEMIOLA_RANK` is not set"]);
    refused(&[("HEMIOLA_RENDEZVOUS", "a:1")], &["`HEMIOLA_RENDEZVOUS` is `a:1`", "`HEMIOLA_RANK` is not set"]);
}

#[test]
fn invalid_values_are_refused() {
    refused(&with(&HEMIOLA, "HEMIOLA_RANK", "4"), &["`HEMIOLA_RANK` is `4`", "`HEMIOLA_SIZE` is `4`", "0 to 3"]);
    refused(&with(&HEMIOLA, "HEMIOLA_RANK", "-1"), &["`HEMIOLA_RANK` is `-1`", "whole number"]);
    refused(&with(&HEMIOLA, "HEMIOLA_RANK", "two"), &["`HEMIOLA_RANK` is `two`"]);
    refused(&with(&HEMIOLA, "HEMIOLA_SIZE", "0"), &["`HEMIOLA_SIZE` is `0`", "at least one"]);
    refused(&with(&HEMIOLA, "HEMIOLA_SIZE", "99999999999999999999"), &["`HEMIOLA_SIZE`"]);
    refused(&with(&HEMIOLA, "HEMIOLA_LOCAL_RANK", "x"), &["`HEMIOLA_LOCAL_RANK` is `x`"]);
    for address in ["node0", "node0:", "node0:0", "node0:70000", ":80", "::1:80", "file:relative", "file:", "file:/"] {
        refused(&with(&HEMIOLA, "HEMIOLA_RENDEZVOUS", address), &["`HEMIOLA_RENDEZVOUS`", address]);
    }
}

#[test]
fn a_job_of_one_needs_no_rendezvous() {
    let alone = assigned(&[("HEMIOLA_RANK", "0"), ("HEMIOLA_SIZE", "1")]);
    assert_eq!((alone.size, alone.rendezvous), (1, None));
    let mpi = assigned(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]);
    assert_eq!((mpi.size, mpi.rendezvous, mpi.launcher), (1, None, LauncherKind::OpenMpi));
    let slurm = with(&with(&SLURM, "SLURM_STEP_NUM_TASKS", "1"), "SLURM_PROCID", "0");
    assert_eq!(assigned(&slurm).rendezvous, None);
}

#[test]
fn torchrun() {
    let found = assigned(&TORCHRUN);
    assert_eq!((found.rank, found.size, found.local_rank), (Rank::new(3), 4, Some(1)));
    assert_eq!(found.rendezvous, Some(Rendezvous::Address("10.0.0.1:29500".into())));
    assert_eq!((found.launcher, found.job), (LauncherKind::Torchrun, None));
    let six = assigned(&with(&TORCHRUN, "MASTER_ADDR", "fd00::1"));
    assert_eq!(six.rendezvous, Some(Rendezvous::Address("[fd00::1]:29500".into())));
}

#[test]
fn the_port_of_the_torchrun_agent_is_skipped() {
    let agent = with(&TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE", "True");
    assert_eq!(assigned(&agent).rendezvous, Some(Rendezvous::Address("10.0.0.1:29501".into())));
    let none = with(&TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE", "False");
    assert_eq!(assigned(&none).rendezvous, Some(Rendezvous::Address("10.0.0.1:29500".into())));
    refused(&with(&agent, "MASTER_PORT", "65535"), &["`MASTER_PORT` is `65535`", "65534"]);
}

#[test]
fn incomplete_torchrun_variables_are_refused() {
    for name in ["WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        refused(&without(&TORCHRUN, name), &["`RANK` is `3`", &format!("`{name}` is not set")]);
    }
    refused(&with(&TORCHRUN, "MASTER_PORT", "http"), &["`MASTER_PORT` is `http`"]);
    refused(&with(&TORCHRUN, "MASTER_PORT", "0"), &["`MASTER_PORT` is `0`"]);
    refused(&with(&TORCHRUN, "RANK", "4"), &["`RANK` is `4`", "`WORLD_SIZE` is `4`"]);
    refused(&with(&TORCHRUN, "HEMIOLA_SIZE", "5"), &["`HEMIOLA_SIZE` is `5`", "`WORLD_SIZE` is `4`"]);
}

#[test]
fn open_mpi_on_one_host_uses_a_private_rendezvous_folder() {
    let first = assigned(&with(&OPEN_MPI, "TMPDIR", "/scratch"));
    assert_eq!((first.rank, first.size, first.local_rank), (Rank::new(1), 2, Some(1)));
    let Some(Rendezvous::File(path)) = &first.rendezvous else { panic!("{first:?}") };
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(path.parent(), Some(PathBuf::from(format!("/scratch/hemiola-{uid}")).as_path()));

    let root = with(&with(&OPEN_MPI, "TMPDIR", "/scratch"), "OMPI_COMM_WORLD_RANK", "0");
    assert_eq!(assigned(&root).rendezvous, first.rendezvous, "the same for all ranks of one mpirun");
    for (name, value) in [("PMIX_NAMESPACE", "2066284545"), ("OMPI_MCA_orte_precondition_transports", "b-c")] {
        let other = assigned(&with(&with(&OPEN_MPI, "TMPDIR", "/scratch"), name, value));
        assert_ne!(other.rendezvous, first.rendezvous, "different between two");
        assert_ne!(other.job, first.job);
    }
}

#[test]
fn open_mpi_names_cannot_leave_the_folder() {
    let found = assigned(&with(&OPEN_MPI, "PMIX_NAMESPACE", "prterun-host.example-77@1/../../x"));
    let Some(Rendezvous::File(path)) = found.rendezvous else { panic!() };
    assert_eq!(path.parent().and_then(|folder| folder.parent()), Some(PathBuf::from("/tmp").as_path()));
    assert!(path.to_str().unwrap().contains("prterun-host_example-77_1_______x"), "{}", path.display());
}

#[test]
fn open_mpi_on_several_hosts_needs_a_rendezvous() {
    refused(&with(&OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), &["Open MPI", "several hosts", "HEMIOLA_RENDEZVOUS"]);
    let nameless = without(&without(&OPEN_MPI, "PMIX_NAMESPACE"), "OMPI_MCA_ess_base_jobid");
    refused(&nameless, &["one host", "HEMIOLA_RENDEZVOUS"]);
    refused(&without(&OPEN_MPI, "OMPI_COMM_WORLD_SIZE"), &["`OMPI_COMM_WORLD_SIZE` is not set"]);
}

#[test]
fn mpich_on_one_host_uses_a_private_rendezvous_folder() {
    let found = assigned(&with(&MPICH, "TMPDIR", "/scratch"));
    assert_eq!((found.rank, found.size, found.launcher), (Rank::new(1), 2, LauncherKind::Mpich));
    assert_eq!((found.local_rank, found.local_size, found.cores), (Some(1), Some(2), None));
    let Some(Rendezvous::File(path)) = &found.rendezvous else { panic!("{found:?}") };
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(path.parent(), Some(PathBuf::from(format!("/scratch/hemiola-{uid}")).as_path()));
    let root = assigned(&with(&with(&MPICH, "TMPDIR", "/scratch"), "PMI_RANK", "0"));
    assert_eq!((root.rendezvous, root.job), (found.rendezvous, found.job), "the same for all ranks of one mpiexec");
}

#[test]
fn mpich_on_several_hosts_needs_a_rendezvous() {
    refused(&with(&MPICH, "MPI_LOCALNRANKS", "1"), &["MPICH", "several hosts", "HEMIOLA_RENDEZVOUS"]);
    refused(&without(&MPICH, "MPI_LOCALNRANKS"), &["MPICH", "HEMIOLA_RENDEZVOUS"]);
    refused(&without(&MPICH, "PMI_SIZE"), &["`PMI_RANK` is `1`", "`PMI_SIZE` is not set"]);
    refused(&with(&MPICH, "PMI_RANK", "2"), &["`PMI_RANK` is `2`", "`PMI_SIZE` is `2`"]);
}

#[test]
fn mpiexec_within_slurm_is_told_from_srun() {
    // `mpiexec` starts one process per host with `srun`; the peers inherit its variables.
    let host = with(&with(&SLURM, "SLURM_STEP_NUM_TASKS", "1"), "SLURM_PROCID", "0");
    let mpiexec = assigned(&[host.as_slice(), &MPICH].concat());
    assert_eq!((mpiexec.launcher, mpiexec.rank, mpiexec.size), (LauncherKind::Mpich, Rank::new(1), 2));
    let srun = assigned(&[SLURM.as_slice(), &[("PMI_RANK", "5"), ("PMI_SIZE", "8")]].concat());
    assert_eq!((srun.launcher, srun.rank, srun.size), (LauncherKind::Slurm, Rank::new(5), 8));
}

#[test]
fn a_rank_without_a_size_is_never_a_single_peer() {
    refused(&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "prte-7")], &["`PMIX_RANK` is `1`", "HEMIOLA_SIZE"]);
    let given = [("PMIX_RANK", "1"), ("HEMIOLA_RANK", "1"), ("HEMIOLA_SIZE", "2"), ("HEMIOLA_RENDEZVOUS", "a:1")];
    assert_eq!(assigned(&given).size, 2);
}

#[test]
fn launchers_say_how_many_peers_share_a_host() {
    let local = |variables: &[(&'static str, &'static str)]| assigned(variables).local_size;
    assert_eq!(local(&OPEN_MPI), Some(2));
    assert_eq!(local(&with(&TORCHRUN, "LOCAL_WORLD_SIZE", "2")), Some(2));
    let tasks = |list, host| with(&with(&SLURM, "SLURM_STEP_TASKS_PER_NODE", list), "SLURM_NODEID", host);
    assert_eq!(local(&SLURM), None);
    assert_eq!(local(&tasks("4(x2)", "1")), Some(4));
    assert_eq!(local(&tasks("3(x2),2", "2")), Some(2));
    refused(&tasks("3(x2),2", "3"), &["`SLURM_STEP_TASKS_PER_NODE` is `3(x2),2`"]);
    refused(&tasks("3(2", "0"), &["`SLURM_STEP_TASKS_PER_NODE` is `3(2`"]);
    assert_eq!(assigned(&with(&SLURM, "SLURM_CPUS_PER_TASK", "4")).cores, Some(4));
}

#[test]
fn slurm_steps_use_the_first_host_as_rendezvous() {
    let found = assigned(&SLURM);
    assert_eq!((found.rank, found.size, found.local_rank), (Rank::new(5), 8, Some(1)));
    assert_eq!(found.rendezvous, Some(Rendezvous::Address("node01:21233".into()))); // 20000 + 77 * 16 + 1
    assert_eq!((found.job.as_deref(), found.launcher), (Some("slurm-77.1"), LauncherKind::Slurm));
    let one_host = assigned(&with(&SLURM, "SLURM_STEP_NODELIST", "node01"));
    assert_eq!(one_host.rendezvous, Some(Rendezvous::Address("127.0.0.1:21233".into())));
}

#[test]
fn a_slurm_allocation_without_a_step_is_no_launcher() {
    // An sbatch script has a rank and a number of tasks, but no step.
    assert_eq!(detect(&without(&without(&SLURM, "SLURM_STEP_ID"), "SLURM_STEP_NUM_TASKS")), None);
    // A salloc shell on the submitting host.
    assert_eq!(detect(&[("SLURM_JOB_ID", "77"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_NODELIST", "a,b")]), None);
    // A salloc shell that Slurm runs as its interactive step, and a batch step that shows its
    // number.
    for step in ["4294967290", "4294967291"] {
        assert_eq!(detect(&with(&SLURM, "SLURM_STEP_ID", step)), None);
    }
}

#[test]
fn a_slurm_step_may_be_smaller_than_its_job() {
    let small = with(&with(&SLURM, "SLURM_STEP_NUM_TASKS", "2"), "SLURM_PROCID", "1");
    assert_eq!(assigned(&small).size, 2);
    assert_eq!(assigned(&without(&SLURM, "SLURM_STEP_NUM_TASKS")).size, 8);
}

#[test]
fn incomplete_slurm_variables_are_refused() {
    refused(&without(&SLURM, "SLURM_PROCID"), &["`SLURM_STEP_ID` is `1`", "`SLURM_PROCID` is not set", "srun"]);
    refused(&without(&SLURM, "SLURM_JOB_ID"), &["`SLURM_JOB_ID` is not set"]);
    refused(&without(&without(&SLURM, "SLURM_NTASKS"), "SLURM_STEP_NUM_TASKS"), &["`SLURM_NTASKS` is not set"]);
    refused(&without(&SLURM, "SLURM_STEP_NODELIST"), &["Slurm", "HEMIOLA_RENDEZVOUS"]);
    refused(&with(&SLURM, "SLURM_STEP_NODELIST", "node[1"), &["`SLURM_STEP_NODELIST` is `node[1`"]);
    refused(&with(&SLURM, "SLURM_PROCID", "8"), &["`SLURM_PROCID` is `8`", "`SLURM_STEP_NUM_TASKS` is `8`"]);
}

#[test]
fn kubernetes_indexed_jobs() {
    let found = assigned(&KUBERNETES);
    assert_eq!((found.rank, found.size, found.launcher), (Rank::new(2), 3, LauncherKind::Kubernetes));
    assert_eq!(found.rendezvous, Some(Rendezvous::Address("train-0:29400".into())));
    let torch = with(&without(&KUBERNETES, "HEMIOLA_SIZE"), "WORLD_SIZE", "5");
    assert_eq!(assigned(&torch).size, 5);
    refused(&without(&KUBERNETES, "HEMIOLA_SIZE"), &["`JOB_COMPLETION_INDEX` is `2`", "`HEMIOLA_SIZE` is not set"]);
    refused(&with(&KUBERNETES, "HEMIOLA_SIZE", "2"), &["`JOB_COMPLETION_INDEX` is `2`", "`HEMIOLA_SIZE` is `2`"]);
    refused(&with(&KUBERNETES, "HOSTNAME", "pod-xyz"), &["HOSTNAME", "HEMIOLA_RENDEZVOUS"]);
}

#[test]
fn torchrun_inside_slurm_is_torchrun_and_mpirun_inside_slurm_is_open_mpi() {
    assert_eq!(assigned(&[TORCHRUN.as_slice(), &SLURM].concat()).launcher, LauncherKind::Torchrun);
    assert_eq!(assigned(&[OPEN_MPI.as_slice(), &SLURM].concat()).launcher, LauncherKind::OpenMpi);
}
