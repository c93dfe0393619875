//! Memory of a tree of `serde_json` with its feature `preserve_order`.
//!
//! An array is a `Vec`, which starts with a capacity of 4 elements and doubles. An object is an
//! `IndexMap`: a `Vec` of entries and a hash table of their indices, which grow together. Tests
//! compare the charges with the bytes that are requested from the allocator.

use serde_json::Value;

/// Bytes of a value, inside its parent or as the root.
pub(super) const VALUE_BYTES: usize = size_of::<Value>();
/// Bytes of an entry of an object: hash, key and value.
const ENTRY_BYTES: usize = size_of::<(u64, String, Value)>();
/// Bytes of a bucket of a hash table: an index and a control byte.
const BUCKET_BYTES: usize = size_of::<usize>() + 1;
/// Control bytes that a hash table repeats at its end, the most of any platform, and its alignment.
const TABLE_BYTES: usize = 16;

/// Capacity of an array after its first push, in elements.
const FIRST_ELEMENTS: usize = 4;

/// Returns the memory of one allocation of `bytes`. General-purpose allocators add a word of their
/// own and round up.
pub(super) const fn allocation(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => (bytes.saturating_add(8)).next_multiple_of(16),
    }
}

/// Returns the bytes by which an array of `members` elements grows when one is added.
pub(super) const fn array_growth(members: usize) -> usize {
    match members {
        0 => allocation(FIRST_ELEMENTS * VALUE_BYTES),
        1..FIRST_ELEMENTS => 0,
        full if full.is_power_of_two() => {
            allocation(full * 2 * VALUE_BYTES) - allocation(full * VALUE_BYTES)
        }
        _ => 0,
    }
}

/// Returns the bytes by which an object of `members` entries grows when one is added.
pub(super) const fn object_growth(members: usize) -> usize {
    match members {
        0 => object(4),
        3 => object(8) - object(4),
        // A table of 8 buckets or more is full at seven eighths.
        full if full % 7 == 0 && (full / 7).is_power_of_two() => {
            object(full / 7 * 16) - object(full / 7 * 8)
        }
        _ => 0,
    }
}

/// Returns the bytes of an object whose hash table has `buckets` buckets.
const fn object(buckets: usize) -> usize {
    let entries = if buckets == 4 { 3 } else { buckets / 8 * 7 };
    allocation(entries * ENTRY_BYTES) + allocation(buckets * BUCKET_BYTES + TABLE_BYTES)
}
