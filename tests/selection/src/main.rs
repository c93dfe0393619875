//! Turns on the features of the whole workspace where `tests/unit` tests some of its packages. Without it, these would be
//! compiled with fewer features, and with them most crates that they depend on, the engine among them.

fn main() {}
