//! Lists in pages: `limit`, `offset` and `search`, and members that select elements.

use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::{
    change::ConfigState,
    refusal::{Result, invalid},
};
use airlock_config::Element;
use airlock_http::listing::{DEFAULT_LIMIT, MAX_LIMIT, parse_number};
use airlock_operator_api::ManagementRefusal;
use airlock_store::entries::EntryKind;

/// Part of a list that a query selects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListQuery {
    limit: usize,
    offset: usize,
    /// Part of the name, in lower case. Empty for every name.
    search: String,
    /// Members with a value that the elements must have.
    filters: Vec<(&'static str, String)>,
}

impl ListQuery {
    /// Reads a query, which may have these members as parameters. Fails if a number is invalid or a
    /// parameter is unknown.
    pub(crate) fn parse(query: &str, members: &[&'static str]) -> Result<Self> {
        let mut page = Self { limit: DEFAULT_LIMIT, ..Self::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => page.limit = number("limit", &value)?.min(MAX_LIMIT),
                "offset" => page.offset = number("offset", &value)?,
                "search" => page.search = value.to_lowercase(),
                name => {
                    let member = members.iter().copied().find(|member| *member == name);
                    let member = member.ok_or_else(|| unknown(name, members))?;
                    page.filters.push((member, value.into_owned()));
                }
            }
        }
        Ok(page)
    }

    /// Returns the elements that have the values of the query, and the searched part in their names, in
    /// any case.
    pub(crate) fn select<'s>(
        &self,
        state: &'s ConfigState,
        kind: EntryKind,
    ) -> impl Iterator<Item = &'s Element> {
        let filters = self.filters.iter().map(|(member, wanted)| {
            let of = if *member == "team_id" { EntryKind::Team } else { EntryKind::Customer };
            (*member, state.synonyms(of, wanted))
        });
        let filters: Vec<_> = filters.collect();
        state.elements(kind).filter(move |element| {
            let value = element.value.as_ref();
            let has_all = filters.iter().all(|(member, wanted)| {
                let found = value.and_then(|value| value[*member].as_str());
                found.is_some_and(|found| wanted.contains(found))
            });
            has_all && self.matches(&element.name)
        })
    }

    /// Returns whether a name has the searched part, in any case.
    pub(crate) fn matches(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.search)
    }

    /// Returns the document of a list, whose page is in the member `member`.
    pub(crate) fn document(&self, member: &str, entries: Vec<Value>) -> Value {
        let total = entries.len();
        let entries: Vec<_> = entries.into_iter().skip(self.offset).take(self.limit).collect();
        let mut document = Map::new();
        document.insert("count".to_owned(), entries.len().into());
        document.insert(member.to_owned(), entries.into());
        document.extend([
            ("total_count".to_owned(), json!(total)),
            ("limit".to_owned(), json!(self.limit)),
            ("offset".to_owned(), json!(self.offset)),
        ]);
        Value::Object(document)
    }
}

fn unknown(name: &str, members: &[&str]) -> ManagementRefusal {
    let name = airlock_strings::cut(name.to_owned(), 64);
    let members = members.iter().map(|member| format!("`{member}`, "));
    let members: String = members.collect();
    invalid(format!(
        "unknown parameter {name:?}; valid are {members}`limit`, `offset` and `search`"
    ))
}

fn number(name: &str, text: &str) -> Result<usize> {
    parse_number(name, text).map_err(invalid)
}

/// Reads a number from 0 in a parameter without a counterpart in Bifrost.
pub(crate) fn number_from_zero(name: &str, text: &str) -> Result<i64> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| invalid(format!("Invalid {name} parameter: must be a number from 0")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_selected_entries_and_the_number_of_all() {
        let page = ListQuery::parse("limit=2&offset=1&search=", &[]).expect("a page");
        let document = page.document("keys", (0..4).map(Value::from).collect());
        assert_eq!(
            document,
            json!({"keys": [1, 2], "count": 2, "total_count": 4, "limit": 2, "offset": 1})
        );
        assert_eq!(ListQuery::parse("limit=5000", &[]).expect("a page").limit, MAX_LIMIT);
        assert!(ListQuery::parse("search=AB", &[]).expect("a page").matches("xaby"));
    }

    #[test]
    fn a_number_that_is_none_is_refused_in_the_words_of_bifrost() {
        for (query, message) in [
            ("limit=x", "Invalid limit parameter: must be a number"),
            ("offset=-1", "Invalid offset parameter: must be non-negative"),
            ("limits=1", "unknown parameter \"limits\"; valid are `limit`, `offset` and `search`"),
        ] {
            assert_eq!(ListQuery::parse(query, &[]).expect_err("refused").message, message);
        }
    }
}
