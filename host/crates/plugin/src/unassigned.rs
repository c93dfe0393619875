//! Entries of stores from a version in which all tenants shared every store: the operator decides
//! whose they are, and until then the plugin is not loaded.

use super::Grant;
use airlock_core::{tool::ClientName, units::Size};
use airlock_sandbox::KvStore;
use airlock_store::{
    Database, Unavailable,
    kv::{Holder, StoreUsage, TransferError},
};

/// A granted store with entries whose holder the operator has not chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its store {store:?} has {entries} entries ({}) from a version in which all keys shared every store; each key \
     now has a store of its own, so choose whose they are: all callers', with \"shared\": true in \
     grants.kv.{store}; those of one key, with `airlock plugin store {plugin} {store} --to key:NAME`, or of \
     callers without a key, with `--to anonymous`; or delete them with `--delete`",
    Size(*bytes)
)]
pub struct UnassignedStore {
    plugin: ClientName,
    store: String,
    entries: u64,
    bytes: u64,
}

/// Reason that the stores of a plugin cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operator has to choose the holder of the entries of one.
    #[error(transparent)]
    Unassigned(#[from] UnassignedStore),
    /// The database cannot be used right now.
    #[error("its stores cannot be read")]
    Unavailable(#[from] Unavailable),
}

impl UnassignedStore {
    /// Returns the stores of a plugin for which the operator has to choose a holder. A grant with
    /// `shared` is a choice.
    pub fn find(plugin: &ClientName, grant: &Grant, usage: &[StoreUsage]) -> Vec<Self> {
        let granted = unassigned(plugin, usage)
            .filter(|store| grant.kv.get(&store.store).is_some_and(|granted| !granted.shared));
        granted.collect()
    }
}

/// Gives the entries without a holder to everyone where the operator shares the store. Fails if
/// another store that the plugin may open has entries without a holder.
pub(super) async fn settle(
    database: &Database,
    plugin: &ClientName,
    stores: &[KvStore],
) -> Result<(), StoreError> {
    let usage = database.kv_usage().await?;
    for found in unassigned(plugin, &usage) {
        let Some(store) = stores.iter().find(|store| store.name == found.store) else { continue };
        if !store.is_shared {
            return Err(found.into());
        }
        let from = Holder::Unassigned;
        let to = Holder::Everyone;
        match database.transfer_kv(plugin.as_str(), &store.name, from, to).await {
            Ok(_) => {}
            Err(TransferError::Occupied { .. }) => return Err(found.into()),
            Err(TransferError::Unavailable(cause)) => return Err(cause.into()),
        }
    }
    Ok(())
}

fn unassigned<'u>(
    plugin: &'u ClientName,
    usage: &'u [StoreUsage],
) -> impl Iterator<Item = UnassignedStore> + 'u {
    let undecided = usage.iter().filter(|usage| {
        usage.holder == Holder::Unassigned && usage.plugin == plugin.as_str() && usage.entries > 0
    });
    undecided.map(|usage| UnassignedStore {
        plugin: plugin.clone(),
        store: usage.name.clone(),
        entries: usage.entries,
        bytes: usage.bytes,
    })
}
