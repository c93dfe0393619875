//! The bytes of the buckets of a count.

use super::StoredBucket;
use airlock_database::columns::{signed, unsigned};

/// Bytes of a bucket: its time and its amount, 8 bytes each.
const BUCKET: usize = 16;
/// Maximum number of buckets that are read, as each use of a limit goes through all of them. More
/// than any window has: one that rolls has a bucket for each 64th of it.
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

/// Reads buckets. A part of one at the end is left out. Of more than [`MAX_BUCKETS`], the oldest count as
/// one, at the time of the latest of them: a count may end later, and is never too low.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<StoredBucket> {
    let numbers: Vec<_> = bytes
        .chunks_exact(size_of::<i64>())
        .map(|number| i64::from_be_bytes(number.try_into().expect("it has eight bytes")))
        .collect();
    let pairs = numbers.chunks_exact(2);
    let buckets = pairs.map(|pair| StoredBucket { start_ms: pair[0], used: unsigned(pair[1]) });
    let mut buckets: Vec<_> = buckets.collect();
    let surplus = buckets.len().saturating_sub(MAX_BUCKETS);
    let merged =
        buckets.drain(..surplus).fold(0, |sum: u64, bucket| sum.saturating_add(bucket.used));
    if let Some(first) = buckets.first_mut() {
        first.used = first.used.saturating_add(merged);
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_buckets_the_oldest_are_merged_and_their_amounts_count() {
        let times = (0..).take(MAX_BUCKETS + 2);
        let buckets: Vec<_> = times.map(|start_ms| StoredBucket { start_ms, used: 1 }).collect();
        let mut bytes = to_bytes(&buckets[2..]);
        assert_eq!(from_bytes(&bytes), buckets[2..], "as many as are read");
        bytes = to_bytes(&buckets);
        bytes.push(0);
        let read = from_bytes(&bytes);
        assert_eq!(read.len(), MAX_BUCKETS);
        assert_eq!(read[0], StoredBucket { start_ms: 2, used: 3 });
        assert_eq!(read[1..], buckets[3..]);
    }
}
