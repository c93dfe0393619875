//! Marks in HTML and Markdown: comments, elements that are not shown, URLs with data, and forged marks. The text is read
//! once, from its start to its end; of elements that are not shown, the outermost counts.

use std::mem;

use super::{
    forged,
    tag::{HtmlTag, TagReader},
    url,
    words::{is_blank, run},
};
use crate::mark::{FoundMark, MarkKind, MarkSearch, push};

/// Maximum distance between `![` and the `](` of its image, in bytes. One `![` that is left open would else make an image
/// of a link far behind it.
const MAX_ALT: usize = 512;
/// Number of elements without an end, directly after a quote or backtick, that are taken for quotations. The text after
/// each is read again.
const MAX_QUOTED: usize = 2;

/// Finds marks of the kinds `comments`, `hidden_elements`, `data_urls` and `forged_marks`.
pub(super) fn marks(text: &str, search: &MarkSearch) -> Vec<FoundMark> {
    let mut scan = MarkupScan {
        text,
        search,
        found: Vec::new(),
        tags: TagReader::default(),
        tag_end: 0,
        url_end: 0,
        empty_until: 0,
        comments_end: true,
        has_background: false,
        image: None,
        is_label: false,
        quoted: 0,
    };
    scan.scan(0, text.len());
    scan.found
}

struct MarkupScan<'t> {
    text: &'t str,
    search: &'t MarkSearch,
    found: Vec<FoundMark>,
    tags: TagReader,
    /// Place after the last tag: none begins before it.
    tag_end: usize,
    /// Place after the last URL in round brackets.
    url_end: usize,
    /// Place before which hidden elements have no text.
    empty_until: usize,
    /// False if the rest of the text has no end of a comment.
    comments_end: bool,
    /// True if something may have set a background.
    has_background: bool,
    /// Place of the last `![` without a URL.
    image: Option<usize>,
    /// True if a `[` began a line, so that a definition may follow.
    is_label: bool,
    /// Number of [`MAX_QUOTED`].
    quoted: usize,
}

/// The part of a text that an element takes.
struct Extent {
    end: usize,
    is_closed: bool,
    has_text: bool,
}

impl<'t> MarkupScan<'t> {
    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn scan(&mut self, from: usize, to: usize) {
        let bytes = self.bytes();
        let mut at = from;
        while at < to {
            at = match bytes[at] {
                b'<' => self.angle(at),
                b'[' => self.bracket(at),
                b']' => self.after_bracket(at),
                b'#' => self.forged(at, forged::heading),
                _ => at + 1,
            };
        }
    }

    fn push(&mut self, kind: MarkKind, start: usize, end: usize) -> usize {
        push(&mut self.found, kind, start, end);
        end
    }

    /// Looks for a forged mark at a place. Returns the place to read on.
    fn forged(&mut self, at: usize, find: fn(&str, usize) -> Option<usize>) -> usize {
        if !self.search.has(MarkKind::ForgedMarks) {
            return at + 1;
        }
        match find(self.text, at) {
            Some(end) => self.push(MarkKind::ForgedMarks, at, end),
            None => at + 1,
        }
    }

    /// Reads on at a `<`.
    fn angle(&mut self, at: usize) -> usize {
        match self.bytes().get(at + 1) {
            Some(b'!') => self.comment(at),
            Some(b'/' | b'a'..=b'z' | b'A'..=b'Z') if at >= self.tag_end => {
                match self.tags.read(self.text, at) {
                    Some(tag) => self.tag(at, &tag),
                    None => self.forged(at, forged::angle),
                }
            }
            _ => self.forged(at, forged::angle),
        }
    }

