//! Lists of the input items of a stored response, in pages.

use serde_json::{Value, json};
use url::form_urlencoded;

use airlock_http::respond::{ApiError, excerpt};

/// Number of items on a page without the parameter `limit`.
const DEFAULT_LIMIT: usize = 20;
/// Maximum number of items on a page, as in OpenAI's API reference.
const MAX_LIMIT: usize = 100;

/// The items that a query asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct ItemsQuery {
    limit: usize,
    is_ascending: bool,
    after: Option<String>,
}

impl ItemsQuery {
    /// Reads a query. Fails if `limit` or `order` is invalid. Other parameters than these and
    /// `after` are ignored.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let mut page = Self { limit: DEFAULT_LIMIT, is_ascending: false, after: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    page.limit =
                        limit.ok_or_else(|| bad("limit", &value, "a number from 1 to 100"))?;
                }
                "order" => {
                    page.is_ascending = match &*value {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(bad("order", &value, "\"asc\" or \"desc\"")),
                    };
                }
                "after" => page.after = Some(value.into_owned()),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Returns the page of the input items of a Response. Fails if no item has the identifier `after`.
    pub fn select(&self, mut items: Vec<Value>, response_id: &str) -> Result<Value, ApiError> {
        identify(&mut items, response_id);
        if !self.is_ascending {
            items.reverse();
        }
        if let Some(after) = &self.after {
            let at = items.iter().position(|item| item["id"] == **after);
            let at = at.ok_or_else(|| bad("after", after, "the `id` of an input item"))?;
            items.drain(..=at);
        }
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        Ok(json!({
            "object": "list",
            "first_id": items.first().map(|item| &item["id"]),
            "last_id": items.last().map(|item| &item["id"]),
            "has_more": has_more,
            "data": items,
        }))
    }
}

/// Gives the input items of a Response without an identifier one from their position.
pub(super) fn identify(items: &mut [Value], response_id: &str) {
    let stem = response_id.strip_prefix("resp_").unwrap_or(response_id);
    for (index, item) in items.iter_mut().filter_map(Value::as_object_mut).enumerate() {
        if !item.get("id").is_some_and(Value::is_string) {
            item.insert("id".to_owned(), format!("in_{stem}{index:04x}").into());
        }
    }
}

/// Fails if a query asks for the stream events of a stored Response. They are not stored.
pub fn check_not_streamed(query: &str) -> Result<(), ApiError> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    if parameters.any(|(name, value)| name == "stream" && value == "true") {
        let message = "Stored responses cannot be streamed. Leave 'stream' out.";
        return Err(ApiError::bad_request("unsupported_value", message).about("stream"));
    }
    Ok(())
}

fn bad(name: &str, found: &str, expected: &str) -> ApiError {
    let found = excerpt(found);
    let message = format!("`{name}`: found {found:?}, expected {expected}");
    ApiError::bad_request("invalid_value", message).about(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str) -> Value {
        let items = (0..5).map(|n| json!({"type": "message", "content": n})).collect();
        ItemsQuery::parse(query)
            .and_then(|page| page.select(items, "resp_1"))
            .expect("a good query")
    }

    fn contents(page: &Value) -> Vec<u64> {
        let items = page["data"].as_array().expect("a list");
        items.iter().filter_map(|item| item["content"].as_u64()).collect()
    }

    #[test]
    fn pages_continue_after_the_last_item_in_both_orders() {
        for (order, first, rest) in
            [("asc", [0, 1, 2], vec![3, 4]), ("desc", [4, 3, 2], vec![1, 0])]
        {
            let start = page(&format!("order={order}&limit=3&include=x"));
            assert_eq!((contents(&start), &start["has_more"]), (first.to_vec(), &json!(true)));
            let last = start["last_id"].as_str().expect("an id");
            let end = page(&format!("order={order}&limit=3&after={last}"));
            assert_eq!((contents(&end), &end["has_more"]), (rest, &json!(false)));
        }
        assert_eq!(contents(&page("")), [4, 3, 2, 1, 0]);
    }

    #[test]
    fn a_bad_parameter_is_named() {
        for (query, param) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("order=up", "order"),
            ("after=x", "after"),
        ] {
            let page = ItemsQuery::parse(query).and_then(|page| page.select(Vec::new(), "resp_1"));
            let error = page.expect_err("a bad query").into_body();
            assert_eq!(error["error"]["param"], param, "{query}");
        }
        assert!(check_not_streamed("stream=true").is_err());
        assert!(check_not_streamed("stream=false").is_ok());
    }
}
