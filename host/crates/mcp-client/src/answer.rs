//! Answers the requests of a server.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{sync::mpsc, time::Instant};
use tracing::warn;

use super::{
    inbox::{ServerRequest, ServerResponse},
    link::Link,
};
use airlock_wire::error::{RpcError, code};
use airlock_wire::method;

/// Time between two reports of questions that reach no caller. A server can ask a thousand times a
/// second.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Questions of one connection that reached no caller.
#[derive(Debug, Default)]
struct RefusedQuestions {
    unreported: u64,
    reported_at: Option<Instant>,
}

/// Answers the requests of a server that are for no caller, and sends the answers of callers to its
/// questions, several at a time. Never completes as long as the connection exists.
pub async fn answer_requests(
    link: &Link,
    mut requests: mpsc::Receiver<ServerRequest>,
    mut responses: mpsc::UnboundedReceiver<ServerResponse>,
) {
    let mut sending = FuturesUnordered::new();
    let mut refused = RefusedQuestions::default();
    loop {
        tokio::select! {
            Some(request) = requests.recv() => {
                sending.push(send(link, answer(request, &mut refused)));
            }
            Some(response) = responses.recv() => sending.push(send(link, response)),
            Some(()) = sending.next() => {}
            else => return,
        }
    }
}

async fn send(link: &Link, (id, response): ServerResponse) {
    link.respond(&id, response).await;
}

fn answer(request: ServerRequest, refused: &mut RefusedQuestions) -> ServerResponse {
    let ServerRequest { id, method, not_asked } = request;
    let message = match (method.as_str(), not_asked) {
        (method::PING, _) => return (id, Ok("{}".to_owned())),
        (method, Some(reason)) => {
            if let Some(questions) = refused.add(Instant::now()) {
                warn!(method, %reason, questions, "a question of an MCP server reaches no caller");
            }
            format!("{method} reaches no caller: {reason}")
        }
        (method, None) => format!("this client does not offer {method}"),
    };
    (id, Err(RpcError::new(code::METHOD_NOT_FOUND, message)))
}

impl RefusedQuestions {
    /// Counts a question. Returns the number since the last report if one is due.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.unreported += 1;
        let since = self.reported_at.map(|at| now.saturating_duration_since(at));
        if since.is_some_and(|since| since < REPORT_INTERVAL) {
            return None;
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_questions_are_reported_once_a_minute_with_their_number() {
        let start = Instant::now();
        let mut refused = RefusedQuestions::default();
        assert_eq!(refused.add(start), Some(1));
        for second in 0..60 {
            assert_eq!(refused.add(start + Duration::from_secs(second)), None);
        }
        assert_eq!(refused.add(start + REPORT_INTERVAL), Some(61));
        assert_eq!(refused.add(start + REPORT_INTERVAL), None);
    }
}