    fn comment(&mut self, at: usize) -> usize {
        let body = at + "<!--".len();
        if !self.text[at..].starts_with("<!--") {
            return at + 1;
        }
        if !self.search.has(MarkKind::Comments) {
            return body;
        }
        match self.end_of_comment(at) {
            Some(end) => {
                let inner = self.text.get(body..end.saturating_sub("-->".len()));
                if inner.unwrap_or_default().trim().is_empty() {
                    return end;
                }
                self.push(MarkKind::Comments, at, end)
            }
            None if self.is_quoted(at) => body,
            None => self.push(MarkKind::Comments, at, self.text.len()),
        }
    }

    /// Returns the place after the comment that begins at a place. `None` if it has no end.
    fn end_of_comment(&mut self, at: usize) -> Option<usize> {
        let bytes = self.bytes();
        let body = at + "<!--".len();
        for short in [">", "->"] {
            if bytes[body..].starts_with(short.as_bytes()) {
                return Some(body + short.len());
            }
        }
        if !self.comments_end {
            return None;
        }
        let mut at = body;
        while at + 2 < bytes.len() {
            match &bytes[at..] {
                [b'-', b'-', b'>', ..] => return Some(at + 3),
                [b'-', b'-', b'!', b'>', ..] => return Some(at + 4),
                _ => at += 1,
            }
        }
        self.comments_end = false;
        None
    }

    /// Returns whether a quote or backtick is directly before a place: a text about HTML may quote it.
    fn is_quoted(&self, at: usize) -> bool {
        at > 0 && matches!(self.bytes()[at - 1], b'`' | b'"' | b'\'')
    }

    /// Reads on at a tag.
    fn tag(&mut self, at: usize, tag: &HtmlTag<'t>) -> usize {
        self.tag_end = tag.end;
        if let Some(end) = self.hidden(at, tag) {
            return self.push(MarkKind::HiddenElements, at, end);
        }
        self.has_background |= tag.sets_background;
        if let Some((start, end)) = tag.url
            && self.search.has(MarkKind::DataUrls)
            && url::carries_data(&self.text[start..end], tag.is_loaded(), self.search.hosts())
        {
            self.scan(at + 1, start);
            self.push(MarkKind::DataUrls, start, end);
            let last = self.found.last().map_or(end, |last| last.end);
            return end.max(last);
        }
        self.forged(at, forged::angle)
    }

    /// Returns the place after an element that is not shown and has a text.
    fn hidden(&mut self, at: usize, tag: &HtmlTag<'t>) -> Option<usize> {
        let is_searched = self.search.has(MarkKind::HiddenElements);
        if !is_searched || at < self.empty_until || !tag.hides(self.has_background) {
            return None;
        }
        let tags = self.tags.clone();
        let comments_end = self.comments_end;
        let extent = self.extent(tag);
        let is_quotation = !extent.is_closed && self.quoted < MAX_QUOTED && self.is_quoted(at);
        if extent.has_text && !is_quotation {
            return Some(extent.end);
        }
        if extent.has_text {
            self.quoted += 1;
        } else {
            self.empty_until = extent.end;
        }
        // The part is read again, and what comes after a later place is not known at its start.
        self.tags = tags;
        self.comments_end = comments_end;
        None
    }

    /// Returns the part of the text that an element takes: to its own end tag, or to the end of the text. A paragraph
    /// also ends where the next one begins.
    fn extent(&mut self, tag: &HtmlTag<'t>) -> Extent {
        let bytes = self.bytes();
        let mut depth = 1;
        let mut at = if tag.is_raw() { self.end_of_raw(tag) } else { tag.end };
        let mut has_text = bytes[tag.end..at].iter().any(|byte| !byte.is_ascii_whitespace());
        while at < bytes.len() {
            if bytes[at] != b'<' {
                has_text |= !bytes[at].is_ascii_whitespace();
                at += 1;
            } else if bytes[at..].starts_with(b"<!--") {
                at = self.end_of_comment(at).unwrap_or(bytes.len());
            } else if let Some(inner) = self.tags.read(self.text, at) {
                let is_same = inner.name.eq_ignore_ascii_case(tag.name);
                if is_same && !inner.is_end && tag.name.eq_ignore_ascii_case("p") {
                    return Extent { end: at, is_closed: true, has_text };
                }
                if is_same {
                    depth = if inner.is_end { depth - 1 } else { depth + 1 };
                }
                if depth == 0 {
                    return Extent { end: inner.end, is_closed: true, has_text };
                }
                at = if inner.is_raw() { self.end_of_raw(&inner) } else { inner.end };
            } else {
                has_text = true;
                at += 1;
            }
        }
        Extent { end: at, is_closed: false, has_text }
    }

