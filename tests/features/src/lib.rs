//! Nothing of its own. Checked together with the library without its features, this crate turns on the features that
//! the whole workspace has in crates of others, so that cargo does not check the engine once more. An entry that is
//! missing costs minutes, and nothing else.
