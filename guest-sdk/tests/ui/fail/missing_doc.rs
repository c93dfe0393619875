use airlock_guest::tool;

#[tool]
fn undocumented(/** What to do. */ _what: String) {}

///
#[tool]
fn blank() {}

fn main() {}
