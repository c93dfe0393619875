//! A component's bytes before a guest runs: its custom sections are read, and its code is compiled
//! or taken from the cache.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod embed;
pub(crate) mod section;
