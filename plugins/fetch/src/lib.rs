//! Fetches web pages as readable Markdown. The operator grants the destinations and the host
//! enforces them; this plugin converts the responses to a form that a model can use.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod page;

use airlock_guest::{Content, Error, Structured, http::Request, plugin, tool, within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters in one result if the caller sets no limit.
const LENGTH_DEFAULT: usize = 20_000;
/// Largest number of characters in one result.
const LENGTH_MAX: usize = 100_000;

/// Format of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// HTML as Markdown, everything else as it is.
    #[default]
    Markdown,
    /// As the server sent it.
    Raw,
}

/// A page, or a piece of one.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Page {
    /// URL of the page, after redirects.
    pub url: String,
    /// Status code of the response.
    pub status: u16,
    /// The page's title; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// Characters of the whole page.
    pub length: usize,
    /// Pass this as `offset` to read on; absent at the end of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// Fetches a web page and returns it as Markdown.
///
/// Scripts, styles, navigation and forms are left out. A long page is returned in pieces:
/// `next_offset` in the result is the offset of the next piece. Only text is read; an image or an
/// archive is refused.
#[tool(read_only, idempotent, destructive = false, open_world, title = "Fetch a web page")]
pub fn fetch(
    /// Absolute URL, beginning with `https://` or `http://`.
    url: String,
    /// Format of the page.
    #[serde(default)]
    format: Format,
    /// How many characters to skip, to read on where a piece ended.
    #[serde(default)]
    offset: usize,
    /// Maximum number of characters to return.
    #[schemars(range(min = 1, max = 100_000))]
    max_length: Option<usize>,
) -> Result<Structured<Page>, Error> {
    let max_length = within("max_length", max_length.unwrap_or(LENGTH_DEFAULT), &(1..=LENGTH_MAX))?;
    let response = Request::get(&url)
        .with_header("accept", "text/html, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.5")
        .send()?
        .ok()?;
    let kind = page::Kind::of(response.header("content-type"), &response.body)?;
    let source = response.text();
    let (title, text) = match (format, kind) {
        (Format::Markdown, page::Kind::Html) => page::readable(&source)?,
        _ => (None, source),
    };
    let (text, length, next_offset) = page::piece(&text, offset, max_length)?;
    let page = Page {
        url: response.final_url,
        status: response.status,
        title,
        text: text.to_owned(),
        length,
        next_offset,
    };
    Ok(answer(page))
}

fn answer(page: Page) -> Structured<Page> {
    let head = page.title.as_ref().map(|title| Content::text(format!("# {title}\n<{}>", page.url)));
    let more = page
        .next_offset
        .map(|offset| Content::text(format!("[The page goes on; read it with offset {offset}.]")));
    let text = Content::text(page.text.clone());
    let parts = head.into_iter().chain([text]).chain(more);
    parts.fold(Structured::new(page), Structured::with)
}

plugin!(fetch);

#[cfg(test)]
mod tests {
    use airlock_guest::Tool;

    use super::*;

    #[test]
    fn the_tool_describes_its_arguments_and_its_result() {
        let tool = fetch::descriptor();
        let arguments =
            tool.input_schema.get("properties").and_then(|all| all.as_object()).unwrap();
        for (name, argument) in arguments {
            assert!(
                argument.get("description").is_some() || argument.get("$ref").is_some(),
                "{name}"
            );
        }
        assert!(tool.output_schema.is_some());
    }
}
