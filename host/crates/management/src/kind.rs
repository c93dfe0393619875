//! The kinds of elements that are managed in one way: one line for each.

use airlock_store::entries::EntryKind;

/// A kind of elements whose bodies are those of the configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedKind {
    pub(crate) kind: EntryKind,
    /// Name of their type in the configuration file.
    pub(crate) owner: &'static str,
    /// Segments of the path of their list, below `api`.
    pub(crate) path: [&'static str; 2],
    /// Member of a response with many of them.
    pub(crate) many: &'static str,
    /// Member of a response with one of them.
    pub(crate) one: &'static str,
    /// Their name in messages.
    pub(crate) title: &'static str,
    /// Acts for the record: creation, update, deletion.
    pub(crate) acts: [&'static str; 3],
    /// True if each gets an identifier, by which others may name it.
    pub(crate) has_id: bool,
}

/// Writes the line of a kind: its entries, the path of its list, its names in responses and messages, and whether
/// each of its elements gets an identifier.
macro_rules! listed {
    ($kind:ident, $area:literal, $list:literal, $one:literal, $title:literal, $has_id:literal) => {
        ListedKind {
            kind: EntryKind::$kind,
            owner: stringify!($kind),
            path: [$area, $list],
            many: concat!($one, "s"),
            one: $one,
            title: $title,
            acts: [concat!($one, ".create"), concat!($one, ".update"), concat!($one, ".delete")],
            has_id: $has_id,
        }
    };
}

/// All of them.
pub(crate) static LISTED: [ListedKind; 7] = [
    listed!(Team, "governance", "teams", "team", "Team", true),
    listed!(Customer, "governance", "customers", "customer", "Customer", true),
    listed!(Role, "governance", "roles", "role", "Role", false),
    listed!(Environment, "governance", "environments", "environment", "Environment", false),
    listed!(VirtualMcp, "mcp", "virtual-mcps", "virtual_mcp", "Virtual MCP", false),
    listed!(ModelConfig, "governance", "model-configs", "model_config", "Model config", true),
    listed!(
        PricingOverride,
        "governance",
        "pricing-overrides",
        "pricing_override",
        "Pricing override",
        true
    ),
];

impl ListedKind {
    /// Returns the member by which an element is named.
    pub(crate) fn name_member(&self) -> &'static str {
        match self.kind {
            EntryKind::ModelConfig | EntryKind::PricingOverride => "id",
            _ => "name",
        }
    }

    /// Returns the members that never change.
    pub(crate) fn fixed(&self) -> &'static [&'static str] {
        match self.kind {
            // Its counts would be those of another limit.
            EntryKind::ModelConfig => {
                &["id", "source", "model_name", "provider", "scope", "scope_id"]
            }
            EntryKind::PricingOverride => &["id", "source"],
            _ => &["name", "id", "source"],
        }
    }

    /// Finds the kind whose list is at a path below `api`.
    pub(crate) fn at(path: [&str; 2]) -> Option<&'static Self> {
        LISTED.iter().find(|listed| listed.path == path)
    }
}

/// A member by which elements of one kind name those of another.
pub(crate) struct Reference {
    /// Kind of the elements that are named.
    pub(crate) to: EntryKind,
    /// Kind of the elements that have the member.
    pub(crate) from: EntryKind,
    /// The member: a text or a list of texts.
    pub(crate) member: &'static str,
}

/// Members that keep the elements that they name from being deleted. Owners of clients do not: a key is
/// always revoked.
pub(crate) static REFERENCES: [Reference; 5] = [
    Reference { to: EntryKind::Team, from: EntryKind::VirtualKey, member: "team_id" },
    Reference { to: EntryKind::Customer, from: EntryKind::VirtualKey, member: "customer_id" },
    Reference { to: EntryKind::Customer, from: EntryKind::Team, member: "customer_id" },
    Reference { to: EntryKind::Role, from: EntryKind::VirtualKey, member: "roles" },
    Reference { to: EntryKind::Environment, from: EntryKind::VirtualKey, member: "environment" },
];

/// Returns the word for an element of this kind.
pub(crate) fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Client => "the client",
        EntryKind::VirtualKey => "the virtual key",
        EntryKind::Team => "the team",
        EntryKind::Customer => "the customer",
        EntryKind::Role => "the role",
        EntryKind::Environment => "the environment",
        EntryKind::VirtualMcp => "the virtual MCP",
        EntryKind::ModelConfig => "the model config",
        EntryKind::PricingOverride => "the pricing override",
        EntryKind::Setting => "the setting",
        EntryKind::KeyValue => "the credential of the virtual key",
    }
}
