//! Misbehaves on request, to demonstrate the reaction of the sandbox. It requests no grants.

use airlock_guest::tool;

/// Breaks off in the middle, as a plugin with a bug would: an index past the end of a list.
#[tool(read_only)]
fn crash(
    /// Which element of a list of three to read; anything above 2 crashes.
    index: u32,
) -> String {
    let list = ["one", "two", "three"];
    list[index as usize].to_owned()
}

/// Computes for ever.
#[tool(read_only)]
fn spin() -> String {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}

airlock_guest::plugin!(crash, spin);