    /// Returns the place of the end tag of an element whose contents have no tags, or the end of the text.
    fn end_of_raw(&self, tag: &HtmlTag<'t>) -> usize {
        let bytes = self.bytes();
        let mut at = tag.end;
        while at < bytes.len() {
            if bytes[at] == b'<' && bytes.get(at + 1) == Some(&b'/') {
                let name = bytes.get(at + 2..at + 2 + tag.name.len());
                if name.is_some_and(|name| name.eq_ignore_ascii_case(tag.name.as_bytes())) {
                    return at;
                }
            }
            at += 1;
        }
        at
    }

    /// Reads on at a `[`.
    fn bracket(&mut self, at: usize) -> usize {
        let before = &self.bytes()[..at];
        match before.last() {
            Some(b'!') => self.image = Some(at),
            None | Some(b' ' | b'\n') if starts_line(before) => self.is_label = true,
            _ => {}
        }
        self.forged(at, forged::bracket)
    }

    /// Reads on at a `]`: the URL of a link or an image, or a comment of Markdown.
    fn after_bracket(&mut self, at: usize) -> usize {
        let is_label = mem::take(&mut self.is_label);
        match self.bytes().get(at + 1) {
            Some(b'(') if at >= self.url_end => {
                let image = self.image.take();
                let is_image = image.is_some_and(|image| at - image <= MAX_ALT);
                self.destination(at, is_image)
            }
            Some(b':') if at >= self.url_end && is_label => {
                self.markdown_comment(at).unwrap_or_else(|| self.destination(at, false))
            }
            _ => at + 1,
        }
    }

    /// Reads the URL after `](` or `]:`. Returns the place to read on.
    fn destination(&mut self, at: usize, is_image: bool) -> usize {
        if !self.search.has(MarkKind::DataUrls) {
            return at + 1;
        }
        let bytes = self.bytes();
        let start = run(bytes, at + 2, is_blank);
        let start = start + usize::from(bytes.get(start) == Some(&b'<'));
        let end = run(bytes, start, |byte| {
            !byte.is_ascii_whitespace() && !matches!(byte, b')' | b'>' | b'"')
        });
        self.url_end = end;
        let url = &self.text[start..end];
        if url::carries_data(url, is_image, self.search.hosts()) {
            return self.push(MarkKind::DataUrls, start, end);
        }
        at + 1
    }

    /// Reads a definition of a link that no page shows: `[…]: # (text)`. Returns the place after its text.
    fn markdown_comment(&mut self, at: usize) -> Option<usize> {
        let bytes = self.bytes();
        let start = run(bytes, at + 2, is_blank);
        let target = ["#", "<#>", "<>"]
            .iter()
            .find(|target| bytes[start..].starts_with(target.as_bytes()))?;
        let title = run(bytes, start + target.len(), is_blank);
        let is_title = matches!(bytes.get(title)?, b'(' | b'"' | b'\'');
        if !is_title || title == start + target.len() || !self.search.has(MarkKind::Comments) {
            return None;
        }
        let end = run(bytes, title, |byte| byte != b'\n');
        Some(self.push(MarkKind::Comments, title, end))
    }
}

/// Returns whether a line starts after a text, but for up to three blanks.
fn starts_line(before: &[u8]) -> bool {
    let last = before.iter().rev().take(4).find(|byte| **byte != b' ');
    last.is_none_or(|byte| *byte == b'\n')
}
