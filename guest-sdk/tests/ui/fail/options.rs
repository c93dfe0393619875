use airlock_guest::tool;

/// Has an unknown key.
#[tool(readonly)]
fn unknown_key() {}

/// Has a key twice.
#[tool(read_only, idempotent, read_only)]
fn key_twice() {}

/// Contradicts itself.
#[tool(destructive, read_only)]
fn contradiction() {}

/// Has a title that is no text.
#[tool(title = 7)]
fn title() {}

/// Has a hint that is no flag.
#[tool(open_world = "yes")]
fn hint() {}

fn main() {}
