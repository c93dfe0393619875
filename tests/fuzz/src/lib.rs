//! Invariants of the reader of streamed responses, checked for any input.

mod harness;

/// The allocator that the tests of `airlock-json` count with.
#[path = "../../../host/crates/json/src/tests"]
mod counting {
    #[allow(dead_code)]
    mod allocator;

    /// Runs `make`, and returns its result and the bytes that are allocated afterwards and were not
    /// before.
    pub(crate) fn held_by<T>(make: impl FnOnce() -> T) -> (T, usize) {
        let (result, held) = allocator::held_by(make);
        (result, held.bytes)
    }
}

pub use harness::{chat_stream, chunks, sse};

#[cfg(test)]
mod tests;
