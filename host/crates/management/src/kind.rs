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

/// All of them.
pub(crate) static LISTED: [ListedKind; 7] = [
    ListedKind {
        kind: EntryKind::Team,
        owner: "Team",
        path: ["governance", "teams"],
        many: "teams",
        one: "team",
        title: "Team",
        acts: ["team.create", "team.update", "team.delete"],
        has_id: true,
    },
    ListedKind {
        kind: EntryKind::Customer,
        owner: "Customer",
        path: ["governance", "customers"],
        many: "customers",
        one: "customer",
        title: "Customer",
        acts: ["customer.create", "customer.update", "customer.delete"],
        has_id: true,
    },
    ListedKind {
        kind: EntryKind::Role,
        owner: "Role",
        path: ["governance", "roles"],
        many: "roles",
        one: "role",
        title: "Role",
        acts: ["role.create", "role.update", "role.delete"],
        has_id: false,
    },
    ListedKind {
        kind: EntryKind::Environment,
        owner: "Environment",
        path: ["governance", "environments"],
        many: "environments",
        one: "environment",
        title: "Environment",
        acts: ["environment.create", "environment.update", "environment.delete"],
        has_id: false,
    },
    ListedKind {
        kind: EntryKind::VirtualMcp,
        owner: "VirtualMcp",
        path: ["mcp", "virtual-mcps"],
        many: "virtual_mcps",
        one: "virtual_mcp",
        title: "Virtual MCP",
        acts: ["virtual_mcp.create", "virtual_mcp.update", "virtual_mcp.delete"],
        has_id: false,
    },
    ListedKind {
        kind: EntryKind::ModelConfig,
        owner: "ModelConfig",
        path: ["governance", "model-configs"],
        many: "model_configs",
        one: "model_config",
        title: "Model config",
        acts: ["model_config.create", "model_config.update", "model_config.delete"],
        has_id: true,
    },
    ListedKind {
        kind: EntryKind::PricingOverride,
        owner: "PricingOverride",
        path: ["governance", "pricing-overrides"],
        many: "pricing_overrides",
        one: "pricing_override",
        title: "Pricing override",
        acts: ["pricing_override.create", "pricing_override.update", "pricing_override.delete"],
        has_id: true,
    },
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
            // What is counted would be another thing.
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
