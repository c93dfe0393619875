//! Addresses relative to others.

use super::{UrlParts, split};

/// Schemes whose addresses may be relative. Sorted.
const RELATIVE: &[&str] = &[
    "", "file", "ftp", "gopher", "http", "https", "imap", "mms", "nntp", "prospero", "rtsp",
    "rtsps", "rtspu", "sftp", "shttp", "svn", "svn+ssh", "wais", "ws", "wss",
];

/// Returns the address to which `url` leads on the page at `base`, as Python's `urljoin`.
pub(super) fn join(base: &str, url: &str) -> String {
    if base.is_empty() || url.is_empty() {
        return format!("{base}{url}");
    }
    let from = split(base);
    let mut to = split(url);
    if to.scheme.is_empty() {
        to.scheme.clone_from(&from.scheme);
    }
    if to.scheme != from.scheme || RELATIVE.binary_search(&&*to.scheme).is_err() {
        return url.to_owned();
    }
    if !to.netloc.is_empty() {
        return unsplit(&to, to.path);
    }
    to.netloc = from.netloc;
    if to.path.is_empty() && to.params.is_empty() {
        to.params = from.params;
        if to.query.is_empty() {
            to.query = from.query;
        }
        return unsplit(&to, from.path);
    }
    let path = resolve(from.path, to.path);
    unsplit(&to, if path.is_empty() { "/" } else { &path })
}

/// Returns `path` as seen from `base`, without `.` and `..`.
fn resolve(base: &str, path: &str) -> String {
    let mut all: Vec<&str> = path.split('/').collect();
    if !path.starts_with('/') {
        let mut before: Vec<&str> = base.split('/').collect();
        // The last part names the page itself.
        before.pop_if(|last| !last.is_empty());
        before.append(&mut all);
        let last = before.len().saturating_sub(1);
        let inner = before.iter().enumerate();
        let kept = inner.filter(|(at, part)| *at == 0 || *at == last || !part.is_empty());
        all = kept.map(|(_, part)| *part).collect();
    }
    let mut resolved = Vec::new();
    for part in &all {
        match *part {
            ".." => drop(resolved.pop()),
            "." => (),
            part => resolved.push(part),
        }
    }
    if matches!(all.last(), Some(&("." | ".."))) {
        resolved.push("");
    }
    resolved.join("/")
}

/// Returns the address of which these are the parts, with this path.
fn unsplit(parts: &UrlParts<'_>, path: &str) -> String {
    let mut out = String::new();
    if !parts.scheme.is_empty() {
        out.extend([&*parts.scheme, ":"]);
    }
    if !parts.netloc.is_empty() {
        let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
        out.extend(["//", parts.netloc, slash]);
    } else if path.starts_with("//") {
        out.push_str("//");
    }
    out.push_str(path);
    for (mark, part) in [(";", parts.params), ("?", parts.query), ("#", parts.fragment)] {
        if !part.is_empty() {
            out.extend([mark, part]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::join;

    /// Results of `CPython`.
    const JOINED: &[(&str, &str, &str)] = &[
        ("https://a.com/b/c/d?q=1#f", "e", "https://a.com/b/c/e"),
        ("https://a.com/b/c/d?q=1#f", "/e/f", "https://a.com/e/f"),
        ("https://a.com/b/c/d?q=1#f", "../e", "https://a.com/b/e"),
        ("https://a.com/b/c/d?q=1#f", "../../../../e", "https://a.com/e"),
        ("https://a.com/b/c/d?q=1#f", "./", "https://a.com/b/c/"),
        ("https://a.com/b/c/d?q=1#f", "..", "https://a.com/b/"),
        ("https://a.com/b/c/d?q=1#f", "?p=2", "https://a.com/b/c/d?p=2"),
        ("https://a.com/b/c/d?q=1#f", "#top", "https://a.com/b/c/d?q=1#top"),
        ("https://a.com/b/c/d?q=1#f", "//h.com/z", "https://h.com/z"),
        ("https://a.com/b/c/d?q=1#f", "http://z/y", "http://z/y"),
        ("https://a.com/b/c/d?q=1#f", "", "https://a.com/b/c/d?q=1#f"),
        ("https://a.com/b/c/d?q=1#f", "e;p?x#y", "https://a.com/b/c/e;p?x#y"),
        ("https://a.com/b/c/d?q=1#f", "a//b/./c", "https://a.com/b/c/a/b/c"),
        ("https://a.com/b/c/d?q=1#f", "mailto:x@y", "mailto:x@y"),
        ("https://a.com/b/c/d?q=1#f", "g/../h", "https://a.com/b/c/h"),
        ("https://a.com/b/c/d?q=1#f", ";p", "https://a.com/b/c/;p"),
        ("https://a.com", "e", "https://a.com/e"),
        ("https://a.com", "/e/f", "https://a.com/e/f"),
        ("https://a.com", "../e", "https://a.com/e"),
        ("https://a.com", "../../../../e", "https://a.com/e"),
        ("https://a.com", "./", "https://a.com/"),
        ("https://a.com", "..", "https://a.com/"),
        ("https://a.com", "?p=2", "https://a.com?p=2"),
        ("https://a.com", "#top", "https://a.com#top"),
        ("http://a.com/b/", "e", "http://a.com/b/e"),
        ("http://a.com/b/", "/e/f", "http://a.com/e/f"),
        ("http://a.com/b/", "../e", "http://a.com/e"),
        ("http://a.com/b/", "../../../../e", "http://a.com/e"),
        ("http://a.com/b/", "./", "http://a.com/b/"),
        ("http://a.com/b/", "..", "http://a.com/"),
        ("http://a.com/b/", "?p=2", "http://a.com/b/?p=2"),
        ("http://a.com/b/", "#top", "http://a.com/b/#top"),
        ("/x/y", "e", "/x/e"),
        ("/x/y", "/e/f", "/e/f"),
        ("/x/y", "../e", "/e"),
        ("/x/y", "../../../../e", "e"),
        ("/x/y", "./", "/x/"),
        ("/x/y", "..", "/"),
        ("/x/y", "?p=2", "/x/y?p=2"),
        ("/x/y", "#top", "/x/y#top"),
        ("x/y", "e", "x/e"),
        ("x/y", "/e/f", "/e/f"),
        ("x/y", "../e", "e"),
        ("x/y", "../../../../e", "e"),
        ("x/y", "./", "x/"),
        ("x/y", "..", "/"),
        ("x/y", "?p=2", "x/y?p=2"),
        ("x/y", "#top", "x/y#top"),
        ("", "e", "e"),
        ("", "", ""),
        ("", "/e", "/e"),
        ("mailto:a@b.c", "e", "e"),
        ("mailto:a@b.c", "", "mailto:a@b.c"),
        ("mailto:a@b.c", "/e", "/e"),
    ];

    #[test]
    fn addresses_are_joined_as_in_python() {
        for (base, url, joined) in JOINED {
            assert_eq!(join(base, url), *joined, "{base} {url}");
        }
    }
}
