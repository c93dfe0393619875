//! Names of clients, made from the names that servers have in other programs.

use std::collections::HashSet;

use airlock_core::tool::ClientName;

/// Returns the line about a client that could not keep its name.
pub(super) fn renamed(name: &str, client_name: &str) -> String {
    let nearest = nearest(name);
    let reason = if nearest == client_name {
        "names have no other characters than letters, digits and `_`".to_owned()
    } else {
        format!("another client is named {nearest:?}")
    };
    format!("the client is named {client_name:?}: {reason}")
}

/// Returns the nearest name that a client may have and no other one has.
pub(super) fn free_name<'a>(name: &str, taken: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(name);
    let taken: HashSet<_> = taken.collect();
    let numbered = (2..).map(|number| {
        let end = format!("_{number}");
        let most = 32 - end.len();
        format!("{}{end}", nearest.get(..most).unwrap_or(&nearest))
    });
    let mut candidates = std::iter::once(nearest.clone()).chain(numbered);
    candidates.find(|name| !taken.contains(name.as_str())).expect("the numbers do not end")
}

/// Returns the nearest name that a client may have.
fn nearest(name: &str) -> String {
    let cleaned = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let mut cleaned: String = cleaned.take(32).collect();
    if ClientName::parse(&cleaned).is_err() {
        cleaned.insert(0, '_');
        cleaned.truncate(32);
    }
    cleaned
}
