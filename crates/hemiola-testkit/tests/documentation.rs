//! The documentation holds together: links and anchors resolve, the book lists its pages, prose is
//! wrapped, snippets are tested. No tool but the files is needed, in particular not mdBook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Largest number of lines of the README.
const README_LINES: usize = 120;

/// Largest width of a line of prose, without the targets of links, in characters.
const WIDTH: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Files below a folder with this extension, relative to the root, sorted.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// All pages: at the root, of the book, of benchmarks, and beside the code.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).into();
    pages.extend(["docs", "benchmarks", "crates"].iter().flat_map(|folder| files(folder, "md")));
    assert!(pages.len() > 60, "{pages:?}");
    pages
}

fn read(page: &Path) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// Lines outside of code blocks, with their numbers from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number + 1, line));
        }
    }
    assert!(!fenced, "a code block has no end");
    lines
}

/// A line without code spans, in which brackets are no links.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().filter(|(index, _)| index % 2 == 0).map(|(_, part)| part).collect()
}

/// Targets of the links and pictures of a line.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let ends = line.split("](").skip(1);
    ends.map(|rest| rest.split([')', ' ']).next().unwrap_or_default().to_owned()).collect()
}

/// Links of a page to files of the repository: line, target and anchor.
fn links(page: &Path) -> Vec<(usize, String, Option<String>)> {
    let text = read(page);
    // A link may be broken over two lines, its target never.
    let all = prose(&text).into_iter().flat_map(|(number, line)| {
        let joined = if line.starts_with("](") { format!("x{line}") } else { line.to_owned() };
        targets(&joined).into_iter().map(move |target| (number, target)).collect::<Vec<_>>()
    });
    let local = all.filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    local
        .map(|(number, target)| match target.split_once('#') {
            Some((path, anchor)) => (number, path.to_owned(), Some(anchor.to_owned())),
            None => (number, target, None),
        })
        .collect()
}

/// Path of a link target, relative to the root.
fn resolve(page: &Path, target: &str) -> PathBuf {
    if target.is_empty() {
        return page.to_owned();
    }
    let mut path = PathBuf::new();
    for component in page.parent().unwrap().join(target).components() {
        match component {
            Component::ParentDir => assert!(path.pop(), "{}: `{target}` leaves the repository", page.display()),
            Component::Normal(name) => path.push(name),
            other => panic!("{}: `{target}` has {other:?}", page.display()),
        }
    }
    path
}

