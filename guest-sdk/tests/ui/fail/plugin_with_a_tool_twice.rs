use airlock_guest::{plugin, tool};

/// Answers.
#[tool]
fn ping() {}

/// Answers, too.
#[tool]
fn pong() {}

plugin!(ping, pong, ping);

fn main() {}
