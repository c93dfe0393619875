//! Pages of a list: `limit`, `offset` and `search`.

use url::form_urlencoded;

use crate::server::respond::ApiError;

/// Part of a list that a query selects. Without a query, it is the whole list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// Maximum number of entries; `None` for no limit.
    pub(super) limit: Option<usize>,
    /// Entries before the first one.
    pub(super) offset: usize,
    /// Part of the name, in lower case. Empty for every name.
    search: String,
}

impl Page {
    /// Reads a query. Fails if a number is invalid. Other parameters are ignored, and of two with
    /// one name the last one counts.
    pub(super) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut page = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => page.limit = Some(number("limit", &value)?),
                "offset" => page.offset = number("offset", &value)?,
                "search" => page.search = value.to_lowercase(),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Returns whether a name has the searched part, in any case.
    pub(super) fn matches(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.search)
    }

    /// Returns the entries of the page, and the number of all entries.
    pub(super) fn of<T>(&self, entries: Vec<T>) -> (Vec<T>, usize) {
        let total = entries.len();
        let limit = self.limit.unwrap_or(total);
        (entries.into_iter().skip(self.offset).take(limit).collect(), total)
    }
}

fn number(name: &str, text: &str) -> Result<usize, ApiError> {
    let wrong = |problem: &str| {
        let message = format!("Invalid {name} parameter: {problem}");
        ApiError::bad_request("invalid_value", message).about(name)
    };
    let number: i64 = text.parse().map_err(|_| wrong("must be a number"))?;
    usize::try_from(number).map_err(|_| wrong("must be non-negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Page {
        Page::parse(query).expect("a good query")
    }

    #[test]
    fn a_page_has_the_entries_from_its_offset_to_its_limit() {
        let of = |query| page(query).of(vec![0, 1, 2, 3]);
        assert_eq!(of(""), (vec![0, 1, 2, 3], 4));
        assert_eq!(of("limit=2"), (vec![0, 1], 4));
        assert_eq!(of("limit=2&offset=3"), (vec![3], 4));
        assert_eq!(of("offset=4"), (vec![], 4));
        assert_eq!(of("limit=0"), (vec![], 4));
        assert_eq!(of("limit=9223372036854775807&offset=9223372036854775807"), (vec![], 4));
        assert_eq!(of("page=7&limit=9&limit=1"), (vec![0], 4));
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
        ] {
            let body = Page::parse(query).expect_err("it is refused").into_body();
            assert_eq!(body["error"]["message"], expected, "{query}");
        }
    }
}
