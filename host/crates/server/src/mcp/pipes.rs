//! The clients that have a stream over HTTP+SSE.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use airlock_core::{replica::ReplicaId, tenant::Tenant};
use airlock_mcp_server::Input;

/// Messages of one client that wait to be handled. A further one is refused.
pub(super) const QUEUE: usize = 16;

/// The clients that have a stream.
#[derive(Default)]
pub(crate) struct Pipes(Mutex<HashMap<String, Pipe>>);

/// The way to one client.
struct Pipe {
    tenant: Tenant,
    input: mpsc::Sender<Input>,
}

/// A client that is registered until the value is dropped.
pub(super) struct Registered {
    pipes: Arc<Pipes>,
    pub(super) id: String,
}

impl Pipes {
    /// Registers a client of a tenant. Returns the queue of its messages.
    pub(super) fn register(
        self: &Arc<Self>,
        tenant: Tenant,
    ) -> (Registered, mpsc::Receiver<Input>) {
        let id = ReplicaId::handle().to_string();
        let (input, messages) = mpsc::channel(QUEUE);
        self.0.lock().insert(id.clone(), Pipe { tenant, input });
        (Registered { pipes: self.clone(), id }, messages)
    }

    /// Finds a client of a tenant; `None` if there is none, or if it is another tenant's.
    pub(super) fn find(&self, id: &str, tenant: &Tenant) -> Option<mpsc::Sender<Input>> {
        let pipes = self.0.lock();
        pipes.get(id).filter(|pipe| pipe.tenant == *tenant).map(|pipe| pipe.input.clone())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pipes.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_by_its_own_tenant_while_its_stream_is_open() {
        let pipes = Arc::<Pipes>::default();
        let ann = Tenant::of_key([1; 32], "ann");
        let (registered, _messages) = pipes.register(ann.clone());
        let id = registered.id.clone();
        assert!(pipes.find(&id, &ann).is_some());
        assert!(pipes.find(&id, &Tenant::ANONYMOUS).is_none());
        assert!(pipes.find("", &ann).is_none());
        drop(registered);
        assert!(pipes.find(&id, &ann).is_none());
    }
}
