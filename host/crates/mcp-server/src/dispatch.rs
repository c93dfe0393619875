//! Dispatches requests by their method.

use std::sync::Arc;

use super::{
    call,
    exchange::Exchange,
    listen,
    metrics::ObservedRequest,
    relay,
    service::{Incoming, McpService, Requester},
    task_requests,
    trace::RequestSpan,
};
use airlock_wire::{error::RpcError, message::Request, method};

impl McpService {
    /// Begins to handle a request. The transport handles `initialize` and `logging/setLevel`
    /// itself, because they change its state.
    pub fn begin(self: &Arc<Self>, request: Request, client: Requester) -> Exchange {
        let key = client.selection.key.as_deref();
        let span = RequestSpan::begin(&request, client.peer.version, key);
        let observed = ObservedRequest::begin(self.times(), &request.method);
        self.dispatch(request, client).observed(observed).traced(span)
    }

    fn dispatch(self: &Arc<Self>, request: Request, client: Requester) -> Exchange {
        let id = request.id.clone();
        let is_modern = client.peer.version.is_modern();
        match request.method.as_str() {
            method::TOOLS_CALL => {
                let takes_task =
                    client.peer.takes_tasks && (is_modern || request.params.get("task").is_some());
                if takes_task {
                    self.handle(request, client, task_requests::call)
                } else {
                    self.handle(request, client, |incoming| call::run(incoming, None))
                }
            }
            name if task_requests::handles(name, client.peer.version) => {
                self.handle(request, client, task_requests::run)
            }
            method::LISTEN if is_modern => self.handle(request, client, listen::run),
            name if method::is_list(name) => {
                Exchange::ready(id, self.list(&request, &client).map(|listed| listed.text))
            }
            name if relay::is_relayed(name) => self.handle(request, client, relay::run),
            method::DISCOVER if is_modern => {
                Exchange::ready(id, Ok(self.discover(&client.selection)))
            }
            method::PING if !is_modern => Exchange::ready(id, Ok("{}".to_owned())),
            name => Exchange::ready(id, Err(RpcError::method_not_found(name))),
        }
    }

    /// Begins the exchange of a request that `work` handles.
    fn handle<F>(
        self: &Arc<Self>,
        request: Request,
        client: Requester,
        work: impl FnOnce(Incoming) -> F,
    ) -> Exchange
    where
        F: Future<Output = Result<String, RpcError>> + Send + 'static,
    {
        let service = self.clone();
        Exchange::new(request.id.clone(), client.asks.clone(), |outlet| {
            work(Incoming { service, client, request, outlet })
        })
    }
}
