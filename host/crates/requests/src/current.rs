//! Approvals of calls whose request stays open while they wait.
//!
//! A request sees the same tools from its beginning to its end, and keeps its key. A call may wait for minutes, and the
//! person who approves it means the tool and the sender as they are then: an approval counts only if the key of the sender
//! is still accepted, and the sender still sees the tool with it, as it was shown.

use std::{pin::Pin, sync::Arc, time::Duration};

use super::Sender;
use airlock_agent::{ApprovalList, ApprovalVerdict};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Arguments, Entry, Filter, LiveKeys, Origin, VirtualKey},
    tenant::Tenant,
    tool::SourceSet,
};

/// Reason for which an approved call of a tool that has changed is not made.
const CHANGED: &str = "it was approved, but its tool has changed since or is not permitted any more; if you still have it, call it again";

/// Reason for which an approved call of a sender without a key is not made.
const KEY_ENDED: &str =
    "it was approved, but the key or the role with which it was made is not accepted any more";

/// The list of calls that wait, for the calls of one request.
pub(super) struct CurrentApprovals {
    list: Arc<dyn ApprovalList>,
    catalog: Arc<Catalog>,
    keys: LiveKeys,
    filter: Filter,
    key: Option<Arc<VirtualKey>>,
}

impl CurrentApprovals {
    /// Creates the list for the calls of a request of `sender`.
    pub(super) fn new(
        list: Arc<dyn ApprovalList>,
        catalog: Arc<Catalog>,
        keys: LiveKeys,
        sender: &Sender,
    ) -> Arc<Self> {
        let filter = sender.filter.clone();
        let key = sender.key.clone();
        Arc::new(Self { list, catalog, keys, filter, key })
    }

    /// Fails with the reason if the key of the sender is not accepted now, or if the sender does not see the tool with it
    /// as it was shown, with as many approvals of its calls.
    fn check(&self, shown: &Entry) -> Result<(), &'static str> {
        let key = match &self.key {
            Some(key) => Some(self.keys.current(key).ok_or(KEY_ENDED)?),
            None => None,
        };
        // The gateway's own tools do not change.
        if shown.tool.client.is_none() {
            return Ok(());
        }
        let view = self.catalog.snapshot().view(&self.filter, key.as_deref());
        // Whatever way the request has chosen in which tools are offered.
        let now = view.find(&Origin::Caller, shown.tool.full_name.as_str());
        let is_same = now.is_some_and(|now| {
            now.needs_two == shown.needs_two && now.tool.digest() == shown.tool.digest()
        });
        if is_same { Ok(()) } else { Err(CHANGED) }
    }
}

impl ApprovalList for CurrentApprovals {
    fn decide<'a>(
        &'a self,
        entry: &'a Entry,
        arguments: &'a Arguments,
        sources: &'a SourceSet,
        tenant: &'a Tenant,
        limit: Duration,
    ) -> Pin<Box<dyn Future<Output = ApprovalVerdict> + Send + 'a>> {
        Box::pin(async move {
            let verdict = self.list.decide(entry, arguments, sources, tenant, limit).await;
            if matches!(verdict, ApprovalVerdict::Approved(_))
                && let Err(reason) = self.check(entry)
            {
                return ApprovalVerdict::Refused(reason);
            }
            verdict
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use airlock_core::{
        door::Keys,
        tool::{Allowlist, ClientName, Exclusions, Policy},
    };

    /// Approves every call, after the operator has set this policy for the client `desk`, and these keys.
    struct ApprovedAfter {
        catalog: Arc<Catalog>,
        policy: Policy,
        keys: LiveKeys,
        changed: Keys,
    }

    impl ApprovalList for ApprovedAfter {
        fn decide<'a>(
            &'a self,
            _: &'a Entry,
            _: &'a Arguments,
            _: &'a SourceSet,
            _: &'a Tenant,
            _: Duration,
        ) -> Pin<Box<dyn Future<Output = ApprovalVerdict> + Send + 'a>> {
            let desk = ClientName::parse("desk").expect("a good name");
            self.catalog.set_policy(&desk, self.policy.clone());
            self.keys.replace(self.changed.clone());
            Box::pin(async { ApprovalVerdict::Approved(None) })
        }
    }

    /// Returns the verdict about a call of `desk-write` that was approved after a change of the policy.
    async fn decided(policy: Policy) -> ApprovalVerdict {
        decided_for(None, policy, Keys::default()).await
    }

    /// Returns the verdict about such a call of the sender with a key, after a change of the policy and the keys.
    async fn decided_for(
        key: Option<VirtualKey>,
        policy: Policy,
        changed: Keys,
    ) -> ApprovalVerdict {
        let (catalog, _happened) = airlock_fakes::catalog();
        let keys = LiveKeys::new(Keys::new(key.clone()));
        let sender = Sender::new(key.map(Arc::new), Filter::none(), None);
        let view = catalog.snapshot().view(&sender.filter, sender.key.as_deref());
        let write = view.find(&Origin::Model, "desk-write").expect("it is listed");
        let list = ApprovedAfter { catalog: catalog.clone(), policy, keys: keys.clone(), changed };
        let current = CurrentApprovals::new(Arc::new(list), catalog, keys, &sender);
        let arguments = Arguments::parse("desk-write", "{}").expect("an object");
        let limit = Duration::from_secs(1);
        let sources = SourceSet::default();
        current.decide(write, &arguments, &sources, &Tenant::ANONYMOUS, limit).await
    }

    fn open() -> Policy {
        Policy { execute: Allowlist::All, ..Policy::default() }
    }

    #[tokio::test]
    async fn an_approval_does_not_count_for_a_tool_that_was_taken_away_meanwhile() {
        let refused = ApprovalVerdict::Refused(CHANGED);
        let exclude = Exclusions::parse(&["write"]).expect("a good list");
        assert_eq!(decided(Policy { exclude, ..open() }).await, refused);
        let approve_twice = Exclusions::parse(&["write"]).expect("a good list");
        assert_eq!(decided(Policy { approve_twice, ..open() }).await, refused);
    }

    fn key(tools: &[&str]) -> VirtualKey {
        let desk = ClientName::parse("desk").expect("a good name");
        let tools = Allowlist::parse(tools).expect("a good list");
        VirtualKey::new("ann", "sk-bf-ann0123456789abcdef", [(desk, tools)].into())
    }

    #[tokio::test]
    async fn an_approval_does_not_count_for_a_key_that_was_taken_away_or_narrowed_meanwhile() {
        for (changed, expected) in [
            (vec![], ApprovalVerdict::Refused(KEY_ENDED)),
            (
                vec![key(&["write"]).with_expiry(Some(UNIX_EPOCH))],
                ApprovalVerdict::Refused(KEY_ENDED),
            ),
            (vec![key(&["echo"])], ApprovalVerdict::Refused(CHANGED)),
            (vec![key(&["write", "echo"])], ApprovalVerdict::Approved(None)),
        ] {
            let verdict = decided_for(Some(key(&["write"])), open(), Keys::new(changed)).await;
            assert_eq!(verdict, expected);
        }
    }

    #[tokio::test]
    async fn an_approval_counts_for_the_same_tool_whatever_else_has_changed() {
        let approved = ApprovalVerdict::Approved(None);
        assert_eq!(decided(open()).await, approved);
        assert_eq!(decided(Policy { code_mode: true, ..open() }).await, approved);
    }
}
