//! Fetches web pages as readable Markdown. The operator grants the destinations and the host
//! enforces them; this plugin converts the responses to a form that a model can use.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod page;

use airlock_guest::{Content, Error, Structured, http::Request, plugin, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters in one result if the caller sets no limit.
const LENGTH_DEFAULT: usize = 20_000;
/// Largest number of characters in one result. It has them twice, as text and as data, and even letters of four bytes then
/// stay below the host's usual limit of 1 MiB.
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
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    #[arg(default)]
    format: Format,
    /// Number of characters to skip, to read on where a piece ended.
    #[arg(default)]
    offset: usize,
    /// Maximum number of characters to return.
    #[arg(default = LENGTH_DEFAULT, range = 1..=LENGTH_MAX)]
    max_length: usize,
) -> Result<Structured<Page>, Error> {
    let response = Request::get(&url)
        .with_header("accept", "text/html, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.5")
        .send()?
        .ok()?;
    let kind = page::PageKind::detect(response.header("content-type"), &response.body)?;
    let source = response.text();
    let (title, text) = match (format, kind) {
        (Format::Markdown, page::PageKind::Html) => page::readable(&source)?,
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
    use airlock_guest::http::Response;
    use airlock_guest::{ErrorKind, Tool, serde_json::json, testing::Host};

    use super::*;

    /// Creates a host whose only page is this one.
    fn serving(content_type: &'static str, body: &'static str) -> Host {
        Host::new().http(move |request| {
            assert_eq!((request.method(), request.url()), ("GET", "https://a.example/page"));
            Response::new(200).with_header("content-type", content_type).with_body(body)
        })
    }

    #[test]
    fn a_page_is_returned_as_markdown_piece_by_piece() {
        let host = serving("text/html", "<title>T</title><h1>Head</h1><p>Some text.</p>");
        let url = "https://a.example/page";
        let first = host.call::<fetch>(json!({ "url": url, "max_length": 6 })).unwrap();
        let page: Page = first.decode().unwrap();
        assert_eq!((page.title.as_deref(), page.text.as_str()), (Some("T"), "# Head"));
        assert_eq!((page.url.as_str(), page.next_offset), (url, Some(6)));
        let rest = host.call::<fetch>(json!({ "url": url, "offset": 6 })).unwrap();
        assert_eq!(rest.decode::<Page>().unwrap().text.trim(), "Some text.");
    }

    #[test]
    fn a_page_that_is_not_granted_or_not_text_is_refused() {
        let arguments = json!({ "url": "https://a.example/page" });
        let error = Host::new().call::<fetch>(&arguments).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Denied, Some("http_denied")));
        let error = serving("image/png", "").call::<fetch>(&arguments).unwrap_err();
        assert_eq!(error.message(), "the page is image/png, and only text can be read");
    }

    #[test]
    fn a_length_out_of_range_is_refused() {
        let arguments = json!({ "url": "https://a.example/page", "max_length": 0 });
        let error = Host::new().call::<fetch>(arguments).unwrap_err();
        assert_eq!(
            error.message(),
            "argument `max_length` must be an integer from 1 to 100000, not 0"
        );
    }

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
