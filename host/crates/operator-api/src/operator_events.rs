//! `GET /api/events`: what happens at the gateway, as server-sent events for an operator.
//!
//! A stream ends after some minutes, so that its connection and its credential are looked at again, soon after the
//! credential is revoked, and once the store could not tell for a minute whether it is. The client opens it again and
//! names the last event that it has received.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until},
};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use super::{
    OperatorApi, OperatorHooks,
    credential::OperatorCredential,
    event_bus::{EventBatch, EventBus, MAX_STREAMS, OperatorStream, StreamPosition, Topic},
    operator::{self, RequestOperator},
};
use airlock_core::operator::{Operator, Right};
use airlock_http::{
    events::{self, EventSource},
    respond::{self, ApiError, Reply},
};
use airlock_ingress::{Parking, RequestBody};
use airlock_wire::headers::LAST_EVENT;

/// Longest time of a stream.
const LIFE: Duration = Duration::from_mins(10);
/// Interval at which the credential of a stream is looked at.
const CHECK: Duration = Duration::from_secs(10);
/// Time after which a stream ends if its credential cannot be checked: it may have been revoked meanwhile.
const MAX_UNCHECKED: Duration = Duration::from_mins(1);
/// Time after which a client opens a stream again, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// Opens a stream. Fails if a topic is unknown, or if the operator may not see it or has too many streams.
pub(super) fn open(
    api: &OperatorApi,
    actor: &RequestOperator,
    request: &Request<RequestBody>,
) -> Result<Reply, ApiError> {
    let operator = &actor.operator;
    let topics = topics(request.uri().query().unwrap_or_default(), operator)?;
    let bus = api.hooks.events.clone();
    let slot = bus.open(&operator.name).ok_or_else(too_many)?;
    let (latest, followed) = bus.follow();
    let last = last_event(request.headers());
    let known = last.map_or(Some(latest), |id| bus.position(id));
    let position = StreamPosition::after(known.unwrap_or(latest));
    let is_complete = known.is_some() && !bus.has_lost(&position, &topics);
    let source = OperatorEventSource {
        credential: actor.credential.clone(),
        operator: operator.clone(),
        hooks: api.hooks.clone(),
        closing: api.closing.clone(),
        state: StreamState::New,
        is_resumed: last.is_some() && is_complete,
        is_behind: known.is_none(),
        position,
        topics,
        followed,
        ends: Instant::now() + LIFE,
        checks: checks(),
        checked: Instant::now(),
        bus,
        _slot: slot,
    };
    let reply = respond::events(events::parts(source));
    let parked = request.body().seat().map(|seat| seat.park(Parking::Waiting));
    Ok(respond::holding(reply, parked))
}

/// Returns the topics of a query, or all that the operator may see.
fn topics(query: &str, operator: &Operator) -> Result<Vec<Topic>, ApiError> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let Some((_, wanted)) = parameters.find(|(name, _)| name == "topics") else {
        let all = Topic::ALL.into_iter();
        return Ok(all.filter(|topic| operator.role.has(right(*topic))).collect());
    };
    let mut topics = Vec::new();
    for name in wanted.split(',').take(Topic::ALL.len() + 1) {
        let topic = Topic::ALL.into_iter().find(|topic| topic.name() == name);
        let topic = topic.ok_or_else(|| unknown_topic(name))?;
        operator::check_right(operator, right(topic), "see calls that wait for an approval")?;
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    Ok(topics)
}

fn right(topic: Topic) -> Right {
    match topic {
        Topic::Approvals => Right::Approve,
        Topic::Calls | Topic::Upstreams | Topic::Runs | Topic::Config => Right::Read,
    }
}

fn unknown_topic(name: &str) -> ApiError {
    let known = Topic::ALL.map(Topic::name).join(", ");
    let message = format!("there is no topic {:?}; valid are {known}", respond::excerpt(name));
    ApiError::bad_request("invalid_value", message).about("topics")
}

fn too_many() -> ApiError {
    let message = format!("this operator has {MAX_STREAMS} streams at this gateway; close one");
    ApiError::from_status(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message)
}

fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT)?.to_str().ok()
}

fn checks() -> Interval {
    let mut checks = interval_at(Instant::now() + CHECK, CHECK);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

/// Returns the reason that a stream ends after a check of its credential; `None` if it continues. `unchecked` is the time
/// since the last check that had a result.
fn end_after_check(is_valid: Option<bool>, unchecked: Duration) -> Option<&'static str> {
    match is_valid {
        Some(true) => None,
        Some(false) => Some("revoked"),
        None => (unchecked >= MAX_UNCHECKED).then_some("unchecked"),
    }
}

