//! Paths of the components, one constant each. `build.rs` builds them.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));
