//! Invariants of the reader of streamed responses, checked for any input.
//!
//! The modules under test are private to the gateway. They are compiled from the gateway's own files
//! into a module tree of the same shape, so their paths resolve and nothing else is built.

#[path = "../../../host/crates/core/src"]
mod core_crate {
    #[allow(dead_code, unreachable_pub, unused_imports)]
    pub(crate) mod json;
}
use core_crate::json;

/// The allocator that the tests of `json` count with.
#[path = "../../../host/crates/core/src/json/tests"]
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

#[path = "../../../host/src/model"]
mod model {
    #![allow(dead_code, unreachable_pub)]

    mod budget;
    mod document;
    #[path = "../../../tests/fuzz/src/harness.rs"]
    pub(crate) mod harness;
    mod merge;
    mod part;
    mod repair;

    pub(crate) use self::{
        budget::{Held, MemoryBudget},
        document::Document,
        merge::Merged,
        part::Part,
        repair::Calls,
    };

    /// A JSON object of the API, its members in the order in which they came.
    pub type Object = serde_json::Map<String, serde_json::Value>;
}

pub use model::harness::{chat_stream, chunks, sse};
