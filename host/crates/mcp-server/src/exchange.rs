//! One request that is being handled: the notifications that it sends, then its response.
//!
//! The transport polls an [`Exchange`] for what to send next. The work runs only while it is polled,
//! and dropping the exchange cancels it: a guest is stopped, an upstream server is notified.

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{metrics::ObservedRequest, trace::RequestSpan};
use crate::running::MAX_RUNNING;
use airlock_core::{door::SessionId, tool::MAX_ANSWER_BYTES};
use airlock_telemetry::TraceFuture as _;
use airlock_wire::{
    error::RpcError,
    id::RpcId,
    message::{self, RpcResponse},
};

/// Notifications of one request that wait to be sent. Further ones are dropped: a client that reads
/// slowly must not stop the deadline of a tool from being checked.
const QUEUE: usize = 64;

/// A message of an exchange to its client.
#[derive(Debug)]
pub enum Outgoing {
    /// A notification.
    Before(String),
    /// A request of the gateway to the client.
    Ask(String),
    /// The response. Nothing follows.
    Last(Answer),
}

/// Response to a request.
#[derive(Debug)]
pub struct Answer {
    /// JSON-RPC response.
    pub text: String,
    /// Code of the error; `None` for a result.
    pub error: Option<i64>,
}

impl Answer {
    /// Creates the response to a request.
    pub fn new(id: &RpcId, result: Result<String, RpcError>) -> Self {
        match result {
            Ok(result) => Self { text: message::response(id, &result), error: None },
            Err(error) => {
                Self { text: message::failure(Some(id), &error), error: Some(error.code) }
            }
        }
    }
}

/// One request that is being handled.
pub struct Exchange {
    id: RpcId,
    work: BoxFuture<'static, Result<String, RpcError>>,
    queue: mpsc::Receiver<Outgoing>,
    /// Keeps the queue open: its end would wake the task that has just polled the work to its end.
    _sender: mpsc::Sender<Outgoing>,
    done: Option<Answer>,
    has_ended: bool,
    /// Span of the request; `None` once it has ended.
    span: Option<RequestSpan>,
    /// Measures the request; `None` once it has ended.
    observed: Option<ObservedRequest>,
}

