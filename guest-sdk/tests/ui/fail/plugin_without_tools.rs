airlock_guest::plugin!();

fn main() {}
