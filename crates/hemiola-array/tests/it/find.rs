//! Discovery of files, folders and patterns.

use hemiola_array::read::InputFile;

fn names(pattern: &str) -> Vec<String> {
    let sources = InputFile::find(pattern).unwrap();
    sources.iter().map(|source| source.path().file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn folders_and_patterns_give_sorted_files_without_hidden_ones() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["part-2", "part-10", "part-1", ".crc", "_SUCCESS", "other"] {
        std::fs::write(folder.path().join(name), "1\n").unwrap();
    }
    std::fs::create_dir(folder.path().join("part-folder")).unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(names(path), ["other", "part-1", "part-10", "part-2"]);
    assert_eq!(names(&format!("{path}/part-*")), ["part-1", "part-10", "part-2"]);
    assert_eq!(names(&format!("{path}/part-[12]")), ["part-1", "part-2"]);
    assert_eq!(names(&format!("{path}/other")), ["other"]);
    assert_eq!(
        InputFile::find(&format!("{path}/x*")).unwrap_err().to_string(),
        format!("`{path}/x*` matches no file; check the path (hidden files and names that start with `_` are skipped)")
    );
    assert!(InputFile::find(&format!("{path}/part-folder")).unwrap_err().to_string().contains("matches no file"));
    assert_eq!(
        InputFile::find("a***b").unwrap_err().to_string(),
        "`a***b` is not a pattern: wildcards are either regular `*` or recursive `**` at character 3; quote `*`, `?` and \
         `[` as `[*]`"
    );
}

#[test]
fn a_file_named_like_a_pattern_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run[1].csv");
    std::fs::write(&path, "1\n").unwrap();
    assert_eq!(names(path.to_str().unwrap()), ["run[1].csv"]);
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let limited = !rustix::process::geteuid().is_root();
    // Root may read every folder; `unreadable_files_are_the_same_error_on_every_peer` covers it as another user.
    hemiola_testkit::require!(hemiola_testkit::condition("no-root", limited, "root may read every folder"));
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let found = InputFile::find(closed.to_str().unwrap());
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        found.unwrap_err().to_string(),
        format!("cannot list `{}`: permission denied; ask the owner or run as a user with access", closed.display())
    );
}

#[test]
fn file_urls_are_paths() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["part 1", "part 2", "other"] {
        std::fs::write(folder.path().join(name), "1\n").unwrap();
    }
    let url = format!("file://{}", folder.path().display());
    assert_eq!(names(&url), ["other", "part 1", "part 2"]);
    assert_eq!(names(&format!("{url}/part%20?")), ["part 1", "part 2"]);
    let source = InputFile::open(format!("{url}/part%201")).unwrap();
    assert_eq!((source.path(), source.is_object()), (folder.path().join("part 1").as_path(), false));
    assert_eq!(
        InputFile::find("ftp://host/a").unwrap_err().to_string(),
        "`ftp://host/a` cannot be read: it begins with none of file, s3, gs, az, http and https"
    );
}

#[cfg(not(feature = "object-store"))]
#[test]
fn other_urls_need_the_feature() {
    for url in ["s3://bucket/a.csv", "gs://bucket/*.csv", "az://container/", "https://host/a.csv"] {
        let expected = format!("`{url}` cannot be read by this build; build with the cargo feature `object-store`");
        for error in [InputFile::find(url).unwrap_err(), InputFile::open(url).unwrap_err()] {
            assert_eq!(error.to_string(), expected);
            assert!(!error.kind().may_retry());
        }
    }
}
