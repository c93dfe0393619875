//! Tags of HTML, read as browsers do: names in any case, attributes with and without quotes, across lines.

use super::style;

/// A tag.
pub(super) struct HtmlTag<'t> {
    /// Its name, as it is written.
    pub(super) name: &'t str,
    /// True if it ends an element.
    pub(super) is_end: bool,
    /// Place after its `>`.
    pub(super) end: usize,
    /// Place of the URL that it has, and the place after it.
    pub(super) url: Option<(usize, usize)>,
    /// True if it sets a background, or may do so by a style sheet.
    pub(super) sets_background: bool,
    concealment: Concealment,
}

/// Visibility of an element's text by its own tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concealment {
    /// It is shown.
    Visible,
    /// It is white, so that it is shown on a background alone.
    White,
    /// It is not shown.
    Hidden,
}

/// Elements without contents.
const VOID: [&str; 13] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];
/// Elements whose contents have no tags.
const RAW: [&str; 6] = ["script", "style", "textarea", "title", "xmp", "iframe"];
/// Elements that are loaded without a click.
const LOADED: [&str; 7] = ["img", "image", "input", "source", "video", "audio", "picture"];

impl<'t> HtmlTag<'t> {
    fn new(name: &'t str, is_end: bool) -> Self {
        let is_template = name.eq_ignore_ascii_case("template");
        Self {
            name,
            is_end,
            end: 0,
            url: None,
            sets_background: is_one_of(name, &["style", "link"]),
            concealment: if is_template { Concealment::Hidden } else { Concealment::Visible },
        }
    }

    /// Returns whether a browser does not show the text of its element. `has_background` is true if something before it
    /// may have set a background.
    pub(super) fn hides(&self, has_background: bool) -> bool {
        let is_hidden = match self.concealment {
            Concealment::Visible => false,
            Concealment::White => !has_background && !self.sets_background,
            Concealment::Hidden => true,
        };
        is_hidden && !self.is_end && !is_one_of(self.name, &VOID)
    }

    /// Returns whether the contents of its element have no tags.
    pub(super) fn is_raw(&self) -> bool {
        !self.is_end && is_one_of(self.name, &RAW)
    }

    /// Returns whether its URL is loaded without a click.
    pub(super) fn is_loaded(&self) -> bool {
        is_one_of(self.name, &LOADED)
    }

