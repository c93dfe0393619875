use airlock_guest::{plugin, tool};

/// Answers.
#[tool]
fn ping() {}

/// Answers under the same name.
#[tool(name = "ping")]
fn pong() {}

plugin!(ping, pong);

fn main() {}
