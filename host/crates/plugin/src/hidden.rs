//! Entries that a plugin does not reach because the operator shares a store now, or shares it no
//! longer. They stay with their holders, and the log says how the operator moves them.

use tracing::warn;

use airlock_core::tool::ClientName;
use airlock_sandbox::KvStore;
use airlock_store::{
    Database,
    kv::{Holder, StoreUsage},
};

/// Entries of one store whose holders are not those of the grant.
#[derive(Debug, PartialEq, Eq)]
struct HiddenEntries<'s> {
    store: &'s KvStore,
    holders: usize,
    entries: u64,
}

/// Logs a warning for each store of a plugin that has hidden entries.
pub(super) async fn report(database: &Database, plugin: &ClientName, stores: &[KvStore]) {
    let usage = match database.kv_usage().await {
        Ok(usage) => usage,
        Err(error) => {
            return warn!(client = %plugin, %error, "it is not known whether entries of stores are hidden");
        }
    };
    for HiddenEntries { store, holders, entries } in find(plugin, stores, &usage) {
        let name = &store.name;
        if store.is_shared {
            warn!(
                client = %plugin, store = name, holders, entries,
                "the store is shared, so entries of single holders are hidden; `airlock plugin store` lists the holders, \
                 and `airlock plugin store PLUGIN STORE --from HOLDER --to shared` gives the entries to all callers"
            );
        } else {
            warn!(
                client = %plugin, store = name, entries,
                "the store is not shared, so the entries of all callers are hidden; \
                 `airlock plugin store PLUGIN STORE --from shared --to HOLDER` gives them to one holder"
            );
        }
    }
}

fn find<'s>(
    plugin: &ClientName,
    stores: &'s [KvStore],
    usage: &[StoreUsage],
) -> impl Iterator<Item = HiddenEntries<'s>> {
    stores.iter().filter_map(move |store| {
        let hidden = usage.iter().filter(|usage| {
            let is_of_store = usage.plugin == plugin.as_str() && usage.name == store.name;
            let is_other = match usage.holder {
                Holder::Tenant(_) => store.is_shared,
                Holder::Everyone => !store.is_shared,
                Holder::Unassigned => false,
            };
            is_of_store && is_other && usage.entries > 0
        });
        let hidden: Vec<_> = hidden.collect();
        let entries = hidden.iter().map(|usage| usage.entries).sum();
        (!hidden.is_empty()).then_some(HiddenEntries { store, holders: hidden.len(), entries })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(name: &str, is_shared: bool) -> KvStore {
        KvStore { name: name.to_owned(), max_bytes: 1, is_shared, is_cache: false }
    }

    fn usage(plugin: &str, name: &str, holder: Holder, entries: u64) -> StoreUsage {
        StoreUsage { plugin: plugin.to_owned(), name: name.to_owned(), holder, bytes: 1, entries }
    }

    #[test]
    fn entries_are_hidden_if_their_holders_are_not_those_of_the_grant() {
        let plugin = ClientName::parse("notes").expect("a name");
        let usage = [
            usage("notes", "notes", tenant(1), 2),
            usage("notes", "notes", tenant(2), 3),
            usage("notes", "notes", tenant(3), 0),
            usage("notes", "notes", Holder::Everyone, 7),
            usage("notes", "notes", Holder::Unassigned, 9),
            usage("notes", "seen", tenant(1), 11),
            usage("other", "notes", tenant(1), 13),
        ];
        let found = |stores: &[KvStore]| {
            let hidden = find(&plugin, stores, &usage);
            hidden.map(|hidden| (hidden.holders, hidden.entries)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[store("notes", true)]), [(2, 5)]);
        assert_eq!(found(&[store("notes", false)]), [(1, 7)]);
        assert_eq!(found(&[store("seen", false), store("unused", true)]), []);
    }

    fn tenant(number: u8) -> Holder {
        Holder::Tenant([number; 32])
    }
}
