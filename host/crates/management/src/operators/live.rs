//! The table by which the tokens of operators are found.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::{
    timestamp::time,
    token::{self, TokenDigest},
};
use airlock_core::operator::Operator;
use airlock_operator_api::ConfiguredOperator;
use airlock_store::operators::StoredOperator;

/// The operators of a gateway, by the digests of their tokens. Readers never wait.
#[derive(Default)]
pub(crate) struct LiveOperators {
    by_digest: ArcSwap<BTreeMap<TokenDigest, KnownToken>>,
    /// Sources of the operators.
    sources: Mutex<OperatorSources>,
}

#[derive(Default)]
struct OperatorSources {
    in_file: Vec<ConfiguredOperator>,
    stored: Vec<StoredOperator>,
}

#[derive(Debug, Clone)]
struct KnownToken {
    operator: Arc<Operator>,
    expires: Option<SystemTime>,
}

impl LiveOperators {
    /// Finds the operator of a token. `None` if the token is unknown or has expired at `now`.
    pub(crate) fn find(&self, token: &str, now: SystemTime) -> Option<Arc<Operator>> {
        let known = self.by_digest.load();
        let known = known.get(&token::digest(token))?;
        known.expires.is_none_or(|expires| now < expires).then(|| known.operator.clone())
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_digest.load().is_empty()
    }

    /// Replaces the operators of the file.
    pub(crate) fn replace_in_file(&self, in_file: Vec<ConfiguredOperator>) {
        let mut sources = self.sources.lock();
        sources.in_file = in_file;
        self.by_digest.store(Arc::new(sources.by_digest()));
    }

    /// Replaces the operators of the store.
    pub(crate) fn replace_stored(&self, stored: Vec<StoredOperator>) {
        let mut sources = self.sources.lock();
        sources.stored = stored;
        self.by_digest.store(Arc::new(sources.by_digest()));
    }

    /// Returns the operators of the file.
    pub(super) fn in_file(&self) -> Vec<Operator> {
        self.sources.lock().in_file.iter().map(|own| own.operator.clone()).collect()
    }
}

impl OperatorSources {
    /// Returns all operators. Those of the file take precedence. A stored one whose role this version does
    /// not know is left out.
    fn by_digest(&self) -> BTreeMap<TokenDigest, KnownToken> {
        let stored = self.stored.iter().filter_map(|stored| {
            let expires = stored.expires_ms.map(time);
            let role = stored.role.parse().ok()?;
            let name = stored.name.clone();
            let operator = Operator { name, role, sees_payloads: stored.sees_payloads };
            Some((stored.digest, KnownToken { operator: Arc::new(operator), expires }))
        });
        let in_file = self.in_file.iter().map(|own| {
            (
                own.token_digest,
                KnownToken { operator: Arc::new(own.operator.clone()), expires: None },
            )
        });
        stored.chain(in_file).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use airlock_core::operator::Role;

    fn stored(name: &str, role: &str, token: &str, expires_ms: Option<i64>) -> StoredOperator {
        StoredOperator {
            id: name.to_owned(),
            name: name.to_owned(),
            role: role.to_owned(),
            sees_payloads: false,
            digest: token::digest(token),
            created_ms: 0,
            expires_ms,
        }
    }

    fn role_at(live: &LiveOperators, token: &str, seconds: u64) -> Option<Role> {
        let found = live.find(token, UNIX_EPOCH + Duration::from_secs(seconds));
        found.map(|found| found.role)
    }

    #[test]
    fn a_token_is_found_until_it_expires_or_is_replaced() {
        let live = LiveOperators::default();
        assert!(live.is_empty());
        let stored_ones = vec![
            stored("ann", "viewer", "t1", None),
            stored("bob", "admin", "t2", Some(5_000)),
            stored("cy", "owner", "t3", None),
        ];
        live.replace_stored(stored_ones);
        assert_eq!(role_at(&live, "t1", 9), Some(Role::Viewer));
        assert_eq!([role_at(&live, "t2", 4), role_at(&live, "t2", 5)], [Some(Role::Admin), None]);
        assert_eq!(
            [role_at(&live, "t3", 0), role_at(&live, "", 0)],
            [None, None],
            "an unknown role, an unknown token"
        );
        let own = Operator { name: "file".into(), role: Role::Admin, sees_payloads: true };
        let own = ConfiguredOperator { operator: own, token_digest: token::digest("t4") };
        live.replace_in_file(vec![own]);
        live.replace_stored(Vec::new());
        assert_eq!([role_at(&live, "t1", 0), role_at(&live, "t4", 0)], [None, Some(Role::Admin)]);
    }
}