/// Anchor of a heading, as web sites and mdBook derive it.
fn anchor(heading: &str) -> String {
    let text: String = heading.trim().to_lowercase().chars().filter(|letter| *letter != '`').collect();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Anchors of the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = read(page);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (_, line) in prose(&text) {
        let Some(heading) = line.strip_prefix('#') else { continue };
        let name = anchor(heading.trim_start_matches('#'));
        let count = counts.entry(name.clone()).or_default();
        all.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    all
}

#[test]
fn every_link_and_anchor_resolves() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        for (line, target, anchor) in links(&page) {
            count += 1;
            let path = resolve(&page, &target);
            let place = format!("{}:{line}: {target}", page.display());
            if !root().join(&path).exists() {
                broken.push(format!("{place}: there is no such file"));
            } else if let Some(anchor) = anchor
                && !anchors(&path).contains(&anchor)
            {
                broken.push(format!("{place}#{anchor}: the page has no such heading"));
            }
        }
    }
    assert!(count > 300, "{count} links");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_summary_lists_every_page_once() {
    let summary = Path::new("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = links(summary).iter().map(|(_, target, _)| resolve(summary, target)).collect();
    let unique: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice: {listed:?}");
    for page in files("docs", "md").iter().filter(|page| *page != summary) {
        assert!(unique.contains(page), "{} is not in docs/SUMMARY.md", page.display());
    }
    assert!(read(Path::new("book.toml")).contains("src = \"docs\""));
}

#[test]
fn every_picture_is_on_a_page() {
    let shown: BTreeSet<PathBuf> = pages()
        .iter()
        .flat_map(|page| links(page).into_iter().map(|(_, target, _)| resolve(page, &target)).collect::<Vec<_>>())
        .collect();
    for picture in files("docs", "svg") {
        assert!(shown.contains(&picture), "no page shows {}", picture.display());
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines, at most {README_LINES}: move details to the book");
}

/// Width of a line as a reader sees it: without the targets of links.
fn width(line: &str) -> usize {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    first + parts.map(|part| 1 + part.split_once(')').map_or(part, |(_, rest)| rest).chars().count()).sum::<usize>()
}

#[test]
fn prose_is_wrapped() {
    let mut wide = Vec::new();
    for page in pages() {
        for (number, line) in prose(&read(&page)) {
            // Tables, pictures and comments are lines of their own.
            let is_exempt = ["|", "![", "<!--", "#"].iter().any(|start| line.trim_start().starts_with(start));
            if !is_exempt && width(line) > WIDTH {
                wide.push(format!("{}:{number}: {} characters", page.display(), width(line)));
            }
        }
    }
    assert!(wide.is_empty(), "wrap at {WIDTH}: {wide:#?}");
}

#[test]
fn every_page_opens_with_its_title_and_a_paragraph() {
    for page in pages().iter().filter(|page| page.file_name().unwrap() != "SUMMARY.md") {
        let text = read(page);
        let mut lines = text.lines();
        let title = lines.next().unwrap_or_default();
        assert!(title.starts_with("# "), "{}: the first line is not a title", page.display());
        assert_eq!(lines.next(), Some(""), "{}", page.display());
        let opening: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        let is_prose = opening.first().is_some_and(|line| line.starts_with(|c: char| c.is_alphanumeric() || c == '`'));
        assert!(is_prose, "{}: the title is followed by {opening:?}, not by a paragraph", page.display());
        if page.starts_with("docs") {
            let sentences = opening.join(" ").matches(['.', ';', ':']).count();
            let stated = "say what the page is for and for whom";
            assert!(sentences >= 2, "{}: {opening:?}: {stated}", page.display());
        }
    }
}

#[test]
fn every_page_with_rust_snippets_is_tested() {
    let crates = files("crates", "rs").into_iter().filter(|path| path.to_str().unwrap().contains("/src/"));
    let sources: String = crates.map(|path| read(&path)).filter(|text| text.contains("doctest")).collect();
    let mut count = 0;
    for page in pages().iter().filter(|page| page.starts_with("docs") || page.as_path() == Path::new("README.md")) {
        if read(page).contains("\n```rust") {
            let name = page.to_str().unwrap();
            assert!(
                sources.contains(&format!("{name}\"")),
                "{name} has Rust snippets; list it in crates/hemiola/src/book.rs"
            );
            count += 1;
        }
    }
    assert!(count > 15, "{count} pages");
}

#[test]
fn the_tutorial_shows_its_programs() {
    let mut count = 0;
    for page in files("docs/tutorial", "md") {
        let text = read(&page);
        for snippet in text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            let shown = files("crates/hemiola-cli/examples", "rs").into_iter().any(|example| {
                let source = read(&example);
                let code = source.lines().skip_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
                code.trim() == snippet.trim()
            });
            assert!(shown, "{}: no example of hemiola-cli is this program\n{snippet}", page.display());
            count += 1;
        }
    }
    assert_eq!(count, 3, "programs in the tutorial");
}

#[test]
fn links_and_widths_are_read() {
    assert_eq!(targets("a [b](c.md#d) and ![e](f.svg), `[g](h)`"), ["c.md#d", "f.svg"]);
    assert_eq!(anchor(" Reading `explain`, twice"), "reading-explain-twice");
    assert_eq!(width("a [b](a/long/target.md) c"), "a [b] c".len());
}
