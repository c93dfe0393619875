//! References to items of stored Responses in the input of a request: `{"type": "item_reference",
//! "id": …}`. The AI SDK sends one for each item that it received, unless a request has
//! `store: false`.
//!
//! The identifier of an item has that of its Response, so no item needs an index of its own. An
//! identifier that a provider gave, as that of its reasoning, is looked up in the Responses that the
//! other references name: a client refers to all items of a Response, or to none.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde_json::Value;

use super::{StoredResponses, items, stored as store};
use airlock_core::request_memory::RequestCharge;
use airlock_http::{respond::ApiError, work};
use airlock_json::{self as json, weight::weight};
use airlock_store::responses::ResponseList;
use airlock_strings::cut;

/// Digits of an identifier behind its prefix: those of the Response, the round and the place.
const DIGITS: usize = 36;
const RESPONSE_DIGITS: usize = 32;
/// Maximum length of an identifier that an error repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// An `item_reference`: its place in the input, and the identifier that it has.
type ItemReference = (usize, String);

/// Replaces the references in the input by the items of the sender's stored Responses. Those of a long request are
/// looked for, and copied, on a blocking thread. Fails if one of them is not stored, or if there is no memory for them;
/// the input is empty then.
pub async fn resolve(
    stored: StoredResponses<'_>,
    input: &mut Vec<Value>,
    charge: &RequestCharge,
) -> Result<(), ApiError> {
    let sent = mem::take(input);
    let reading = work::on_tree(charge, move |_| {
        let references = references_in(&sent);
        Ok((sent, references))
    });
    let (sent, references) = reading.await?;
    if references.is_empty() {
        *input = sent;
        return Ok(());
    }
    let wanted: BTreeSet<(String, ResponseList)> =
        references.iter().filter_map(|(_, id)| list_of(id)).collect();
    let wanted: Vec<(String, ResponseList)> = wanted.into_iter().collect();
    let lists = store::lists(stored, wanted.clone(), charge).await;
    let lists = lists.map_err(|error| error.about("input"))?;
    let has_archive = stored.archive.is_some();
    // An item may be referred to any number of times, so all copies are charged before one is made.
    let counting = work::on_tree(charge, move |charge| {
        let found = by_id(wanted.into_iter().zip(lists));
        charge.grow(copied_bytes(&references, &found, has_archive)?)?;
        Ok((references, found))
    });
    let (references, found) = counting.await?;
    let copying = work::on_tree(charge, move |_| Ok(with_copies(sent, references, &found)));
    *input = copying.await?;
    Ok(())
}

fn references_in(input: &[Value]) -> Vec<ItemReference> {
    let items = input.iter().enumerate();
    items.filter_map(|(position, item)| Some((position, referenced(item)?.to_owned()))).collect()
}

/// Returns the items of lists by their identifiers.
fn by_id(
    lists: impl Iterator<Item = ((String, ResponseList), Vec<Value>)>,
) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for ((response, list), mut items) in lists {
        if list == ResponseList::Input {
            items::identify(&mut items, &response);
        }
        let named = items
            .into_iter()
            .filter_map(|item| Some((item.get("id").and_then(Value::as_str)?.to_owned(), item)));
        found.extend(named);
    }
    found
}

/// Returns the memory of the copies of all items that are referred to, as trees and as text, in bytes. Each item is weighed
/// once. Fails if one was not found.
fn copied_bytes(
    references: &[ItemReference],
    found: &BTreeMap<String, Value>,
    has_archive: bool,
) -> Result<usize, ApiError> {
    let mut weighed = BTreeMap::new();
    let mut bytes = 0_usize;
    for (position, id) in references {
        let item = found.get(id).ok_or_else(|| not_found(has_archive, *position, id))?;
        let of_one = weighed
            .entry(id.as_str())
            .or_insert_with(|| weight(item).saturating_add(json::text_len(item)));
        bytes = bytes.saturating_add(*of_one);
    }
    Ok(bytes)
}

