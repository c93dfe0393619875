use airlock_guest::tool;

/// Has a space in its name.
#[tool(name = "word count")]
fn spaced() {}

/// Has no name.
#[tool(name = "")]
fn empty() {}

/// Has a letter that providers refuse.
#[tool]
fn zählen() {}

/// Has a name of 64 characters, which is the most.
#[tool]
fn a234567890123456789012345678901234567890123456789012345678901234() {}

/// Has a name of 65 characters.
#[tool]
fn a2345678901234567890123456789012345678901234567890123456789012345() {}

fn main() {}
