//! `search_files`.

use std::fs::{self, DirEntry};
use std::ops::RangeInclusive;
use std::time::Duration;

use airlock_guest::{Context, Error, serde_json, tool, within};
use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Serialize;

use crate::grants::{GrantedDirectories, Location};
use crate::list::{self, FileKind};

/// Limits of `max_hits`.
const HITS: RangeInclusive<usize> = 1..=1_000;

/// Limits of `max_depth`.
const DEPTH: RangeInclusive<usize> = 1..=64;

/// Largest number of entries after which a search examines no further directory. A tree may have millions; a search that
/// uses up its fuel or its time returns nothing, and this one what it has found.
const ENTRIES_MAX: usize = 50_000;

/// Largest file whose content is searched, in bytes: it is read into memory whole.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Directories between two checks of the time. Each check is a host call, and the host limits their
/// number.
const DIRECTORIES_PER_LOOK: usize = 128;

/// Time that is reserved for sending the result.
const TIME_RESERVE: Duration = Duration::from_millis(50);

/// Largest number of characters of a line in a hit. A file such as minified code has megabytes on one line.
const LINE_MAX: usize = 300;

/// Bytes of all hits as JSON, beyond which no further hit is reported. A result has them twice, as text and as data, and
/// the host's usual limit on it is 1 MiB: 1,000 lines of 300 letters of two bytes would be refused as a whole.
const HIT_BYTES_MAX: usize = 480 * 1024;

/// Results of a search.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Found {
    /// Hits in the order of their paths.
    pub hits: Vec<Hit>,
    /// Whether the search stopped early, at a bound or because time was up. Narrow it down to see
    /// the rest.
    pub truncated: bool,
    /// Files whose content could not be searched: larger than 4 MiB, not UTF-8 text, or not to be
    /// read.
    pub skipped: usize,
    /// Bytes of the hits as JSON.
    #[serde(skip)]
    bytes: usize,
}

/// One hit: a file or directory, or a line in a file where content was searched for.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hit {
    /// Path of the file or directory.
    pub path: String,
    /// Number of the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The line, cut after 300 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

fn default_max_depth() -> usize {
    16
}

fn default_max_hits() -> usize {
    100
}

/// Searches a directory and all below it for files by name, by content or by both. Give `name`,
/// `content` or both; with `content`, each line that matches is a hit. Symbolic links are not
/// followed.
#[tool(read_only, idempotent, destructive = false, open_world = false, title = "Search files")]
pub fn search_files(
    /// The directory to start in, beginning with the name of a granted one. Empty for all that are
    /// granted.
    #[serde(default)]
    path: String,
    /// Glob for the name, `*.md` for one. With a `/` in it, it is for the path below the start:
    /// `src/**/*.rs`.
    name: Option<String>,
    /// Text that a line must contain.
    content: Option<String>,
    /// Read `content` as a regular expression, in the syntax of Rust's `regex` crate.
    #[serde(default)]
    regex: bool,
    /// Match letters of `name` and `content` in either case.
    #[serde(default)]
    ignore_case: bool,
    /// Number of levels of directories to enter; 1 is the start alone.
    #[serde(default = "default_max_depth")]
    #[schemars(range(min = 1, max = 64))]
    max_depth: usize,
    /// Report at most this many hits.
    #[serde(default = "default_max_hits")]
    #[schemars(range(min = 1, max = 1000))]
    max_hits: usize,
    call: &Context,
) -> Result<Found, Error> {
    if name.is_none() && content.is_none() {
        return Err(Error::invalid_input(
            "give `name`, `content` or both; use `list_directory` to see everything",
        ));
    }
    let name = name.map(|name| glob(&name, ignore_case)).transpose()?;
    let content = content.map(|content| pattern(&content, regex, ignore_case)).transpose()?;
    let max_depth = within("max_depth", max_depth, &DEPTH)?;
    let max_hits = within("max_hits", max_hits, &HITS)?;
    let search = Search { name, content, max_depth, max_hits, call };
    search.run(&GrantedDirectories::of_host(), &path)
}

