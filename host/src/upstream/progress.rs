//! Progress that a server reports for the gateway's requests, in the order of its arrival.
//!
//! `rmcp` handles each notification in a task of its own, so progress could overtake other progress
//! and the response. It is therefore read in the inbox, and never reaches `rmcp`.

use std::collections::HashMap;

use rmcp::model::{ClientRequest, GetMeta as _, ProgressToken, RequestId};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    door::Progress,
    text::{cut, one_line},
};

/// Reports of one request that wait to be passed on. Further ones are dropped.
const QUEUE: usize = 64;
/// Longest message of a report, in bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// Reports of one request. Closed when its response has arrived.
pub(super) type Reports = mpsc::Receiver<Progress>;

/// Requests whose progress is passed on, by the token that they were sent with.
#[derive(Default)]
pub(super) struct Feeds {
    by_token: HashMap<ProgressToken, Feed>,
}

struct Feed {
    /// `None` until the request is sent.
    request: Option<RequestId>,
    sender: mpsc::Sender<Progress>,
    /// `None` once it is taken.
    reports: Option<Reports>,
}

impl Feed {
    fn new() -> Self {
        let (sender, reports) = mpsc::channel(QUEUE);
        Self { request: None, sender, reports: Some(reports) }
    }
}

/// Parameters of `notifications/progress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    progress_token: ProgressToken,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Notification {
    params: Params,
}

impl Feeds {
    /// Records that a tool call is sent.
    pub(super) fn open(&mut self, id: &RequestId, request: &ClientRequest) {
        let token = request.get_meta().get_progress_token();
        if let (Some(token), ClientRequest::CallToolRequest(_)) = (token, request) {
            self.by_token.entry(token).or_insert_with(Feed::new).request = Some(id.clone());
        }
    }

    /// Takes the reports of a request, before or after it is sent. `None` if they are taken already.
    pub(super) fn take(&mut self, token: &ProgressToken) -> Option<Reports> {
        self.by_token.entry(token.clone()).or_insert_with(Feed::new).reports.take()
    }

    /// Ends the reports of a request: its response has arrived or is no longer expected.
    pub(super) fn close(&mut self, id: &RequestId) {
        self.by_token.retain(|_, feed| feed.request.as_ref() != Some(id));
    }

    /// Ends the reports of a request that may not have been sent.
    pub(super) fn close_token(&mut self, token: &ProgressToken) {
        self.by_token.remove(token);
    }

    /// Passes on a report. One that belongs to no request in flight is dropped.
    pub(super) fn report(&self, text: &[u8]) {
        let Ok(Notification { params }) = serde_json::from_slice(text) else { return };
        let Some(feed) = self.by_token.get(&params.progress_token) else { return };
        let message = params.message.map(|message| one_line(&cut(message, MAX_MESSAGE_BYTES)));
        // A full queue means that the caller takes reports more slowly than the server sends them.
        let _ =
            feed.sender.try_send(Progress { done: params.progress, total: params.total, message });
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams, NumberOrString};
    use serde_json::json;

    use super::*;

    fn token(number: i64) -> ProgressToken {
        ProgressToken(NumberOrString::Number(number))
    }

    fn call(number: i64) -> ClientRequest {
        let request = CallToolRequest::new(CallToolRequestParams::new("t"));
        let mut request = ClientRequest::CallToolRequest(request);
        request.get_meta_mut().set_progress_token(token(number));
        request
    }

    fn report(feeds: &Feeds, token: i64, done: f64) {
        let params =
            json!({"progressToken": token, "progress": done, "total": 9, "message": "a\nb"});
        feeds.report(json!({"params": params}).to_string().as_bytes());
    }

    #[test]
    fn reports_arrive_in_their_order_until_the_response() {
        let (mut feeds, id) = (Feeds::default(), NumberOrString::Number(7));
        let mut early = feeds.take(&token(1)).expect("not taken");
        feeds.open(&id, &call(1));
        assert!(feeds.take(&token(1)).is_none());
        for n in 0..QUEUE + 2 {
            report(&feeds, 1, f64::from(u32::try_from(n).expect("small")));
        }
        report(&feeds, 2, 1.0);
        feeds.report(b"{}");
        feeds.close(&id);
        report(&feeds, 1, 99.0);
        let first = early.try_recv().expect("a report");
        assert_eq!(
            (first.done, first.total, first.message.as_deref()),
            (0.0, Some(9.0), Some("a b"))
        );
        let rest = std::iter::from_fn(|| early.try_recv().ok()).count();
        assert_eq!(rest, QUEUE - 1, "those that do not fit are dropped");
        assert!(feeds.by_token.is_empty());
    }

    #[test]
    fn a_request_that_is_never_sent_leaves_nothing() {
        let mut feeds = Feeds::default();
        feeds.take(&token(1));
        feeds.close_token(&token(1));
        assert!(feeds.by_token.is_empty());
    }
}
