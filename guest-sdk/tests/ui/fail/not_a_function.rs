use airlock_guest::tool;

/// Not a function.
#[tool]
pub struct Counter {
    count: u32,
}

fn main() {}
