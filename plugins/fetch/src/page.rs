//! Converts the response of a server to text for a model. It does not use the network.

use airlock_guest::Error;
use htmd::{HtmlToMarkdown, options::Options};

/// Elements that are not part of a page's content.
const SKIPPED: [&str; 14] = [
    "script", "style", "noscript", "template", "svg", "canvas", "iframe", "nav", "footer", "aside",
    "form", "button", "select", "dialog",
];

/// Type of a response's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// HTML.
    Html,
    /// Any other text.
    Text,
}

impl PageKind {
    /// Determines the type by the media type, or else by the first bytes. Fails if the content is
    /// not text.
    pub(crate) fn detect(content_type: Option<&str>, body: &[u8]) -> Result<Self, Error> {
        let media = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if matches!(media.as_str(), "text/html" | "application/xhtml+xml") {
            return Ok(Self::Html);
        }
        let is_text = media.starts_with("text/")
            || matches!(
                media.as_str(),
                "application/json"
                    | "application/xml"
                    | "application/javascript"
                    | "application/yaml"
            )
            || media.ends_with("+json")
            || media.ends_with("+xml");
        let head = &body[..body.len().min(1024)];
        match media.as_str() {
            _ if is_text => Ok(Self::Text),
            "" | "application/octet-stream" if !head.contains(&0) => {
                let begins_as_html =
                    head.trim_ascii_start().to_ascii_lowercase().starts_with(b"<!doctype html")
                        || head.trim_ascii_start().to_ascii_lowercase().starts_with(b"<html");
                Ok(if begins_as_html { Self::Html } else { Self::Text })
            }
            "" => Err(Error::invalid_input("the page is not text")),
            other => {
                Err(Error::invalid_input(format!("the page is {other}, and only text can be read")))
            }
        }
    }
}

/// Returns the title and the content of an HTML page, as Markdown.
pub(crate) fn readable(html: &str) -> Result<(Option<String>, String), Error> {
    let mut skipped = SKIPPED.to_vec();
    skipped.extend(["head", "title"]);
    let converter =
        HtmlToMarkdown::builder().skip_tags(skipped).options(Options::default()).build();
    let markdown = converter.convert(html);
    let markdown = markdown
        .map_err(|error| Error::unavailable(format!("the page cannot be read as HTML: {error}")))?;
    Ok((title(html), squeeze(&markdown)))
}

/// Returns the text of the first `<title>`, on one line.
fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let text = htmd::convert(html.get(start..end)?).ok()?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// Reduces text to at most one empty line in a row, without blanks at the ends of lines.
fn squeeze(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim().to_owned()
}

/// Returns at most `max_length` characters of a text from an offset, the length of the whole text,
/// and the offset of the rest; the last is `None` at the end.
pub(crate) fn piece(
    text: &str,
    offset: usize,
    max_length: usize,
) -> Result<(&str, usize, Option<usize>), Error> {
    let length = text.chars().count();
    if offset > 0 && offset >= length {
        return Err(Error::invalid_input(format!(
            "`offset` is {offset}, and the page has {length} characters"
        )));
    }
    let end = offset.saturating_add(max_length);
    let piece = &text[place_of(text, offset)..place_of(text, end)];
    Ok((piece, length, (end < length).then_some(end)))
}

/// Returns the byte at which a character begins, by its number; the end of the text if it has fewer.
fn place_of(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_page_becomes_its_content_and_nothing_else() {
        let html = "<!doctype html><html><head><title> A &amp;\n B </title><style>x{}</style></head><body>
            <nav><a href=/>Home</a></nav><h1>Head</h1><p>Some <b>bold</b> text with <a href='https://x.y/z'>a link</a>.</p>
            <script>alert(1)</script><ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2</table>
            <form><input><button>Go</button></form><footer>(c)</footer></body></html>";
        let (title, text) = readable(html).unwrap();
        assert_eq!(title.as_deref(), Some("A & B"));
        assert_snapshot!(text, @r"
        # Head

        Some **bold** text with [a link](https://x.y/z).

        *   one
        *   two

        | a | b |
        | - | - |
        | 1 | 2 |
        ");
    }

    #[test]
    fn only_text_is_accepted_by_media_type_or_content() {
        assert_eq!(PageKind::detect(Some("text/HTML; charset=utf-8"), b""), Ok(PageKind::Html));
        assert_eq!(PageKind::detect(Some("application/ld+json"), b""), Ok(PageKind::Text));
        assert_eq!(PageKind::detect(None, b"\n<!DOCTYPE html><p>"), Ok(PageKind::Html));
        assert_eq!(PageKind::detect(None, b"plain"), Ok(PageKind::Text));
        assert!(PageKind::detect(None, b"\x89PNG\0").is_err());
        assert_eq!(
            PageKind::detect(Some("image/png"), b"").unwrap_err().message(),
            "the page is image/png, and only text can be read"
        );
    }

    #[test]
    fn pieces_are_cut_between_characters_and_add_up_to_the_whole() {
        let text = "äöüß";
        assert_eq!(piece(text, 0, 3).unwrap(), ("äöü", 4, Some(3)));
        assert_eq!(piece(text, 3, 3).unwrap(), ("ß", 4, None));
        assert_eq!(piece("", 0, 3).unwrap(), ("", 0, None));
        assert!(piece(text, 4, 1).is_err());
    }
}
