//! Files that this program carries for new plugins: the SDK and the contract. `build.rs` gathers
//! them.

include!(concat!(env!("OUT_DIR"), "/vendored.rs"));
