//! Names in a file whose elements are in the store.

use std::collections::BTreeSet;

use super::{named_set::AbsentSets, team::AbsentGroups};
use airlock_core::tool::ClientName;

/// Names that elements of a file may refer to although no element has them any more, because entries of
/// the store stand in the place of those that had.
#[derive(Debug, Default)]
pub(crate) struct AbsentNames {
    /// Clients. They are treated as those that are disabled.
    pub(crate) clients: BTreeSet<ClientName>,
    /// Active virtual keys. A gateway whose file has one requires keys, even if operators have removed
    /// it since.
    pub(crate) keys: BTreeSet<String>,
    /// All virtual keys of the file, active or not.
    pub(crate) file_keys: BTreeSet<String>,
    /// Roles and environments of the file.
    pub(crate) sets: AbsentSets,
    /// Teams and customers of the file.
    pub(crate) groups: AbsentGroups,
    /// Names of the groups of tools of the store.
    pub(crate) store_mcps: BTreeSet<String>,
    /// Identifiers of the limits on models of the store.
    pub(crate) store_model_configs: BTreeSet<String>,
    /// Names and identifiers of all virtual keys of the file whose place an entry takes.
    pub(crate) key_ids: BTreeSet<String>,
    /// True if operators have ever changed a virtual key. The gateway requires keys from then on: the
    /// removal of the last one opens nothing, after a restart neither.
    pub(crate) had_keys: bool,
}