impl Exchange {
    /// Creates an exchange. `work` returns the result as JSON text, and sends what precedes it
    /// through the outlet.
    pub(crate) fn new<F>(id: RpcId, asks: Option<Arc<Asks>>, work: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = Result<String, RpcError>> + Send + 'static,
    {
        let (sender, queue) = mpsc::channel(QUEUE);
        let work = Box::pin(work(Outlet { sender: sender.clone(), asks }));
        Self {
            id,
            work,
            queue,
            _sender: sender,
            done: None,
            has_ended: false,
            span: None,
            observed: None,
        }
    }

    /// Adds the span of the request, under which the work runs. Without a trace, nothing changes.
    pub(crate) fn traced(self, span: RequestSpan) -> Self {
        if span.span().trace_context().is_none() {
            return self;
        }
        let work = Box::pin(self.work.in_span(span.span()));
        Self { work, span: Some(span), ..self }
    }

    /// Measures the request.
    pub(crate) fn observed(self, observed: ObservedRequest) -> Self {
        Self { observed: Some(observed), ..self }
    }

    /// Creates an exchange whose response is known.
    pub(crate) fn ready(id: RpcId, result: Result<String, RpcError>) -> Self {
        Self::new(id, None, |_| std::future::ready(result))
    }

    /// Identifier of the request.
    pub fn id(&self) -> &RpcId {
        &self.id
    }

    /// Runs the request to its end and returns the response. What would precede it is dropped.
    pub async fn response(&mut self) -> Option<Answer> {
        while let Some(outgoing) = self.next().await {
            if let Outgoing::Last(answer) = outgoing {
                return Some(answer);
            }
        }
        None
    }

    /// Returns what to send next; `None` after the response. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Outgoing> {
        poll_fn(|context| {
            if self.has_ended {
                return Poll::Ready(None);
            }
            if self.done.is_none()
                && let Poll::Ready(result) = self.work.as_mut().poll(context)
            {
                if let Some(span) = self.span.take() {
                    span.end(&result);
                }
                if let Some(observed) = self.observed.take() {
                    observed.end(&result);
                }
                self.done = Some(Answer::new(&self.id, result));
            }
            // After the work, which may have sent something, and before its response.
            if let Poll::Ready(Some(outgoing)) = self.queue.poll_recv(context) {
                return Poll::Ready(Some(outgoing));
            }
            match self.done.take() {
                Some(answer) => {
                    self.has_ended = true;
                    Poll::Ready(Some(Outgoing::Last(answer)))
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Sends the messages that precede the response of a request.
#[derive(Clone)]
pub(crate) struct Outlet {
    sender: mpsc::Sender<Outgoing>,
    /// Requests of the gateway to the client; `None` if the client cannot respond to them.
    asks: Option<Arc<Asks>>,
}

impl Outlet {
    /// Sends a notification, unless the client reads too slowly. `params` must be a tree or JSON text.
    pub(crate) fn notify(&self, method: &str, params: &impl fmt::Display) {
        let _ = self.sender.try_send(Outgoing::Before(message::notification(method, params)));
    }

    /// Sends a request to the client and waits for its response. Returns the result as JSON text;
    /// `None` if the client has no way to respond, or responds with an error. Dropping the future
    /// forgets the request.
    pub(crate) async fn ask(&self, method: &str, params: &Value) -> Option<String> {
        let (id, response) = self.asks.as_ref()?.open()?;
        let request = message::request(&id.id, method, params);
        self.sender.send(Outgoing::Ask(request)).await.ok()?;
        response.await.ok()?
    }

    /// Returns whether the client can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.asks.is_some()
    }

    /// Returns the session in which the client can be asked; `None` if it cannot be asked.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.asks.as_ref().map(|asks| asks.session)
    }
}

/// Requests of the gateway to one client that wait for their responses. There is one value for each
/// session.
pub struct Asks {
    session: SessionId,
    next: AtomicU64,
    waiting: Mutex<HashMap<RpcId, oneshot::Sender<Option<String>>>>,
}

/// A request of the gateway. Dropping it forgets the request.
struct Ask {
    asks: Arc<Asks>,
    id: RpcId,
}

impl Default for Asks {
    fn default() -> Self {
        Self { session: SessionId::next(), next: AtomicU64::new(0), waiting: Mutex::default() }
    }
}

impl Asks {
    fn open(self: &Arc<Self>) -> Option<(Ask, oneshot::Receiver<Option<String>>)> {
        let id = RpcId::own(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.len() >= MAX_RUNNING {
            return None;
        }
        waiting.insert(id.clone(), sender);
        Some((Ask { asks: self.clone(), id }, receiver))
    }

    /// Hands a response to the work that waits for it; false if none does. A result of more than
    /// [`MAX_ANSWER_BYTES`] counts as an error: from here on, no charge covers the memory of the response.
    pub fn resolve(&self, response: &RpcResponse) -> bool {
        let Some(sender) = self.waiting().remove(&response.id) else { return false };
        let result = response.result().filter(|result| result.len() <= MAX_ANSWER_BYTES);
        // The work may have ended at this moment.
        let _ = sender.send(result.map(str::to_owned));
        true
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RpcId, oneshot::Sender<Option<String>>>> {
        self.waiting.lock()
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        self.asks.waiting().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::Caps;
    use airlock_wire::message::Message;

    fn id() -> RpcId {
        RpcId::own(7)
    }

    async fn texts(mut exchange: Exchange) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(outgoing) = exchange.next().await {
            texts.push(match outgoing {
                Outgoing::Before(text)
                | Outgoing::Ask(text)
                | Outgoing::Last(Answer { text, .. }) => text,
            });
        }
        texts
    }

    #[tokio::test]
    async fn notifications_precede_the_response_in_their_order() {
        let exchange = Exchange::new(id(), None, |outlet| async move {
            for n in 0..QUEUE + 3 {
                outlet.notify("n", &json!(n));
            }
            Ok("{}".to_owned())
        });
        let texts = texts(exchange).await;
        assert_eq!(texts.len(), QUEUE + 1, "those that do not fit are dropped");
        assert_eq!(texts[9], r#"{"jsonrpc":"2.0","method":"n","params":9}"#);
        assert_eq!(texts[QUEUE], r#"{"jsonrpc":"2.0","id":"airlock-7","result":{}}"#);
    }

    #[tokio::test]
    async fn the_client_is_asked_and_its_response_reaches_the_work() {
        let asks = Arc::new(Asks::default());
        let mut exchange = Exchange::new(id(), Some(asks.clone()), |outlet| async move {
            Ok(outlet.ask("elicitation/create", &json!({})).await.unwrap_or_default())
        });
        let Some(Outgoing::Ask(asked)) = exchange.next().await else { panic!("a request") };
        assert!(asked.contains(r#""id":"airlock-0","method":"elicitation/create""#), "{asked}");
        assert!(!respond(&asks, "\"airlock-1\"") && !respond(&asks, "0"));
        assert!(respond(&asks, "\"airlock-0\"") && !respond(&asks, "\"airlock-0\""));
        let Some(Outgoing::Last(answer)) = exchange.next().await else { panic!("a response") };
        assert!(answer.text.ends_with(r#""result":"yes"}"#), "{}", answer.text);
    }

    fn respond(asks: &Asks, id: &str) -> bool {
        respond_with(asks, id, "yes")
    }

    fn respond_with(asks: &Asks, id: &str, result: &str) -> bool {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{result}"}}"#);
        match Message::read(text.into(), &Caps::memory(1 << 22)) {
            Ok(Message::Response(response)) => asks.resolve(&response),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_result_that_is_too_long_counts_as_an_error() {
        for (bytes, is_taken) in [(MAX_ANSWER_BYTES, true), (MAX_ANSWER_BYTES + 1, false)] {
            let asks = Arc::new(Asks::default());
            let mut exchange = Exchange::new(id(), Some(asks.clone()), |outlet| async move {
                Ok(outlet.ask("m", &json!({})).await.is_some().to_string())
            });
            exchange.next().await.expect("a request");
            assert!(respond_with(&asks, "\"airlock-0\"", &"x".repeat(bytes - 2)));
            let Some(Outgoing::Last(answer)) = exchange.next().await else { panic!("a response") };
            assert!(answer.text.contains(&format!(r#""result":{is_taken}"#)), "{}", answer.text);
        }
    }

    #[tokio::test]
    async fn an_abandoned_request_to_the_client_is_forgotten() {
        let asks = Arc::new(Asks::default());
        let mut exchange = Exchange::new(id(), Some(asks.clone()), |outlet| async move {
            outlet.ask("m", &json!({})).await;
            Ok(String::new())
        });
        exchange.next().await.expect("a request");
        assert_eq!(asks.waiting().len(), 1);
        drop(exchange);
        assert!(asks.waiting().is_empty());
    }
}
