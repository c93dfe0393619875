//! The bytes of the buckets of a count.

use super::StoredBucket;
use crate::columns::{signed, unsigned};

/// Bytes of a bucket: its time and its amount, 8 bytes each.
const BUCKET: usize = 16;
/// Maximum number of buckets that are read. More than any window has.
const MAX_BUCKETS: usize = 1_024;

/// Renders buckets. An amount above the range of a signed number is that number's greatest.
pub(super) fn to_bytes(buckets: &[StoredBucket]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buckets.len() * BUCKET);
    for bucket in buckets {
        bytes.extend_from_slice(&bucket.start_ms.to_be_bytes());
        bytes.extend_from_slice(&signed(bucket.used).to_be_bytes());
    }
    bytes
}

/// Reads buckets. A part of one at the end is left out.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<StoredBucket> {
    let numbers: Vec<_> = bytes
        .chunks_exact(size_of::<i64>())
        .take(2 * MAX_BUCKETS)
        .map(|number| i64::from_be_bytes(number.try_into().expect("it has eight bytes")))
        .collect();
    let pairs = numbers.chunks_exact(2);
    pairs.map(|pair| StoredBucket { start_ms: pair[0], used: unsigned(pair[1]) }).collect()
}
