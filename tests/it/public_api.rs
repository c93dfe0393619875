//! The public API of the package `airlock`, against the list of it.
//!
//! The list has a line for each item that an embedding program can name: functions, types with their public fields, variants,
//! methods and traits, constants. With `UPDATE_PUBLIC_API` set, the test writes it. Any difference fails the test.
//!
//! | file | purpose |
//! |---|---|
//! | `sources` | the modules of the crates, as they are written; follows paths to items |
//! | `listing` | the items that can be named from outside, under the first name that each has |
//! | `lines` | one item as lines |
//! | `macros` | the items that macros define |
//! | `text` | tokens as text |

mod lines;
mod listing;
mod macros;
mod sources;
mod text;

use std::{collections::BTreeSet, env, fs};

use airlock_tests::root;

use self::{listing::Listing, sources::Sources};

/// The list, below the repository.
const LIST: &str = "tests/it/public_api/airlock.txt";
/// Lines of a difference that are shown.
const SHOWN: usize = 40;

#[test]
fn the_public_api_is_the_one_of_the_list() {
    let sources = Sources::read("airlock");
    let found = Listing::lines(&sources, "airlock");
    check_depth(&found);
    let list = root().join(LIST);
    if env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&list, found.join("\n") + "\n").expect("the list is written");
        return;
    }
    let listed = fs::read_to_string(&list).unwrap_or_default();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let gone = shown('-', listed.difference(&found));
    assert!(
        gone.is_empty(),
        "these parts of the public API are gone or changed, which breaks embedding programs. Keep them; or raise the version \
         in Cargo.toml, write the change into CHANGELOG.md, and run this test with UPDATE_PUBLIC_API=1:\n{gone}"
    );
    let new = shown('+', found.difference(&listed));
    assert!(
        new.is_empty(),
        "these parts of the public API are not in {LIST}: run this test with UPDATE_PUBLIC_API=1, and look at the \
         difference before it is committed:\n{new}"
    );
}

/// Returns lines with a mark before each.
fn shown<'l>(mark: char, lines: impl Iterator<Item = &'l &'l str>) -> String {
    lines.take(SHOWN).fold(String::new(), |shown, line| shown + &format!("{mark} {line}\n"))
}

/// Fails if re-exports were not followed to fields, methods and variants: a list without them would hold nothing.
fn check_depth(found: &[String]) {
    for start in [
        "airlock::Gateway::builder: fn builder(",
        "airlock::GatewayRequest::deny: async fn deny(&self, id: &str, reason: &str) -> Result<(), RequestError>",
        "airlock::Tenant: struct Tenant",
        "airlock::door::Approved.tool: ",
        "airlock::runner::PendingDecision::Denied: { reason: String }",
        "airlock::runner::PendingRun::deny: fn deny(&mut self, id: u32, reason: &str) -> Result<(), NoSuchCall>",
        "airlock::schemars = schemars",
    ] {
        assert!(found.iter().any(|line| line.starts_with(start)), "no line begins with {start:?}");
    }
    let private = found.iter().find(|line| line.contains("::PendingRun.content"));
    assert_eq!(private, None, "a private field");
}