/// State of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    New,
    Open,
    Ended,
}

/// The events of a stream.
struct OperatorEventSource {
    bus: Arc<EventBus>,
    hooks: Arc<OperatorHooks>,
    operator: Arc<Operator>,
    credential: OperatorCredential,
    topics: Vec<Topic>,
    position: StreamPosition,
    followed: watch::Receiver<u64>,
    is_resumed: bool,
    /// True if the last event that the client has received is unknown.
    is_behind: bool,
    state: StreamState,
    ends: Instant,
    checks: Interval,
    /// Time of the last check that has told whether the credential is valid.
    checked: Instant,
    /// Cancelled when the gateway stops.
    closing: CancellationToken,
    _slot: OperatorStream,
}

impl OperatorEventSource {
    /// Returns the first event, after which the client opens a lost stream again.
    fn begin(&mut self) -> Bytes {
        self.state = StreamState::Open;
        let topics: Vec<_> = self.topics.iter().map(|topic| topic.name()).collect();
        let data = json!({"topics": topics, "resumed": self.is_resumed}).to_string();
        let mut text = format!("retry: {RETRY_MS}\n");
        text.push_str(&self.bus.event(self.position.number, "open", &data));
        if self.is_behind {
            text.push_str(&self.bus.resync(self.position.number, &self.topics));
        }
        text.into()
    }

    /// Checks the credential. Returns the reason that the stream ends; `None` if it goes on.
    async fn check(&mut self) -> Option<&'static str> {
        let is_valid = self.credential.is_of(&self.operator, &self.hooks).await;
        if is_valid.is_some() {
            self.checked = Instant::now();
        }
        end_after_check(is_valid, self.checked.elapsed())
    }

    fn end(&mut self, reason: &str) -> Bytes {
        self.state = StreamState::Ended;
        let data = json!({"reason": reason}).to_string();
        self.bus.event(self.position.number, "end", &data).into()
    }
}

impl EventSource for OperatorEventSource {
    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            StreamState::New => return Some(self.begin()),
            StreamState::Ended => return None,
            StreamState::Open => {}
        }
        loop {
            self.followed.borrow_and_update();
            if let EventBatch::Text(text) = self.bus.read(&mut self.position, &self.topics) {
                return Some(text.into());
            }
            tokio::select! {
                () = self.closing.cancelled() => return Some(self.end("stopping")),
                () = sleep_until(self.ends) => return Some(self.end("time")),
                _ = self.checks.tick() => {
                    if let Some(reason) = self.check().await {
                        return Some(self.end(reason));
                    }
                }
                // The bus has the sender, so the channel is open.
                _ = self.followed.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::operator::Role;

    fn operator(role: Role) -> Operator {
        Operator { name: "ann".to_owned(), role, sees_payloads: false }
    }

    #[test]
    fn a_stream_ends_if_its_credential_is_revoked_or_cannot_be_checked_for_a_minute() {
        let short = MAX_UNCHECKED.saturating_sub(Duration::from_secs(1));
        assert_eq!(end_after_check(Some(true), MAX_UNCHECKED), None);
        assert_eq!(end_after_check(Some(false), Duration::ZERO), Some("revoked"));
        assert_eq!(end_after_check(None, short), None);
        assert_eq!(end_after_check(None, MAX_UNCHECKED), Some("unchecked"));
    }

    #[test]
    fn an_operator_sees_only_topics_of_its_rights() {
        let viewer = topics("", &operator(Role::Viewer)).expect("topics");
        assert_eq!(viewer, Topic::ALL[1..]);
        let all = topics("", &operator(Role::Approver)).expect("topics");
        assert_eq!(all, Topic::ALL);
        let refused = topics("topics=approvals", &operator(Role::Viewer)).expect_err("refused");
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        let some = topics("topics=runs,calls", &operator(Role::Viewer)).expect("topics");
        assert_eq!(some, [Topic::Runs, Topic::Calls]);
        let repeated = topics("topics=runs,runs", &operator(Role::Viewer)).expect("topics");
        assert_eq!(repeated, [Topic::Runs]);
        for query in ["topics=", "topics=secrets", "topics=runs,,calls"] {
            let refused = topics(query, &operator(Role::Admin)).expect_err("refused");
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{query}");
        }
    }
}
