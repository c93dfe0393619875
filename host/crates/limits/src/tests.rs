//! Tests of limiters on the stores that they share.

mod bytes;
mod calls;
mod home;
mod killed;
mod operators;
mod requests;

use std::time::Duration;

use crate::limit::{Limit, Measure, Owner, Scope, Window};

const MINUTE: Window = Window::Rolling(Duration::from_mins(1));
/// Longest time for which an amount counts in a window of a minute.
const MINUTE_AT_MOST: Duration = Duration::from_secs(61);

/// Returns a limit of all callers, for everything.
fn limit(id: &str, measure: Measure, most: u64, window: Window) -> Limit {
    let owner = Owner::Everyone;
    let id = id.to_owned();
    Limit { id, owner, owner_name: None, scope: Scope::All, measure, most, window }
}
