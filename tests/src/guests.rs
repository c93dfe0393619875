//! The components: a constant for each, with its path. `build.rs` builds them.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
