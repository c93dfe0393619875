//! Pages of a list: `limit`, `offset` and `search`, and `tools_limit` and `tools_offset` of each
//! entry.

use url::form_urlencoded;

use super::respond::ApiError;

/// Entries of a page, and tools of an entry, unless the query says otherwise.
pub const DEFAULT_LIMIT: usize = 100;
/// Maximum entries of a page, and tools of an entry; a query that asks for more gets so many. A response
/// has up to a million tools, as many as memory is charged for.
pub const MAX_LIMIT: usize = 1_000;

/// Part of a list that a query selects.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// Maximum number of entries.
    pub limit: usize,
    /// Entries before the first one.
    pub offset: usize,
    /// Maximum number of tools of an entry.
    pub tools_limit: usize,
    /// Tools of an entry before the first one.
    pub tools_offset: usize,
    /// Part of the name, in lower case. Empty for every name.
    search: String,
}

impl Default for Page {
    fn default() -> Self {
        let limit = DEFAULT_LIMIT;
        let search = String::new();
        Self { limit, offset: 0, tools_limit: limit, tools_offset: 0, search }
    }
}

impl Page {
    /// Reads a query. Fails if a number is invalid. A limit beyond 1,000 is 1,000. Other parameters
    /// are ignored, and of two with one name the last one counts.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let mut page = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => page.limit = number("limit", &value)?.min(MAX_LIMIT),
                "offset" => page.offset = number("offset", &value)?,
                "tools_limit" => page.tools_limit = number("tools_limit", &value)?.min(MAX_LIMIT),
                "tools_offset" => page.tools_offset = number("tools_offset", &value)?,
                "search" => page.search = value.to_lowercase(),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Returns whether a name has the searched part, in any case.
    pub fn matches(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.search)
    }

    /// Returns the entries of the page, and the number of all entries.
    pub fn select<T>(&self, entries: Vec<T>) -> (Vec<T>, usize) {
        let total = entries.len();
        (entries.into_iter().skip(self.offset).take(self.limit).collect(), total)
    }

    /// Returns the tools of the page.
    pub fn tools<'t, T>(&self, tools: &'t [T]) -> &'t [T] {
        let tools = tools.get(self.tools_offset..).unwrap_or_default();
        &tools[..tools.len().min(self.tools_limit)]
    }
}

fn number(name: &str, text: &str) -> Result<usize, ApiError> {
    parse_number(name, text)
        .map_err(|message| ApiError::bad_request("invalid_value", message).about(name))
}

/// Reads the number in a parameter of a query. Fails with the message for the caller.
pub fn parse_number(name: &str, text: &str) -> Result<usize, String> {
    let number = text.parse::<i64>();
    let number = number.map_err(|_| format!("Invalid {name} parameter: must be a number"))?;
    usize::try_from(number).map_err(|_| format!("Invalid {name} parameter: must be non-negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Page {
        Page::parse(query).expect("a good query")
    }

    #[test]
    fn a_page_has_the_entries_from_its_offset_to_its_limit() {
        for (query, entries) in [
            ("", vec![0, 1, 2, 3]),
            ("limit=2", vec![0, 1]),
            ("limit=2&offset=3", vec![3]),
            ("offset=4", vec![]),
            ("limit=0", vec![]),
            ("limit=9223372036854775807&offset=9223372036854775807", vec![]),
            ("page=7&limit=9&limit=1", vec![0]),
        ] {
            assert_eq!(page(query).select(vec![0, 1, 2, 3]), (entries, 4), "{query}");
        }
        let many = vec![(); 2_000];
        assert_eq!(page("").select(many.clone()).0.len(), 100);
        assert_eq!(page("limit=5000").select(many.clone()).0.len(), 1_000);
        for (query, tools) in [
            ("", 100),
            ("tools_limit=5000", 1_000),
            ("tools_limit=5&tools_offset=1998", 2),
            ("tools_offset=2001", 0),
        ] {
            assert_eq!(page(query).tools(&many).len(), tools, "{query}");
        }
    }

    #[test]
    fn a_search_finds_a_part_of_a_name_in_any_case() {
        assert!(page("search=hUB").matches("GitHub") && page("search=").matches("fs"));
        assert!(!page("search=git%20hub").matches("github"));
    }

    #[test]
    fn an_invalid_number_is_refused_with_bifrosts_words() {
        for (query, expected) in [
            ("limit=x", "Invalid limit parameter: must be a number"),
            ("limit=", "Invalid limit parameter: must be a number"),
            ("limit=1.5", "Invalid limit parameter: must be a number"),
            ("limit=9223372036854775808", "Invalid limit parameter: must be a number"),
            ("limit=-1", "Invalid limit parameter: must be non-negative"),
            ("offset=x", "Invalid offset parameter: must be a number"),
            ("offset=-1", "Invalid offset parameter: must be non-negative"),
            ("tools_limit=-1", "Invalid tools_limit parameter: must be non-negative"),
            ("tools_offset=x", "Invalid tools_offset parameter: must be a number"),
        ] {
            let body = Page::parse(query).expect_err("it is refused").into_body();
            assert_eq!(body["error"]["message"], expected, "{query}");
        }
    }
}
