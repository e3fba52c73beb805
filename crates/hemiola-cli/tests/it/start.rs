//! Environment and arguments of peers, and programs that cannot be started.

use crate::support::{entries, hemiola, launch, run};
use std::fs;

#[test]
fn each_peer_gets_its_rank_and_world_size() {
    let show = r#"echo "$HEMIOLA_RANK $HEMIOLA_SIZE $HEMIOLA_LOCAL_RANK $HEMIOLA_WORKERS""#;
    let ended = run(&["-n", "3", "--workers", "2"], show);
    assert_eq!(ended.sorted(), ["[0] 0 3 0 2", "[1] 1 3 1 2", "[2] 2 3 2 2"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn all_peers_share_a_new_secret_a_job_and_a_private_folder() {
    let show = r#"echo "$HEMIOLA_SECRET $HEMIOLA_JOB $HEMIOLA_RENDEZVOUS $HEMIOLA_STATUS_DIR $(stat -c %a "$HEMIOLA_STATUS_DIR") ${HEMIOLA_SECRET_FILE-unset}""#;
    let words = || {
        let mut command = hemiola(&["-n", "2", "--", "sh", "-c", show]);
        let ended = launch(command.env("HEMIOLA_SECRET_FILE", "/of/another/job")).end();
        let lines: Vec<_> = ended.sorted().iter().map(|line| line[4..].to_owned()).collect();
        assert_eq!(lines[0], lines[1]);
        lines[0].split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (words(), words());
    let [secret, job, rendezvous, folder, mode, file] = &first[..] else { panic!("{first:?}") };
    assert_eq!((secret.len(), job.len()), (64, 16));
    assert!(secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!((mode.as_str(), file.as_str()), ("700", "unset"));
    assert_eq!(rendezvous.strip_prefix("file:"), Some(format!("{folder}/rendezvous").as_str()));
    assert!(!fs::exists(folder).unwrap(), "the folder is removed at the end");
    assert!(first.iter().zip(&second).take(4).all(|(first, second)| first != second), "{second:?}");
}

#[test]
fn cores_are_shared_unless_workers_are_given() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let ended = run(&["-n", "1"], "echo $HEMIOLA_WORKERS");
    assert_eq!(ended.sorted(), [format!("[0] {cores}")]);
    let ended = run(&["-n", &(2 * cores).to_string()], "echo $HEMIOLA_WORKERS");
    assert!(ended.sorted().iter().all(|line| line.ends_with("] 1")), "{ended:?}");
    let mut command = hemiola(&["--", "sh", "-c", "echo $HEMIOLA_WORKERS"]);
    assert_eq!(launch(command.env("HEMIOLA_WORKERS", "7")).end().sorted(), ["[0] 7"]);
}

#[test]
fn arguments_are_passed_unchanged() {
    let ended = launch(&mut hemiola(&["--", "printf", "%s|", "a b", "", "-n", "--", "$x'\""])).end();
    assert_eq!(ended.sorted(), ["[0] a b||-n|--|$x'\"|"]);
}

#[test]
fn a_program_that_cannot_be_started_is_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let script = script.to_str().unwrap();
    let is = |program: &str, code, hint: &str| {
        let ended = launch(hemiola(&["-n", "2", "--", program]).env("TMPDIR", folder.path())).end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let notes = ended.notes();
        assert!(notes.len() == 1 && notes[0].contains(program) && notes[0].contains(hint), "{notes:?}");
        assert!(ended.stdout.is_empty());
    };
    is("no-such-program", 127, "PATH");
    is("./no/such/program", 127, "no such file");
    is("/dev/null/program", 127, "no such file");
    is(script, 126, "chmod +x");
    is("/", 126, "folder");
    fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    is(script, 126, "interpreter");
    assert_eq!(entries(folder.path()), 1, "nothing is left but the script");
}

#[test]
fn wrong_use_exits_with_2() {
    for arguments in [
        &["-n", "0", "--", "true"][..],
        &["-n", "2"],
        &["--port", "80", "--", "true"],
        &["--grace", "-1", "--", "true"],
    ] {
        let ended = launch(&mut hemiola(arguments)).end();
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn help_lists_the_exit_codes() {
    let ended = launch(&mut hemiola(&["--help"])).end();
    let text = ended.sorted().join("\n");
    for code in ["126", "127", "130"] {
        assert!(text.contains(code), "{text}");
    }
}
