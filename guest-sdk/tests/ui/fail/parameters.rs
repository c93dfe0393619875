use airlock_guest::{Context, tool};

/// Takes a value apart.
#[tool]
fn pattern((_a, _b): (u8, u8)) {}

/// Borrows a text.
#[tool]
fn borrowed(_text: &str) {}

/// Takes anything.
#[tool]
fn opaque(_text: impl Into<String>) {}

/// Owns the context.
#[tool]
fn owned_context(_context: Context<'_>) {}

/// Changes the context.
#[tool]
fn changed_context(_context: &mut Context) {}

/// Has two contexts.
#[tool]
fn two_contexts(_a: &Context, _b: &Context) {}

/// Has an attribute of something else.
#[tool]
fn attribute(#[clap(long)] _text: String) {}

fn main() {}
