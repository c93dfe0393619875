//! Reads the lists of resources, templates and prompts: all pages, within bounds, one item at a
//! time.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde_json::Value;
use tracing::warn;

use crate::limits::{
    MAX_EXPRESSIONS, MAX_OFFER_KEY_BYTES, MAX_OFFERS, MAX_TEMPLATE_BYTES, MAX_TEMPLATES,
};
use airlock_core::{
    secret::Scrubber,
    tool::{ClientName, Offer, without_hidden},
};
use airlock_json::{self as json, JsonText, RawObject, raw};
use airlock_mcp_client::{
    AskError, Link, ListPage, MAX_MESSAGE_BYTES, MAX_TREE_BYTES, ReadPages, read_pages,
};
use airlock_strings::{MAX_EXCERPT_BYTES, cut, one_line, stripped};
use airlock_wire::method;

/// One of the lists of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfferKind {
    method: &'static str,
    /// Member of a page with the items.
    member: &'static str,
    /// Member of an item that names it.
    key: &'static str,
    /// Longest key, in bytes.
    key_bytes: usize,
    /// Most items.
    limit: usize,
}

impl OfferKind {
    /// Resources by URI.
    pub(super) const RESOURCES: Self = Self {
        method: method::RESOURCES_LIST,
        member: "resources",
        key: "uri",
        key_bytes: MAX_OFFER_KEY_BYTES,
        limit: MAX_OFFERS,
    };
    /// Templates of resources by URI template.
    pub(super) const TEMPLATES: Self = Self {
        method: method::TEMPLATES_LIST,
        member: "resourceTemplates",
        key: "uriTemplate",
        key_bytes: MAX_TEMPLATE_BYTES,
        limit: MAX_TEMPLATES,
    };
    /// Prompts by name.
    pub(super) const PROMPTS: Self = Self {
        method: method::PROMPTS_LIST,
        member: "prompts",
        key: "name",
        key_bytes: MAX_OFFER_KEY_BYTES,
        limit: MAX_OFFERS,
    };
}

/// The part of a list that was read.
#[derive(Debug, Default)]
pub(super) struct ListedOffers {
    /// The items, sorted by their keys, without duplicates: the first of two counts.
    items: BTreeMap<String, Offer>,
    /// Time for which the server says that the list is valid.
    pub(super) ttl: Option<Duration>,
    /// Reason that the list is not complete, or that an item was left out.
    flaw: Option<String>,
    pages: ReadPages,
    tree_bytes: usize,
}

impl ListedOffers {
    /// Returns the items, sorted by their keys. Logs the reason if some are missing.
    pub(super) fn into_items(self, client: &ClientName, kind: OfferKind) -> Vec<Offer> {
        if let Some(reason) = &self.flaw {
            let method = kind.method;
            let items = self.items.len();
            warn!(%client, method, reason, items, "upstream list is not complete");
        }
        self.items.into_values().collect()
    }
}

/// Reads a whole list. Items that cannot be used are left out. Fails only if the first page cannot
/// be read; the pages that were read before a later failure are kept.
pub(super) async fn read(link: &Link, kind: OfferKind) -> Result<ListedOffers, AskError> {
    let mut listed = ListedOffers::default();
    let reading = read_pages(link, kind.method, kind.member, kind.limit, |page| {
        listed.add(page, kind, &link.inbox().scrubber())
    });
    if let Some(unread) = reading.await? {
        listed.set_flaw(&unread.to_string());
    }
    Ok(listed)
}

impl ListedOffers {
    /// Adds a page. Returns the cursor of the next page; `None` if no further page is to be read.
    fn add(&mut self, page: &ListPage, kind: OfferKind, scrubber: &Scrubber) -> Option<String> {
        self.ttl = [self.ttl, page.ttl].into_iter().flatten().min();
        let Some(items) = &page.items else {
            self.set_flaw("a page has no list");
            return None;
        };
        for item in items {
            self.pages.bytes += item.len();
            if self.items.len() >= kind.limit || self.pages.bytes > MAX_MESSAGE_BYTES {
                self.set_flaw(&format!(
                    "the list has more than {} items or {MAX_MESSAGE_BYTES} bytes",
                    kind.limit
                ));
                return None;
            }
            match self.item(item, kind, scrubber) {
                Ok(offer) => drop(self.items.entry(offer.key().to_owned()).or_insert(offer)),
                Err(reason) => self.set_flaw(reason),
            }
        }
        self.pages.next(page).unwrap_or_else(|unread| {
            self.set_flaw(&unread.to_string());
            None
        })
    }

    fn set_flaw(&mut self, reason: &str) {
        self.flaw = Some(cut(one_line(reason), MAX_EXCERPT_BYTES));
    }

