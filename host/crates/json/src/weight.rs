//! Upper estimates of the memory of JSON values, for those that were not read from one text.

use serde_json::{Map, Value};

/// Memory of an item of a list, in bytes, with the capacity that a list may have to spare.
pub const ITEM_BYTES: usize = 2 * size_of::<Value>();
/// Memory of a list without its items, in bytes: the first item allocates four.
pub const LIST_BYTES: usize = 2 * size_of::<Value>();
/// Memory of a member of an object, in bytes, with its hash, the capacity to spare and its part of
/// the hash table.
pub const MEMBER_BYTES: usize = 2 * size_of::<(u64, String, Value)>() + 32;
/// Memory of an object without its members, in bytes: the first member allocates three.
pub const OBJECT_BYTES: usize = 2 * size_of::<(u64, String, Value)>();

/// Returns an upper estimate of the memory that a value owns, in bytes, with the capacity that it
/// has to spare after it has grown. The estimate of a value that is merged from pieces can be kept as a
/// sum, with the constants of this module.
pub fn weight(value: &Value) -> usize {
    match value {
        // The smallest text allocates eight bytes.
        Value::String(text) => text.len() * 2 + 8,
        Value::Array(items) => {
            LIST_BYTES + items.iter().map(|item| weight(item) + ITEM_BYTES).sum::<usize>()
        }
        Value::Object(members) => object_weight(members),
        _ => 0,
    }
}

/// Returns the same estimate of an object.
pub fn object_weight(object: &Map<String, Value>) -> usize {
    let members = object.iter().map(|(name, value)| name.len() + MEMBER_BYTES + weight(value));
    OBJECT_BYTES + members.sum::<usize>()
}
