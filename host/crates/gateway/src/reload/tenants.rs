//! The tenants of virtual keys, whose users' logins are removed together with a key.

use std::collections::{BTreeMap, BTreeSet};

use airlock_config::{Config, LeftOut};
use airlock_core::door::Keys;
use airlock_store::entries::EntryKind;

/// The tenants of the keys that this gateway has had and that were not removed: their scopes, with the names of
/// the keys.
pub(super) struct KnownTenants(BTreeMap<[u8; 32], String>);

impl KnownTenants {
    pub(super) fn new(keys: &Keys) -> Self {
        Self(scopes(keys).collect())
    }

    /// Replaces the keys. Returns the scopes of the tenants that have no key any more. A key that is only
    /// `refused` keeps its tenant.
    pub(super) fn replace(&mut self, keys: &Keys, refused: &BTreeSet<&str>) -> Vec<[u8; 32]> {
        let present: BTreeSet<_> = scopes(keys).map(|(scope, _)| scope).collect();
        let mut removed = Vec::new();
        self.0.retain(|scope, name| {
            let is_kept = present.contains(scope) || refused.contains(name.as_str());
            removed.extend((!is_kept).then_some(*scope));
            is_kept
        });
        self.0.extend(scopes(keys));
        removed
    }
}

/// Returns the names of the keys that this gateway does not have, although they were not removed: it lacks
/// their role, their environment or their credential, or cannot use their entry. Another gateway may.
pub(super) fn refused<'c>(config: &'c Config, left_out: &'c [LeftOut]) -> BTreeSet<&'c str> {
    let of_keys = left_out
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::VirtualKey | EntryKind::KeyValue));
    let of_keys = of_keys.map(|entry| &entry.name);
    let lacking = config.keys_withheld.iter().chain(&config.keys_without_value);
    lacking.chain(of_keys).map(String::as_str).collect()
}

fn scopes(keys: &Keys) -> impl Iterator<Item = ([u8; 32], String)> {
    keys.iter().map(|key| (key.tenant().scope(), key.name.clone()))
}

#[cfg(test)]
mod tests {
    use airlock_config::LeftOutReason;
    use airlock_core::door::VirtualKey;

    use super::*;

    fn keys(names: &[&str]) -> Keys {
        Keys::new(names.iter().map(|name| VirtualKey::new(*name, name, BTreeMap::new())))
    }

    #[test]
    fn a_key_that_is_only_refused_keeps_its_tenant_until_it_is_removed() {
        let ann = scopes(&keys(&["ann"])).next().expect("one").0;
        let bob = scopes(&keys(&["bob"])).next().expect("one").0;
        let mut known = KnownTenants::new(&keys(&["ann", "bob"]));
        assert!(known.replace(&keys(&["ann", "bob"]), &BTreeSet::new()).is_empty());
        assert_eq!(known.replace(&keys(&[]), &BTreeSet::from(["ann"])), [bob]);
        assert!(known.replace(&keys(&["ann"]), &BTreeSet::new()).is_empty());
        assert!(known.replace(&keys(&[]), &BTreeSet::from(["ann"])).is_empty());
        assert_eq!(known.replace(&keys(&[]), &BTreeSet::new()), [ann]);
        assert!(known.replace(&keys(&[]), &BTreeSet::new()).is_empty());
    }

    #[test]
    fn keys_are_refused_that_are_withheld_without_a_credential_or_left_out() {
        let mut config = Config::parse("{}", "test", &|_| None).expect("a configuration");
        config.keys_withheld = BTreeSet::from(["withheld".to_owned()]);
        config.keys_without_value = BTreeSet::from(["new".to_owned()]);
        let kinds = [EntryKind::VirtualKey, EntryKind::KeyValue, EntryKind::Client];
        let left_out = kinds.map(|kind| LeftOut {
            kind,
            name: kind.name().to_owned(),
            reason: LeftOutReason::FileChanged,
        });
        let expected = ["new", "withheld", kinds[0].name(), kinds[1].name()];
        assert_eq!(refused(&config, &left_out), BTreeSet::from(expected));
    }
}
