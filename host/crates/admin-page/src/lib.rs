//! The files of the admin page, embedded in the program.
//!
//! Each page is a static shell, whose module `assets/NAME.js` renders the API of the gateway: `shell.html`, filled with
//! the line of the page in `pages.json`. There is no build step; `build.rs` lists the files. Scripts and styles are served
//! without their lines of comments. `assets/vendor` is made by the script `vendor`, and `vendor.lock` has the digests of its
//! files. This crate knows nothing of HTTP but the types of contents.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _, sync::LazyLock};

use airlock_strings::hex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The files with their paths below `assets`.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The files by path.
static ASSETS: LazyLock<BTreeMap<&str, Asset>> = LazyLock::new(|| {
    FILES.iter().map(|(path, bytes)| (*path, Asset::new(path, content(path, bytes)))).collect()
});

/// The frame of every page but that of the login.
const SHELL: &str = include_str!("../shell.html");
/// The pages in the order of their links, as an array of [`PageLine`].
const PAGES: &str = include_str!("../pages.json");

/// The pages by name.
static SHELLS: LazyLock<BTreeMap<String, Asset>> = LazyLock::new(shells);

/// A page: the name of its path and module, its title, its style sheet, and the sentence below the title.
#[derive(Deserialize)]
struct PageLine {
    name: String,
    title: String,
    style: String,
    lead: String,
}

/// Name of the page to which `/admin` leads.
pub const FIRST_PAGE: &str = "approvals";

/// A file of the admin page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// Value of the header `ETag`: a digest of the content.
    pub etag: String,
}

impl Asset {
    fn new(path: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        let bytes = bytes.into();
        let etag = format!("\"{}\"", &hex(&Sha256::digest(&bytes))[..32]);
        Self { bytes, content_type: content_type(path), etag }
    }
}

/// Returns the file at a path below `assets`, such as `lib/api.js`; `None` if there is none.
pub fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.get(path)
}

/// Returns the page with a name, such as `approvals`; `None` if there is none.
pub fn page(name: &str) -> Option<&'static Asset> {
    if name == "login" { asset("login.html") } else { SHELLS.get(name) }
}

/// Returns the content of a file as it is served.
fn content(path: &str, bytes: &'static [u8]) -> Cow<'static, [u8]> {
    let is_text = matches!(path.rsplit_once('.'), Some((_, "js" | "css")));
    if !is_text || path.starts_with("vendor/") {
        return Cow::Borrowed(bytes);
    }
    let text = str::from_utf8(bytes).expect("a test reads it");
    Cow::Owned(without_comments(text).into_bytes())
}

/// Returns a script or a style sheet whose lines of comments are empty: a browser loads them for nothing. The other
/// lines keep their numbers.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_block = false;
    for line in text.lines() {
        let own = line.trim();
        is_block |= own.starts_with("/*");
        if !is_block && !own.starts_with("//") {
            kept.push_str(line);
        }
        is_block &= !own.ends_with("*/");
        kept.push('\n');
    }
    kept
}

fn shells() -> BTreeMap<String, Asset> {
    let pages: Vec<PageLine> = serde_json::from_str(PAGES).expect("a test reads it");
    pages.iter().map(|page| (page.name.clone(), shell(page, &pages))).collect()
}

/// Returns the shell of a page, with links to all pages.
fn shell(page: &PageLine, pages: &[PageLine]) -> Asset {
    let mut links = String::new();
    for PageLine { name, title, .. } in pages {
        let current = if *name == page.name { " aria-current=\"page\"" } else { "" };
        writeln!(links, "        <li><a href=\"/admin/{name}\"{current}>{title}</a></li>")
            .expect("a text takes whatever is written");
    }
    let text = SHELL
        .replace("{nav}", &links)
        .replace("{name}", &page.name)
        .replace("{title}", &page.title)
        .replace("{style}", &page.style)
        .replace("{lead}", &page.lead);
    Asset::new("shell.html", text.into_bytes())
}

/// Returns the type of a file by the end of its name. One that is not known is not run and not shown.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of `sha256sum`.
    const LOCK: &str = include_str!("../vendor.lock");

    #[test]
    fn the_vendored_files_are_those_of_the_lock_and_no_others() {
        let vendored = FILES.iter().filter_map(|(path, bytes)| {
            let digest = hex(&Sha256::digest(bytes));
            Some(format!("{digest}  {}", path.strip_prefix("vendor/")?))
        });
        assert_eq!(vendored.collect::<Vec<_>>(), LOCK.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_vendored_module_imports_nothing_by_a_bare_name() {
        for (path, bytes) in FILES.iter().filter(|(path, _)| path.rsplit('.').next() == Some("mjs"))
        {
            let text = str::from_utf8(bytes).expect("text");
            for rest in text.split("from\"").skip(1) {
                assert!(rest.starts_with("./"), "{path}: {}", &rest[..rest.len().min(20)]);
            }
        }
    }

    #[test]
    fn a_file_is_found_by_its_whole_path_with_its_type_and_digest() {
        let found = asset("vendor/preact.mjs").expect("it is embedded");
        assert_eq!(found.content_type, "text/javascript; charset=utf-8");
        assert_eq!(found.etag.len(), 34);
        for path in ["", "vendor", "vendor/", "/vendor/preact.mjs", "vendor/../vendor/preact.mjs"] {
            assert_eq!(asset(path), None, "{path}");
        }
    }

    #[test]
    fn lines_of_comments_are_empty_and_all_others_stay() {
        let text = "// a\nimport b;\n\n/**\n * c\n */\nf('//'); // d\n  /** e */\n* { g: h }\n";
        let kept = "\nimport b;\n\n\n\n\nf('//'); // d\n\n* { g: h }\n";
        assert_eq!(without_comments(text), kept);
        for (path, asset) in &*ASSETS {
            let Some((_, "js" | "css")) = path.rsplit_once('.') else { continue };
            let text = str::from_utf8(&asset.bytes).expect("text");
            let comments = text.lines().filter(|line| line.trim_start().starts_with("/*"));
            assert_eq!(comments.count(), 0, "{path}: a comment goes on with code behind it");
            assert!(text.len() > 40, "{path}: a comment has no end");
        }
    }

    #[test]
    fn each_page_has_its_module_and_style_and_links_to_all() {
        assert!(SHELLS.len() > 10 && SHELLS.contains_key(FIRST_PAGE));
        for (name, page) in &*SHELLS {
            let text = str::from_utf8(&page.bytes).expect("text");
            assert!(!text.contains(['{', '}']), "{name}: {text}");
            assert_eq!(text.matches("aria-current").count(), 1, "{name}");
            for other in SHELLS.keys() {
                assert!(text.contains(&format!("\"/admin/{other}\"")), "{name}");
            }
            let linked = text.split('"').filter_map(|part| part.strip_prefix("/admin/assets/"));
            for path in linked {
                assert!(asset(path).is_some(), "{name}: {path}");
            }
        }
        assert!(page("login").is_some());
        assert_eq!(page("../lib/api.js"), None);
    }

    #[test]
    fn files_of_an_unknown_type_are_opaque() {
        assert_eq!(content_type("a/b.wasm"), "application/octet-stream");
        assert_eq!(content_type("LICENSE"), "application/octet-stream");
    }
}
