use airlock_guest::{plugin, tool};

/// Borrows a text.
#[tool]
fn borrowed(_text: &str) {}

#[tool(fast)]
fn undocumented() {}

plugin!(borrowed, undocumented);

fn main() {}