/// Returns the input with the items in the places of the references.
fn with_copies(
    mut input: Vec<Value>,
    references: Vec<ItemReference>,
    found: &BTreeMap<String, Value>,
) -> Vec<Value> {
    for (position, id) in references {
        if let Some(item) = found.get(&id) {
            input[position] = item.clone();
        }
    }
    input
}

/// Returns the identifier that an item refers to; `None` if the item is not a reference. Its type
/// may be absent, as in OpenAI's schema.
fn referenced(item: &Value) -> Option<&str> {
    let id = item.get("id")?.as_str()?;
    match item.get("type") {
        Some(Value::String(kind)) => (kind == "item_reference").then_some(id),
        None | Some(Value::Null) => item.get("role").is_none().then_some(id),
        Some(_) => None,
    }
}

/// Returns the list that has the item with this identifier; `None` if it is not the gateway's.
fn list_of(id: &str) -> Option<(String, ResponseList)> {
    let (prefix, digits) = id.split_once('_')?;
    let is_own = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let list = if prefix == "in" { ResponseList::Input } else { ResponseList::Output };
    is_own.then(|| (format!("resp_{}", &digits[..RESPONSE_DIGITS]), list))
}

fn not_found(has_archive: bool, position: usize, id: &str) -> ApiError {
    let shown = cut(id[..id.floor_char_boundary(SHOWN_BYTES + 4)].to_owned(), SHOWN_BYTES);
    let reason = if has_archive {
        "The response that it is part of is not stored: it was made with `store: false`, has expired or was deleted, or another \
         key made it. Send the item itself."
    } else {
        "This gateway stores no responses (`server.responses.store` of its configuration is false). Send the item itself; the AI \
         SDK does with `store: false`."
    };
    let message = format!("Item with id '{shown}' not found. {reason}");
    ApiError::not_found("item_not_found", message).about(&format!("input[{position}].id"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_has_an_id_and_no_other_type() {
        for (item, expected) in [
            (json!({"type": "item_reference", "id": "x"}), Some("x")),
            (json!({"type": null, "id": "x"}), Some("x")),
            (json!({"id": "x"}), Some("x")),
            (json!({"id": "x", "role": "user", "content": ""}), None),
            (json!({"type": "message", "id": "x"}), None),
            (json!({"type": "item_reference"}), None),
            (json!("x"), None),
        ] {
            assert_eq!(referenced(&item), expected, "{item}");
        }
    }

    #[test]
    fn an_item_is_charged_and_copied_for_each_of_its_references() {
        let item = json!({"type": "message", "id": "x", "content": "long"});
        let found = BTreeMap::from([("x".to_owned(), item.clone())]);
        let input = vec![json!({"id": "x"}), json!("text"), json!({"id": "x"})];
        let references = references_in(&input);
        let of_one = weight(&item) + json::text_len(&item);
        let bytes = copied_bytes(&references, &found, true).expect("it is found");
        assert_eq!(bytes, 2 * of_one);
        let resolved = with_copies(input, references, &found);
        assert_eq!(resolved, [item.clone(), json!("text"), item]);
        let unknown = [(0, "y".to_owned())];
        let error = copied_bytes(&unknown, &found, true).expect_err("it is not found");
        assert_eq!(error.status().as_u16(), 404);
    }

    #[test]
    fn an_own_identifier_names_its_response_and_its_list() {
        let digits = "0123456789abcdef0123456789abcdef";
        let response = format!("resp_{digits}");
        assert_eq!(
            list_of(&format!("msg_{digits}0001")),
            Some((response.clone(), ResponseList::Output))
        );
        assert_eq!(
            list_of(&format!("in_{digits}0000")),
            Some((response.clone(), ResponseList::Input))
        );
        for other in ["", "msg_", "rs_0123", &response, &format!("msg_{digits}000x")] {
            assert_eq!(list_of(other), None, "{other}");
        }
    }
}
