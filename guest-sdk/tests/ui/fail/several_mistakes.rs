use airlock_guest::tool;

#[tool(fast)]
async fn wrong(_text: &str) {}

fn main() {}
