//! Attacks by guests: each misdeed with the limits that it runs under and the error code that it
//! must end with.
//!
//! The test `hostile` and the program `make hostile` both go through the list. A new misdeed is a
//! new entry in one of the files below. Most are plugins written as text, because these can violate
//! the contract in any way.

mod calls;
mod compiled;
mod lies;
mod limits;
mod stores;
mod unloadable;

use std::{net::TcpListener, sync::LazyLock};

use serde_json::{Value, json};

pub use self::unloadable::{Unloadable, slow, unloadable};
use crate::{Client, Setup, guests, wat::Text};

/// One misdeed.
#[derive(Clone, Copy)]
pub struct Misdeed {
    /// Name of the source of tools that runs it.
    pub name: &'static str,
    /// Behaviour of the guest, as the end of "a guest that …".
    pub does: &'static str,
    /// The guest.
    pub guest: Guest,
    /// Limits other than the defaults, as the configuration has them.
    pub limits: &'static [(&'static str, LimitValue)],
    /// Grants of the guest, as JSON of the configuration; empty for none.
    pub grants: &'static str,
    /// Codes of the errors that it may end with.
    pub ends_with: &'static [&'static str],
}

/// The guest that runs a misdeed.
#[derive(Clone, Copy)]
pub enum Guest {
    /// A tool of `tests/guests/hostile`, with arguments.
    Compiled(&'static str, &'static str),
    /// A plugin written as text.
    Written(Text),
}

/// A value of the configuration.
#[derive(Clone, Copy)]
pub enum LimitValue {
    /// A number.
    Count(u64),
    /// A duration or a size.
    Text(&'static str),
}

/// A fuel limit that runs out within a fraction of the default CPU time, even if many programs
/// share one core. The limit that ends a guest is then known.
const LITTLE_FUEL: (&str, LimitValue) = ("fuel", LimitValue::Count(50_000_000));

/// Placeholder for the address of a server that accepts connections and never sends anything.
const SIGRANTED: &str = "SIGRANTED";

/// Returns the address that replaces [`SIGRANTED`]. The kernel completes the connections; no code
/// accepts them.
fn silent() -> String {
    static LISTENER: LazyLock<TcpListener> =
        LazyLock::new(|| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    LISTENER.local_addr().expect("it is bound").to_string()
}

/// Iterates over all misdeeds.
pub fn all() -> impl Iterator<Item = Misdeed> + Clone {
    [compiled::ALL, limits::ALL, lies::ALL, calls::ALL, stores::ALL].into_iter().flatten().copied()
}

impl Misdeed {
    const fn written(
        name: &'static str,
        does: &'static str,
        guest: Text,
        ends_with: &'static [&'static str],
    ) -> Self {
        Self { name, does, guest: Guest::Written(guest), limits: &[], grants: "", ends_with }
    }

    const fn within(self, limits: &'static [(&'static str, LimitValue)]) -> Self {
        Self { limits, ..self }
    }

    const fn granted(self, grants: &'static str) -> Self {
        Self { grants, ..self }
    }

    /// Returns the full name of its tool.
    pub fn tool(&self) -> String {
        match self.guest {
            Guest::Compiled(tool, _) => format!("{}-{tool}", self.name),
            Guest::Written(_) => format!("{}-run", self.name),
        }
    }

    /// Returns the arguments to call it with.
    pub fn arguments(&self) -> String {
        match self.guest {
            Guest::Compiled(_, arguments) => arguments.replace(SIGRANTED, &silent()),
            Guest::Written(_) => "{}".to_owned(),
        }
    }

    /// Describes its limits in a few words.
    pub fn limit(&self) -> String {
        let limit = |(name, value): &(&str, LimitValue)| match value {
            LimitValue::Count(count) => format!("{name} {count}"),
            LimitValue::Text(text) => format!("{name} {text}"),
        };
        if self.limits.is_empty() {
            "defaults".into()
        } else {
            self.limits.iter().map(limit).collect::<Vec<_>>().join(", ")
        }
    }

    /// Returns the source of tools that runs it.
    pub fn client(&self, setup: &Setup) -> Client {
        let client = match &self.guest {
            Guest::Compiled(..) => Client::wasm(self.name, guests::HOSTILE),
            Guest::Written(text) => Client::text(setup, self.name, text),
        };
        // Limits above the defaults need the trusted profile. All misdeeds get it, so that no entry
        // has to ask for it.
        let limits = self.limits.iter().fold(client.trusted(), |client, (name, value)| {
            let value: Value = match value {
                LimitValue::Count(count) => json!(count),
                LimitValue::Text(text) => json!(text),
            };
            client.limit(name, value)
        });
        if self.grants.is_empty() {
            return limits;
        }
        let grants: Value = serde_json::from_str(&self.grants.replace(SIGRANTED, &silent()))
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        limits.set("/wasm_config/grants", grants)
    }

    /// Returns whether a call that ended with `code` ended as it must.
    pub fn is_stopped_by(&self, code: &str) -> bool {
        self.ends_with.contains(&code)
    }
}

/// Adds every misdeed to a configuration.
pub fn configure(setup: Setup) -> Setup {
    all().fold(setup, |setup, misdeed| {
        let client = misdeed.client(&setup);
        setup.client(client)
    })
}
