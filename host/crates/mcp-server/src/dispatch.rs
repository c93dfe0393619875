//! Dispatches requests by their method.

use std::sync::Arc;

use super::{
    call,
    exchange::Exchange,
    listen, relay,
    service::{Requester, Service},
    task_requests,
};
use airlock_wire::{error::RpcError, message::Request, method};

impl Service {
    /// Begins to handle a request. The transport handles `initialize` and `logging/setLevel`
    /// itself, because they change its state.
    pub fn begin(self: &Arc<Self>, request: Request, client: Requester) -> Exchange {
        let id = request.id.clone();
        let is_modern = client.peer.version.is_modern();
        match request.method.as_str() {
            method::TOOLS_CALL => {
                let service = self.clone();
                let asks = client.asks.clone();
                let takes_task =
                    client.peer.takes_tasks && (is_modern || request.params.get("task").is_some());
                if takes_task {
                    Exchange::new(id, asks, |outlet| {
                        task_requests::call(service, client, request, outlet)
                    })
                } else {
                    Exchange::new(id, asks, |outlet| {
                        call::run(service, client, request, outlet, None)
                    })
                }
            }
            name if task_requests::handles(name, client.peer.version) => {
                let service = self.clone();
                let asks = client.asks.clone();
                Exchange::new(id, asks, |outlet| {
                    task_requests::run(service, client, request, outlet)
                })
            }
            method::LISTEN if is_modern => {
                let service = self.clone();
                Exchange::new(id, None, |outlet| listen::run(service, client, request, outlet))
            }
            name if method::is_list(name) => {
                Exchange::ready(id, self.list(&request, &client).map(|listed| listed.text))
            }
            name if relay::is_relayed(name) => {
                let service = self.clone();
                let asks = client.asks.clone();
                Exchange::new(id, asks, |outlet| relay::run(service, client, request, outlet))
            }
            method::DISCOVER if is_modern => {
                Exchange::ready(id, Ok(self.discover(&client.selection)))
            }
            method::PING if !is_modern => Exchange::ready(id, Ok("{}".to_owned())),
            name => Exchange::ready(id, Err(RpcError::method_not_found(name))),
        }
    }
}