/// A glob. `is_for_paths` is true if it applies to whole paths.
struct Name {
    glob: GlobMatcher,
    is_for_paths: bool,
}

fn glob(glob: &str, ignore_case: bool) -> Result<Name, Error> {
    let is_for_paths = glob.contains('/');
    let built = GlobBuilder::new(glob.trim_start_matches('/'))
        .literal_separator(true)
        .case_insensitive(ignore_case)
        .build();
    match built {
        Ok(glob) => Ok(Name { glob: glob.compile_matcher(), is_for_paths }),
        Err(error) => Err(Error::invalid_input(format!("`name` is not a glob: {error}"))),
    }
}

fn pattern(content: &str, regex: bool, ignore_case: bool) -> Result<Regex, Error> {
    let pattern = if regex { content.to_owned() } else { regex::escape(content) };
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(ignore_case)
        .size_limit(2 * 1024 * 1024)
        .build();
    built.map_err(|error| {
        Error::invalid_input(format!("`content` is not a regular expression: {error}"))
    })
}

struct Search<'c> {
    name: Option<Name>,
    content: Option<Regex>,
    max_depth: usize,
    max_hits: usize,
    call: &'c Context<'c>,
}

/// A directory that is still to be searched.
struct Ahead {
    place: Location,
    /// Path of the directory below the start, empty or ending in `/`.
    below: String,
    depth: usize,
}

/// The search has reached the limit on hits.
struct Full;

impl Search<'_> {
    fn run(&self, grants: &GrantedDirectories, path: &str) -> Result<Found, Error> {
        let mut ahead = starts(grants, path)?;
        let mut found = Found::default();
        let mut directories = 0;
        let mut looked_at = 0;
        while let Some(directory) = ahead.pop() {
            let entries = match list::entries(&directory.place) {
                Ok((entries, more)) => {
                    found.truncated |= more;
                    entries
                }
                Err(error) if directories == 0 => return Err(error),
                Err(_) => continue, // an unreadable or removed directory does not end the search
            };
            directories += 1;
            looked_at += entries.len();
            let searched = self.search(&directory, &entries, &mut found, &mut ahead);
            let late = directories % DIRECTORIES_PER_LOOK == 0 && self.is_late();
            if searched.is_err() || looked_at > ENTRIES_MAX || late {
                found.truncated = true;
                break;
            }
        }
        found.hits.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        Ok(found)
    }

    fn search(
        &self,
        directory: &Ahead,
        entries: &[DirEntry],
        found: &mut Found,
        ahead: &mut Vec<Ahead>,
    ) -> Result<(), Full> {
        let mut below = Vec::new();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_or(FileKind::Other, FileKind::from);
            let place = Location {
                shown: format!("{}/{name}", directory.place.shown),
                path: directory.place.path.join(entry.file_name()),
            };
            let path_below = format!("{}{name}", directory.below);
            if self.name.as_ref().is_none_or(|glob| glob.matches(&name, &path_below)) {
                self.hit(entry, kind, &place, found)?;
            }
            if kind == FileKind::Directory && directory.depth < self.max_depth {
                below.push(Ahead { place, below: path_below + "/", depth: directory.depth + 1 });
            }
        }
        ahead.extend(below.into_iter().rev()); // the last one is searched first
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.call.remaining().is_some_and(|left| left < TIME_RESERVE)
    }

    fn hit(
        &self,
        entry: &DirEntry,
        kind: FileKind,
        place: &Location,
        found: &mut Found,
    ) -> Result<(), Full> {
        let Some(content) = &self.content else {
            return self.push(found, Hit { path: place.shown.clone(), line: None, text: None });
        };
        if kind != FileKind::File {
            return Ok(());
        }
        let Some(text) = text(entry, place) else {
            found.skipped += 1;
            return Ok(());
        };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| content.is_match(line)) {
            let text = Some(line.chars().take(LINE_MAX).collect());
            self.push(found, Hit { path: place.shown.clone(), line: Some(index + 1), text })?;
        }
        Ok(())
    }

    fn push(&self, found: &mut Found, hit: Hit) -> Result<(), Full> {
        let json = serde_json::to_string(&hit).expect("texts and numbers can be written as JSON");
        let bytes = found.bytes + json.len();
        if found.hits.len() == self.max_hits || bytes > HIT_BYTES_MAX {
            return Err(Full);
        }
        found.bytes = bytes;
        found.hits.push(hit);
        Ok(())
    }
}

