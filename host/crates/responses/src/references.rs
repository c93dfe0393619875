//! References to items of stored Responses in the input of a request: `{"type": "item_reference",
//! "id": …}`. The AI SDK sends one for each item that it received, unless a request has
//! `store: false`.
//!
//! The identifier of an item has that of its Response, so no item needs an index of its own. An
//! identifier that a provider gave, as that of its reasoning, is looked up in the Responses that the
//! other references name: a client refers to all items of a Response, or to none.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{StoredResponses, items, stored as store};
use airlock_core::request_memory::RequestCharge;
use airlock_http::respond::ApiError;
use airlock_json::{self as json, weight::weight};
use airlock_store::responses::ResponseList;
use airlock_strings::cut;

/// Digits of an identifier behind its prefix: those of the Response, the round and the place.
const DIGITS: usize = 36;
const RESPONSE_DIGITS: usize = 32;
/// Maximum length of an identifier that an error repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// Replaces the references in the input by the items of the sender's stored Responses. Fails if one
/// of them is not stored, or if there is no memory for them.
pub async fn resolve(
    stored: StoredResponses<'_>,
    input: &mut [Value],
    charge: &RequestCharge,
) -> Result<(), ApiError> {
    let references: Vec<(usize, String)> = input
        .iter()
        .enumerate()
        .filter_map(|(position, item)| Some((position, referenced(item)?.to_owned())))
        .collect();
    if references.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<(String, ResponseList)> =
        references.iter().filter_map(|(_, id)| list_of(id)).collect();
    let wanted: Vec<(String, ResponseList)> = wanted.into_iter().collect();
    let lists = store::lists(stored, wanted.clone(), charge).await;
    let lists = lists.map_err(|error| error.about("input"))?;
    let mut found = BTreeMap::new();
    for ((response, list), mut items) in wanted.into_iter().zip(lists) {
        if list == ResponseList::Input {
            items::identify(&mut items, &response);
        }
        let named = items
            .into_iter()
            .filter_map(|item| Some((item.get("id").and_then(Value::as_str)?.to_owned(), item)));
        found.extend(named);
    }
    for (position, id) in references {
        let item = found.get(&id).ok_or_else(|| not_found(stored, position, &id))?;
        // A copy, because an item may be referred to more than once.
        charge.grow(weight(item).saturating_add(json::text_len(item)))?;
        input[position] = item.clone();
    }
    Ok(())
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

fn not_found(stored: StoredResponses<'_>, position: usize, id: &str) -> ApiError {
    let shown = cut(id[..id.floor_char_boundary(SHOWN_BYTES + 4)].to_owned(), SHOWN_BYTES);
    let reason = if stored.archive.is_some() {
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