    fn item(
        &mut self,
        text: &str,
        kind: OfferKind,
        scrubber: &Scrubber,
    ) -> Result<Offer, &'static str> {
        let caps = json::Caps::memory(MAX_TREE_BYTES - self.tree_bytes);
        let cost = json::check(text.as_bytes(), &caps)
            .map_err(|_| "an item is nested too deeply, too large or no valid JSON")?;
        self.tree_bytes += cost.tree_bytes;
        let text = scrubber.json(text.as_bytes()).ok_or("an item has a number out of range")?;
        let (object, _) = RawObject::parse(text.into_owned(), &caps)
            .map_err(|_| "an item is not an object, or has too many members")?;
        repaired(object, kind)
    }
}

/// Returns an item that every MCP client can read, without hidden characters. Clients check lists
/// against types, and refuse a whole list for one odd member. Fails if a name or URI has hidden
/// characters: without them it would be another one.
fn repaired(mut item: RawObject, kind: OfferKind) -> Result<Offer, &'static str> {
    let key = item.get(kind.key).and_then(raw::string).map(Cow::into_owned);
    let key = key.filter(|key| (1..=kind.key_bytes).contains(&key.len()));
    let key = key.ok_or("the name or URI of an item is missing or too long")?;
    if kind.key == "uriTemplate" && key.matches('{').count() > MAX_EXPRESSIONS {
        return Err("a URI template has too many expressions");
    }
    if !item.get("name").is_some_and(|name| name.starts_with('"')) {
        item.set("name", Value::from(key.as_str()).to_string());
    }
    let arguments = item.get("arguments").filter(|_| kind.key == "name");
    let are_named = arguments.is_none_or(|list| {
        let arguments = raw::elements(list);
        arguments.is_some_and(|mut list| list.all(|argument| name_of(argument).is_some()))
    });
    if !are_named {
        return Err("the arguments of a prompt are no list of objects with names");
    }
    let mut named = arguments.and_then(raw::elements).into_iter().flatten().filter_map(name_of);
    let has_hidden = stripped(&key) != key || named.any(|name| stripped(&name) != name);
    drop(named);
    if has_hidden {
        return Err("a name or URI has hidden characters");
    }
    let odd: Vec<String> = item
        .iter()
        .filter(|(name, value)| !is_valid(name, value))
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in odd {
        item.remove(&name);
    }
    let text = item.to_text();
    if stripped(&text) == text && !text.contains('\\') {
        return Ok(Offer::new(&key, &text));
    }
    let text = JsonText::parse(&text).ok().and_then(without_hidden);
    let text = text.ok_or("the name of a member has hidden characters")?;
    Ok(Offer::new(&key, text.as_str()))
}

fn name_of(argument: &str) -> Option<Cow<'_, str>> {
    raw::member(argument, "name").and_then(raw::string)
}