    /// Reads one attribute, whose value is between two places of the text.
    fn attribute(&mut self, text: &str, name: &str, value: (usize, usize)) {
        let (start, end) = value;
        if name.eq_ignore_ascii_case("hidden") {
            self.concealment = Concealment::Hidden;
        } else if name.eq_ignore_ascii_case("style") {
            let found = style::read(&text[start..end]);
            self.sets_background |= found.sets_background;
            if found.hides {
                self.concealment = Concealment::Hidden;
            } else if found.is_white && self.concealment == Concealment::Visible {
                self.concealment = Concealment::White;
            }
        } else if is_one_of(name, &["class", "id", "bgcolor", "background"]) {
            self.sets_background = true;
        } else if is_one_of(name, &["src", "href", "srcset", "poster"]) {
            self.url = Some((start, end));
        } else if name.eq_ignore_ascii_case("color")
            && style::is_white_color(&text[start..end])
            && self.concealment == Concealment::Visible
        {
            self.concealment = Concealment::White;
        }
    }
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Reads the tags of one text, from its start to its end. It remembers what the rest of the text does not have, so that
/// nothing is searched twice.
#[derive(Default, Clone)]
pub(super) struct TagReader {
    /// Quotes, or `>`, that the rest of the text does not have.
    missing: Vec<u8>,
    /// A tag with all its quotes had no end: a quoted value now ends before a `>` at the latest.
    has_short_values: bool,
}

impl TagReader {
    /// Reads the tag at a `<`. `None` if there is none.
    pub(super) fn read<'t>(&mut self, text: &'t str, start: usize) -> Option<HtmlTag<'t>> {
        let bytes = text.as_bytes();
        let is_end = bytes.get(start + 1) == Some(&b'/');
        let name_start = start + 1 + usize::from(is_end);
        if !bytes.get(name_start)?.is_ascii_alphabetic() || self.missing.contains(&b'>') {
            return None;
        }
        let name = bytes[name_start..].iter().take_while(|byte| is_in_name(**byte)).count();
        let name_end = name_start + name;
        if !matches!(bytes.get(name_end)?, b'>' | b'/') && !is_space(bytes[name_end]) {
            return None;
        }
        let mut tag = HtmlTag::new(&text[name_start..name_end], is_end);
        if let Some(end) = self.attributes(text, name_end, &mut tag) {
            tag.end = end;
            return Some(tag);
        }
        // With short values, any `>` would have ended it.
        if self.has_short_values {
            self.missing.push(b'>');
        }
        self.has_short_values = true;
        None
    }

    /// Reads the attributes of a tag. Returns the place after its `>`, if it has one.
    fn attributes(&mut self, text: &str, from: usize, tag: &mut HtmlTag<'_>) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        loop {
            while is_space(*bytes.get(at)?) || bytes[at] == b'/' {
                at += 1;
            }
            if bytes[at] == b'>' {
                return Some(at + 1);
            }
            let name_start = at;
            at += 1;
            while !matches!(*bytes.get(at)?, b'/' | b'>' | b'=') && !is_space(bytes[at]) {
                at += 1;
            }
            let name = &text[name_start..at];
            let mut value = (at, at);
            let mut after = at;
            while is_space(*bytes.get(after)?) {
                after += 1;
            }
            if bytes[after] == b'=' {
                after += 1;
                while is_space(*bytes.get(after)?) {
                    after += 1;
                }
                (value, at) = self.value(bytes, after);
            }
            tag.attribute(text, name, value);
        }
    }

    /// Reads a value. Returns its start and end, and the place after it.
    fn value(&mut self, bytes: &[u8], start: usize) -> ((usize, usize), usize) {
        let quote = bytes[start];
        if !matches!(quote, b'"' | b'\'') {
            let end = position(bytes, start, |byte| byte == b'>' || is_space(byte));
            return ((start, end), end);
        }
        let inner = start + 1;
        if !self.missing.contains(&quote) {
            let is_short = self.has_short_values;
            let end = position(bytes, inner, |byte| byte == quote || (is_short && byte == b'>'));
            if end < bytes.len() {
                return ((inner, end), end + usize::from(bytes[end] == quote));
            }
            self.missing.push(quote);
        }
        let end = position(bytes, inner, |byte| byte == b'>' || is_space(byte));
        ((inner, end), end)
    }
}

/// Returns the place of the first byte of a class, or the end.
fn position(bytes: &[u8], from: usize, is_in: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| is_in(*byte)).map_or(bytes.len(), |found| from + found)
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_elements_are_known_by_their_tags() {
        for tag in [
            "<div hidden>",
            "<DIV\nclass=a Hidden = 'until-found' >",
            "<p style=\"display:none\">",
            "<span style='font-size:0'/>",
            "<x-y hidden>",
            "<template>",
            "<b title='>' hidden>",
            "<b title=\"a hidden>",
            "<font color=white>",
            "<p style=color:#fff>",
        ] {
            let read = TagReader::default().read(tag, 0).expect(tag);
            assert!(read.hides(false), "{tag}");
            assert_eq!(read.end, tag.len(), "{tag}");
        }
        for tag in [
            "<div>",
            "<div class=hidden>",
            "<input hidden>",
            "</div hidden>",
            "<a title='hidden style=display:none'>",
            "<p class=light style='color:white'>",
            "<b style='color:white;background:navy'>",
        ] {
            assert!(!TagReader::default().read(tag, 0).expect(tag).hides(false), "{tag}");
        }
        let white = TagReader::default().read("<b style='color:white'>", 0).expect("a tag");
        assert!(!white.hides(true));
    }

    #[test]
    fn what_is_no_tag_is_none() {
        for text in ["<", "< div>", "<1>", "<a;b>", "<é>", "<a", "<a b", "</", "<a b=", "<a b='"] {
            assert!(TagReader::default().read(text, 0).is_none(), "{text}");
        }
    }

    #[test]
    fn a_tag_without_an_end_does_not_hide_later_ones() {
        // Its quotes have an end, and no `>` is after that.
        let text = "<a b='<u title=\"a b\" hidden>x</u>'";
        let mut reader = TagReader::default();
        assert!(reader.read(text, 0).is_none());
        let second = reader.read(text, "<a b='".len()).expect("a tag");
        assert!(second.hides(false));
        assert_eq!(&text[second.end..], "x</u>'");
    }
}