impl Name {
    fn matches(&self, name: &str, path: &str) -> bool {
        self.glob.is_match(if self.is_for_paths { path } else { name })
    }
}

/// Returns the directories to start in; the last is searched first.
fn starts(grants: &GrantedDirectories, path: &str) -> Result<Vec<Ahead>, Error> {
    if let Some(place) = grants.resolve(path)? {
        return Ok(vec![Ahead { place, below: String::new(), depth: 1 }]);
    }
    let grants = grants.names()?.iter().rev().map(|name| {
        let place = grants.resolve_file(name)?;
        Ok(Ahead { place, below: format!("{name}/"), depth: 1 })
    });
    grants.collect()
}

/// Returns the content of a file; `None` if it cannot be searched.
fn text(entry: &DirEntry, place: &Location) -> Option<String> {
    let size = entry.metadata().ok()?.len();
    if size > FILE_BYTES_MAX {
        return None;
    }
    fs::read_to_string(&place.path).ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use airlock_guest::testing::Host;

    use super::*;

    fn directory() -> (TempDir, GrantedDirectories) {
        let base = TempDir::new().unwrap();
        fs::create_dir_all(base.path().join("docs/src/deep")).unwrap();
        fs::create_dir(base.path().join("archive")).unwrap();
        for (path, content) in [
            ("docs/a.md", &b"One\ntwo (2)\none"[..]),
            ("docs/src/b.rs", b"fn one() {}\n"),
            ("docs/src/deep/c.rs", b""),
            ("docs/d.png", b"\x89PNG"),
            ("archive/a.md", b"old"),
        ] {
            fs::write(base.path().join(path), content).unwrap();
        }
        let grants = GrantedDirectories::below(base.path());
        (base, grants)
    }

    fn searching<'c>(
        name: Option<&str>,
        content: Option<&str>,
        call: &'c Context<'c>,
    ) -> Search<'c> {
        Search {
            name: name.map(|name| glob(name, false).unwrap()),
            content: content.map(|content| pattern(content, false, false).unwrap()),
            max_depth: 16,
            max_hits: 100,
            call,
        }
    }

    fn found(path: &str, name: Option<&str>, content: Option<&str>) -> Vec<String> {
        let (_base, grants) = directory();
        let found = searching(name, content, &Host::new().context()).run(&grants, path).unwrap();
        found.hits.into_iter().map(shown).collect()
    }

    fn shown(hit: Hit) -> String {
        match hit.line {
            Some(line) => format!("{}:{line}", hit.path),
            None => hit.path,
        }
    }

    #[test]
    fn files_are_found_by_name_in_the_order_of_their_paths() {
        assert_eq!(found("", Some("*.md"), None), ["archive/a.md", "docs/a.md"]);
        assert_eq!(found("docs", Some("*.rs"), None), ["docs/src/b.rs", "docs/src/deep/c.rs"]);
        assert_eq!(found("docs", Some("s*"), None), ["docs/src"]);
    }

    #[test]
    fn a_glob_with_a_slash_is_for_the_path_below_the_start() {
        assert_eq!(found("docs", Some("src/*.rs"), None), ["docs/src/b.rs"]);
        assert_eq!(
            found("docs", Some("src/**/*.rs"), None),
            ["docs/src/b.rs", "docs/src/deep/c.rs"]
        );
        assert_eq!(found("/", Some("docs/*.md"), None), ["docs/a.md"]);
    }

    #[test]
    fn lines_are_found_by_content() {
        assert_eq!(found("docs", None, Some("one")), ["docs/a.md:3", "docs/src/b.rs:1"]);
        assert_eq!(found("docs", Some("*.md"), Some("one")), ["docs/a.md:3"]);
        assert_eq!(found("docs", None, Some("(2)")), ["docs/a.md:2"]);
    }

    #[test]
    fn content_can_be_a_regular_expression_in_either_case() {
        let (_base, grants) = directory();
        let host = Host::new();
        let call = host.context();
        let mut search = searching(None, None, &call);
        search.content = Some(pattern("^ONE$", true, true).unwrap());
        assert_eq!(search.run(&grants, "docs").unwrap().hits.len(), 2);
    }

    #[test]
    fn files_that_are_no_text_are_skipped_and_counted() {
        let (_base, grants) = directory();
        let found =
            searching(None, Some("PNG"), &Host::new().context()).run(&grants, "docs").unwrap();
        assert_eq!((found.hits.len(), found.skipped, found.truncated), (0, 1, false));
    }

    #[test]
    fn the_limits_on_hits_and_depth_are_enforced() {
        let (_base, grants) = directory();
        let host = Host::new();
        let call = host.context();
        let hits = |max_hits, max_depth| {
            let search = Search { max_depth, max_hits, ..searching(Some("*.rs"), None, &call) };
            let found = search.run(&grants, "docs").unwrap();
            (found.hits.len(), found.truncated)
        };
        assert_eq!(hits(2, 16), (2, false));
        assert_eq!(hits(1, 16), (1, true));
        assert_eq!(hits(2, 2), (1, false));
        assert_eq!(hits(2, 1), (0, false));
    }

    #[test]
    fn the_limit_on_the_bytes_of_hits_is_enforced_and_reported() {
        let (base, grants) = directory();
        let host = Host::new();
        let call = host.context();
        for (letter, is_truncated) in [("x", false), ("ü", true), ("\"", true), ("\u{1}", true)] {
            let line = letter.repeat(LINE_MAX) + "\n";
            fs::write(base.path().join("docs/long.txt"), line.repeat(1_000)).unwrap();
            let search = Search { max_hits: 1_000, ..searching(None, Some(letter), &call) };
            let found = search.run(&grants, "docs").unwrap();
            let json = serde_json::to_string(&found).unwrap();
            assert_eq!(found.truncated, is_truncated, "{letter:?}");
            assert!(2 * json.len() < 1 << 20, "{letter:?}: {}", json.len());
        }
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_not_followed() {
        let (base, grants) = directory();
        std::os::unix::fs::symlink(base.path().join("archive"), base.path().join("docs/link"))
            .unwrap();
        std::os::unix::fs::symlink(
            base.path().join("archive/a.md"),
            base.path().join("docs/link.md"),
        )
        .unwrap();
        let found =
            searching(None, Some("old"), &Host::new().context()).run(&grants, "docs").unwrap();
        assert_eq!(found.hits, []);
    }

    #[test]
    fn a_path_or_glob_that_cannot_be_searched_is_refused() {
        let (_base, grants) = directory();
        let host = Host::new();
        let call = host.context();
        let none = searching(None, Some("x"), &call).run(&grants, "docs/none").unwrap_err();
        insta::assert_snapshot!(none, @"`docs/none` does not exist");
        let file = searching(None, Some("x"), &call).run(&grants, "docs/a.md").unwrap_err();
        insta::assert_snapshot!(file, @"`docs/a.md`, or something on the way to it, is not a directory");
        insta::assert_snapshot!(glob("a{", false).map(|_| ()).unwrap_err(), @"`name` is not a glob: error parsing glob 'a{': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)");
        let neither =
            search_files(String::new(), None, None, false, false, 1, 1, &Host::new().context());
        insta::assert_snapshot!(neither.unwrap_err(), @"give `name`, `content` or both; use `list_directory` to see everything");
    }
}