/// Returns whether an optional member has the type that the protocol gives it.
fn is_valid(name: &str, value: &str) -> bool {
    match name {
        "title" | "description" | "mimeType" => value.starts_with('"'),
        "size" => value.parse::<f64>().is_ok(),
        "icons" => value.starts_with('['),
        "_meta" => value.starts_with('{'),
        "annotations" => raw::members(value).is_some_and(|mut members| {
            members.all(|(name, value)| match &*name {
                "audience" => raw::elements(value).is_some_and(|mut roles| {
                    roles.all(|role| matches!(role, "\"user\"" | "\"assistant\""))
                }),
                "priority" => {
                    value.parse().is_ok_and(|priority: f64| (0.0..=1.0).contains(&priority))
                }
                "lastModified" => value.starts_with('"'),
                _ => true,
            })
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_mcp_client::MAX_PAGES;

    fn page(items: &Value, cursor: Option<&str>) -> ListPage {
        let text = json!({"result": {"resources": items, "nextCursor": cursor, "ttlMs": 5}});
        ListPage::read(text.to_string().as_bytes(), "resources", MAX_OFFERS).expect("a page")
    }

    fn add(listed: &mut ListedOffers, items: &Value, cursor: Option<&str>) -> Option<String> {
        listed.add(&page(items, cursor), OfferKind::RESOURCES, &Scrubber::default())
    }

    fn keys(listed: &ListedOffers) -> Vec<&str> {
        listed.items.keys().map(String::as_str).collect()
    }

    #[test]
    fn items_are_sorted_and_the_first_of_two_with_one_uri_counts() {
        let mut listed = ListedOffers::default();
        let items = json!([{"uri": "b:", "name": "1"}, {"uri": "a:"}, {"uri": "b:", "name": "2"}]);
        assert_eq!(add(&mut listed, &items, Some("next")).as_deref(), Some("next"));
        assert_eq!((keys(&listed), listed.ttl), (vec!["a:", "b:"], Some(Duration::from_millis(5))));
        assert_eq!(listed.items["b:"], Offer::new("b:", r#"{"uri":"b:","name":"1"}"#));
        assert_eq!(listed.items["a:"], Offer::new("a:", r#"{"uri":"a:","name":"a:"}"#));
    }

    #[test]
    fn an_odd_item_costs_only_itself_and_an_odd_member_only_itself() {
        let mut listed = ListedOffers::default();
        let items = json!([
            7, {}, {"uri": 7}, {"uri": ""}, {"uri": "x".repeat(MAX_OFFER_KEY_BYTES + 1)},
            {"uri": "x".repeat(MAX_OFFER_KEY_BYTES)},
            {"uri": "a:", "name": "n", "title": 7, "size": "big", "mimeType": "t", "x": [1],
             "annotations": {"audience": ["system"]}, "icons": {}},
        ]);
        assert_eq!(add(&mut listed, &items, None), None);
        assert_eq!((listed.items.len(), listed.flaw.is_some()), (2, true));
        let expected = r#"{"uri":"a:","name":"n","mimeType":"t","x":[1]}"#;
        assert_eq!(listed.items["a:"], Offer::new("a:", expected));
    }

    #[test]
    fn items_pages_and_cursors_are_bounded() {
        let mut listed = ListedOffers::default();
        add(&mut listed, &items(MAX_OFFERS), None);
        assert_eq!((listed.items.len(), listed.flaw), (MAX_OFFERS, None));
        let mut listed = ListedOffers::default();
        assert_eq!(add(&mut listed, &items(100_000), Some("next")), None);
        assert!(listed.items.len() == MAX_OFFERS && listed.flaw.is_some());
        let mut listed = ListedOffers::default();
        let endless =
            (0..).take_while(|n| add(&mut listed, &json!([]), Some(&n.to_string())).is_some());
        assert_eq!(endless.count(), MAX_PAGES - 1);
        let mut listed = ListedOffers::default();
        assert!(add(&mut listed, &json!([]), Some("one")).is_some());
        assert!(add(&mut listed, &json!([]), Some("one")).is_none(), "a circle");
        let mut listed = ListedOffers::default();
        let long = "x".repeat(MAX_MESSAGE_BYTES + 1);
        assert!(add(&mut listed, &json!([]), Some(&long)).is_none());
    }

    fn items(count: usize) -> Value {
        (0..count).map(|n| json!({"uri": format!("a:{n}")})).collect()
    }

    fn item(kind: OfferKind, item: &Value) -> Result<Offer, &'static str> {
        let object = RawObject::parse(item.to_string().into(), &json::Caps::memory(1 << 20));
        repaired(object.expect("an object").0, kind)
    }

    #[test]
    fn a_template_has_a_bound_on_its_length_and_its_expressions() {
        assert!(template(&"x".repeat(MAX_TEMPLATE_BYTES)));
        assert!(!template(&"x".repeat(MAX_TEMPLATE_BYTES + 1)));
        assert!(template(&format!("a://{}", "{x}".repeat(MAX_EXPRESSIONS))));
        assert!(!template(&format!("a://{}", "{x}".repeat(MAX_EXPRESSIONS + 1))));
        let resource = json!({"uri": "{".repeat(MAX_EXPRESSIONS + 1)});
        assert!(item(OfferKind::RESOURCES, &resource).is_ok(), "it is no template");
    }

    fn template(uri: &str) -> bool {
        item(OfferKind::TEMPLATES, &json!({"uriTemplate": uri})).is_ok()
    }

    #[test]
    fn hidden_characters_are_removed_and_cost_an_item_whose_name_has_some() {
        let resource = json!({"uri": "a:", "name": hiding("n"), "title": hiding("t"),
            "description": hiding("d\\\""), "_meta": {"k": [hiding("m")]}, "size": 1.5});
        let expected = r#"{"uri":"a:","name":"n","title":"t","description":"d\\\"","_meta":{"k":["m"]},"size":1.5}"#;
        assert_eq!(item(OfferKind::RESOURCES, &resource), Ok(Offer::new("a:", expected)));
        assert!(prompt("p", "a") && prompt("p", "می\u{200c}خواهم"));
        assert!(!prompt(&hiding("p"), "a") && !prompt("p", &hiding("a")));
        for (kind, key) in [(OfferKind::RESOURCES, "uri"), (OfferKind::TEMPLATES, "uriTemplate")] {
            assert!(item(kind, &json!({key: hiding("a:")})).is_err(), "{key}");
            let member = hiding("m");
            assert!(item(kind, &json!({key: "a:", "_meta": {member: 1}})).is_err(), "{key}");
        }
    }

    /// Returns a text with hidden characters after it.
    fn hiding(text: &str) -> String {
        format!("{text}\u{e0041}\u{200b}\u{202e}")
    }

    fn prompt(name: &str, argument: &str) -> bool {
        item(OfferKind::PROMPTS, &json!({"name": name, "arguments": [{"name": argument}]})).is_ok()
    }

    #[test]
    fn a_prompt_has_arguments_with_names() {
        for (arguments, is_valid) in [
            (json!([]), true),
            (json!([{"name": "a", "required": true}]), true),
            (json!({}), false),
            (json!([{"description": "a"}]), false),
        ] {
            let text = json!({"name": "p", "arguments": arguments}).to_string();
            let object = RawObject::parse(text.into(), &json::Caps::memory(1 << 16));
            let read = repaired(object.expect("an object").0, OfferKind::PROMPTS);
            assert_eq!(read.is_ok(), is_valid, "{arguments}");
        }
    }
}
