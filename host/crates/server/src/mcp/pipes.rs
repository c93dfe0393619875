//! The clients that have a stream over HTTP+SSE.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use airlock_core::{door::VirtualKey, replica::ReplicaId, tenant::Tenant};
use airlock_mcp_server::Input;

/// Messages of one client that wait to be handled. A further one is refused.
pub(super) const QUEUE: usize = 16;

/// The clients that have a stream.
#[derive(Default)]
pub(crate) struct Pipes(Mutex<HashMap<String, Pipe>>);

/// The way to one client.
struct Pipe {
    tenant: Tenant,
    /// The virtual key that opened the stream; `None` without one.
    key: Option<VirtualKey>,
    input: mpsc::Sender<Input>,
}

/// A client that is registered until the value is dropped.
pub(super) struct Registered {
    pipes: Arc<Pipes>,
    pub(super) id: String,
}

impl Pipes {
    /// Registers a client of a tenant, which came with this virtual key. Returns the queue of its messages.
    pub(super) fn register(
        self: &Arc<Self>,
        tenant: Tenant,
        key: Option<&VirtualKey>,
    ) -> (Registered, mpsc::Receiver<Input>) {
        let id = ReplicaId::handle().to_string();
        let (input, messages) = mpsc::channel(QUEUE);
        let key = key.cloned();
        self.0.lock().insert(id.clone(), Pipe { tenant, key, input });
        (Registered { pipes: self.clone(), id }, messages)
    }

    /// Finds a client of a tenant, which comes with this virtual key; `None` if there is none, or if it is
    /// another tenant's. A stream has the rights with which it was opened, and the limits and guards of the groups of
    /// its key, so a client whose key has other grants or groups by now is not found any more: its input ends, and its
    /// stream with it.
    pub(super) fn find(
        &self,
        id: &str,
        tenant: &Tenant,
        key: Option<&VirtualKey>,
    ) -> Option<mpsc::Sender<Input>> {
        let mut pipes = self.0.lock();
        let pipe = pipes.get(id).filter(|pipe| pipe.tenant == *tenant)?;
        if !have_same_rights(pipe.key.as_ref(), key) {
            pipes.remove(id);
            return None;
        }
        Some(pipe.input.clone())
    }
}

/// Returns whether requests with these keys have the same tools, limits and guards. A key that is rotated keeps them.
fn have_same_rights(opened: Option<&VirtualKey>, now: Option<&VirtualKey>) -> bool {
    match (opened, now) {
        (Some(opened), Some(now)) => {
            opened.grants == now.grants && opened.membership() == now.membership()
        }
        (opened, now) => opened.is_none() && now.is_none(),
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pipes.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use airlock_core::door::{Environment, Membership};

    #[test]
    fn a_client_whose_key_has_other_grants_or_groups_by_now_is_not_found_any_more() {
        let wide = VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new());
        let tenant = wide.tenant().clone();
        let mut narrow = wide.clone();
        Arc::make_mut(&mut narrow.grants).environment =
            Some(Arc::new(Environment { name: "none".to_owned(), clients: BTreeMap::new() }));
        let team = Membership { team: Some("research".to_owned()), ..Membership::default() };
        for changed in [narrow, wide.clone().with_membership(team)] {
            let pipes = Arc::<Pipes>::default();
            let (registered, mut messages) = pipes.register(tenant.clone(), Some(&wide));
            let id = registered.id.clone();
            assert!(pipes.find(&id, &tenant, Some(&wide)).is_some());
            assert!(pipes.find(&id, &tenant, Some(&changed)).is_none());
            assert!(pipes.find(&id, &tenant, Some(&wide)).is_none(), "it is closed");
            assert!(matches!(messages.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
        }
    }

    #[test]
    fn a_client_is_found_by_its_own_tenant_while_its_stream_is_open() {
        let pipes = Arc::<Pipes>::default();
        let ann = Tenant::of_key([1; 32], "ann");
        let (registered, _messages) = pipes.register(ann.clone(), None);
        let id = registered.id.clone();
        assert!(pipes.find(&id, &ann, None).is_some());
        assert!(pipes.find(&id, &Tenant::ANONYMOUS, None).is_none());
        assert!(pipes.find("", &ann, None).is_none());
        drop(registered);
        assert!(pipes.find(&id, &ann, None).is_none());
    }
}
