//! Refused values: a message for people, and typed data by which later steps decide.

use std::fmt;

use crate::{error::Problem, key_path::KeyPath};

/// A refused value of a part of the file.
pub struct RefusedValue {
    /// Its key, relative to the part.
    pub key: KeyPath,
    /// The reason.
    pub reason: InvalidValue,
}

/// Reason that a value is refused. The value is not quoted if it may be a credential.
pub struct InvalidValue {
    message: String,
    /// Referent of the value that does not exist; `None` if the value itself is not valid.
    pub absent: Option<Referent>,
}

/// Something that a value refers to.
#[derive(Clone, PartialEq, Eq)]
pub enum Referent {
    /// An environment variable of the gateway.
    Variable(String),
    /// An element of another part of the file.
    ElementOf(NamedPart),
}

airlock_strings::named_enum! {
    /// A part of the file to whose elements other parts refer by name. The names are the keys of the parts.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum NamedPart {
        /// `mcp.client_configs`.
        Clients = "mcp.client_configs",
        /// `providers`.
        Providers = "providers",
        /// `governance.virtual_keys`.
        VirtualKeys = "governance.virtual_keys",
        /// `governance.roles`.
        Roles = "governance.roles",
        /// `governance.environments`.
        Environments = "governance.environments",
        /// `governance.teams`.
        Teams = "governance.teams",
        /// `governance.customers`.
        Customers = "governance.customers",
        /// `mcp.virtual_mcps`.
        VirtualMcps = "mcp.virtual_mcps",
        /// `governance.model_configs`.
        ModelConfigs = "governance.model_configs",
        /// `governance.pricing_overrides`.
        PricingOverrides = "governance.pricing_overrides",
    }
}

impl NamedPart {
    /// Returns the member of an element by which it is named.
    pub fn name_member(self) -> &'static str {
        match self {
            Self::ModelConfigs | Self::PricingOverrides => "id",
            _ => "name",
        }
    }

    /// Returns the key of the part as a JSON Pointer.
    pub fn pointer(self) -> String {
        format!("/{}", self.name().replace('.', "/"))
    }

    /// Returns the key of the part.
    pub fn key(self) -> KeyPath {
        KeyPath::parse(self.name())
    }
}

impl InvalidValue {
    /// Returns the reason that a value names an element of a part that does not exist. `known` are the
    /// names that it could be.
    pub fn unknown<'n>(
        part: NamedPart,
        kind: &str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> Self {
        let mut known: Vec<_> =
            known.take(airlock_strings::MAX_NAMED + 1).map(|name| format!("{name:?}")).collect();
        if known.len() > airlock_strings::MAX_NAMED {
            known.truncate(airlock_strings::MAX_NAMED);
            known.push("others".to_owned());
        }
        let part_key = part.key();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("no {kind} is named {name:?}; `{part_key}` has {known}");
        Self::absent(Referent::ElementOf(part), message)
    }

    /// Returns the reason that a referent of the value does not exist.
    pub fn absent(referent: Referent, message: impl fmt::Display) -> Self {
        Self { absent: Some(referent), ..Self::from(message) }
    }
}

// It does not implement `Display`, so that a conversion into text cannot lose its referent.
impl<T: fmt::Display> From<T> for InvalidValue {
    fn from(message: T) -> Self {
        Self { message: message.to_string(), absent: None }
    }
}

impl From<RefusedValue> for Problem {
    fn from(RefusedValue { key, reason }: RefusedValue) -> Self {
        Self { key, message: reason.message }
    }
}
