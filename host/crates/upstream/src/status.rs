//! State of the connection to one server, for operators.

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::limits::{KEPT_TRANSITIONS, MAX_KEPT_REASON_CHARS};
use airlock_mcp_client::Agreed;

airlock_strings::named_enum! {
    /// State of the connection to a server. The names are those in the administrative API and in metrics.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum ServerPhase {
        /// Not running: before the first start, while no call needs it, or after the gateway stopped.
        Stopped = "stopped",
        /// Starting: the process, the handshake, and the first list of tools.
        Starting = "starting",
        /// Ready for calls.
        Ready = "ready",
        /// Ready for calls, but its list of tools is in doubt, so that the last good one is kept, or it
        /// sends more than is read, so that its responses are late.
        Degraded = "degraded",
        /// Connected, but its tools are not those that its client offers, so it gets no calls. Only one of
        /// several instances.
        HeldOut = "held_out",
        /// Waiting to be started again after a failure.
        Restarting = "restarting",
        /// Not started again without the operator.
        Failed = "failed",
        /// Disabled by the configuration.
        Disabled = "disabled",
    }
}

/// A change of the state.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Transition {
    /// The new state.
    phase: ServerPhase,
    /// Reason of the change, without secrets, cut to 512 characters.
    reason: String,
    /// Time of the change.
    #[serde(serialize_with = "as_text")]
    at: SystemTime,
}

/// The state of one server with its history. Shared between the supervisor, which writes it, and
/// readers.
#[derive(Debug)]
pub(super) struct Status(Mutex<StatusRecord>);

#[derive(Debug)]
struct StatusRecord {
    phase: ServerPhase,
    /// Reason of the present state, whole.
    reason: String,
    since: Instant,
    /// The last changes, the oldest first.
    transitions: VecDeque<Transition>,
    last_failure: Option<LastFailure>,
    /// True if the server was not ready since the last failure.
    is_failing: bool,
    time_in: [Duration; ServerPhase::ALL.len()],
    restarts: u64,
    /// Starts that failed since the last stable connection.
    attempts: u32,
    is_stale: bool,
    /// True if the last failure was that the operator has to log in.
    needs_login: bool,
    agreed: Option<Agreed>,
    /// Reason for which the server would be ready if it did not exceed its rate; `None` if it does
    /// not exceed it.
    ready_reason: Option<String>,
    /// Processes that were replaced while they served.
    replacements: u64,
    last_replacement: Option<LastReplacement>,
}

/// The last attempt to replace the process of a connected server.
#[derive(Debug)]
struct LastReplacement {
    reason: String,
    /// Reason that the old process still runs; `None` if it was replaced.
    failure: Option<String>,
    at: SystemTime,
}

/// The last failure of a server.
#[derive(Debug)]
struct LastFailure {
    stage: &'static str,
    message: String,
    at: SystemTime,
    /// Time of the first failure since the server was last ready.
    since: SystemTime,
}

/// Reason for the state of a server that exceeds its rate.
const FLOODING: &str = "it sends more messages than are read, so that its responses are late; if that lasts, it is disconnected";

impl Status {
    pub(super) fn new() -> Self {
        Self(Mutex::new(StatusRecord {
            phase: ServerPhase::Stopped,
            reason: String::new(),
            since: Instant::now(),
            transitions: VecDeque::new(),
            last_failure: None,
            is_failing: false,
            time_in: [Duration::ZERO; ServerPhase::ALL.len()],
            restarts: 0,
            attempts: 0,
            is_stale: false,
            needs_login: false,
            agreed: None,
            ready_reason: None,
            replacements: 0,
            last_replacement: None,
        }))
    }

    /// Records a change. A change to the same state with the same reason is none.
    pub(super) fn enter(&self, phase: ServerPhase, reason: &str) {
        let mut inner = self.0.lock();
        match &mut inner.ready_reason {
            // It is ready once it keeps to its rate.
            Some(known) if phase == ServerPhase::Ready => reason.clone_into(known),
            _ => {
                inner.ready_reason = None;
                inner.enter(phase, reason);
            }
        }
    }

    /// Records whether the server sends more than is read. It is not ready while it does.
    pub(super) fn set_flooding(&self, is_flooding: bool) {
        let mut inner = self.0.lock();
        if is_flooding && inner.phase == ServerPhase::Ready {
            inner.ready_reason = Some(inner.reason.clone());
            inner.enter(ServerPhase::Degraded, FLOODING);
        } else if !is_flooding && let Some(reason) = inner.ready_reason.take() {
            inner.enter(ServerPhase::Ready, &reason);
        }
    }

    /// Records whether the instance gets calls although another one has listed its tools last. A state of
    /// another kind stays.
    pub(super) fn set_held_out(&self, is_held_out: bool, reason: &str) {
        match (self.phase(), is_held_out) {
            (ServerPhase::Ready | ServerPhase::Degraded, true) => {
                self.enter(ServerPhase::HeldOut, reason);
            }
            (ServerPhase::HeldOut, false) => self.enter(ServerPhase::Ready, reason),
            _ => {}
        }
    }

    /// Returns the present state.
    pub(super) fn phase(&self) -> ServerPhase {
        self.0.lock().phase
    }

    /// Records the result of a handshake.
    pub(super) fn agree(&self, agreed: &Agreed) {
        self.0.lock().agreed = Some(agreed.clone());
    }

    /// Records the number of starts that failed since the last stable connection.
    pub(super) fn set_attempts(&self, attempts: u32) {
        self.0.lock().attempts = attempts;
    }

    /// Records whether the list of tools is that of an earlier connection.
    pub(super) fn set_stale(&self, is_stale: bool) {
        self.0.lock().is_stale = is_stale;
    }

    /// Records whether a failure is that the operator has to log in.
    pub(super) fn set_needs_login(&self, needs_login: bool) {
        self.0.lock().needs_login = needs_login;
    }

    /// Returns whether the server is not connected because the operator has to log in.
    pub(super) fn needs_login(&self) -> bool {
        let inner = self.0.lock();
        inner.phase == ServerPhase::Failed && inner.needs_login
    }

    /// Records an attempt to replace the process of a connected server: its reason, and why it failed, if it
    /// did.
    pub(super) fn record_replacement(&self, reason: &str, failure: Option<&str>) {
        let mut inner = self.0.lock();
        inner.replacements += u64::from(failure.is_none());
        inner.last_replacement = Some(LastReplacement {
            reason: shortened(reason),
            failure: failure.map(shortened),
            at: SystemTime::now(),
        });
    }

    /// Returns the processes that were replaced while they served.
    pub(super) fn replacements(&self) -> u64 {
        self.0.lock().replacements
    }

    /// Returns the number of restarts, and the time spent in each state.
    pub(super) fn totals(&self) -> (u64, Vec<(ServerPhase, Duration)>) {
        let inner = self.0.lock();
        let times = ServerPhase::ALL.into_iter().map(|phase| {
            let present = if inner.phase == phase { inner.since.elapsed() } else { Duration::ZERO };
            (phase, inner.time_in[phase as usize] + present)
        });
        (inner.restarts, times.collect())
    }

    /// Returns the members of the server's entry in the administrative API.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let inner = self.0.lock();
        let last = inner.transitions.back();
        let era = inner.agreed.as_ref().map(|agreed| {
            json!({
                "protocol_version": agreed.version.as_str(),
                "era": if agreed.version.is_modern() { "modern" } else { "legacy" },
                "software": agreed.software,
            })
        });
        let mut members = json!({
            "phase": inner.phase.name(),
            "reason": last.map(|_| &inner.reason),
            "since": last.map(|last| time(last.at)),
            "restarts": inner.restarts,
            "attempts": inner.attempts,
            "stale": inner.is_stale,
            "protocol": era,
            "history": inner.transitions,
        });
        if let Some(failure) = &inner.last_failure {
            members["last_failure"] = json!({
                "stage": failure.stage,
                "message": failure.message,
                "at": time(failure.at),
                "since": time(failure.since),
            });
        }
        if let Some(last) = &inner.last_replacement {
            members["replacements"] = inner.replacements.into();
            members["last_replacement"] = json!({
                "reason": last.reason,
                "failure": last.failure,
                "at": time(last.at),
            });
        }
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

impl StatusRecord {
    fn enter(&mut self, phase: ServerPhase, reason: &str) {
        if self.phase == phase && self.reason == reason {
            return;
        }
        let now = Instant::now();
        self.time_in[self.phase as usize] += now.duration_since(self.since);
        let transition = Transition { phase, reason: shortened(reason), at: SystemTime::now() };
        let stage = stage(self.phase, phase).filter(|_| self.ready_reason.is_none());
        if let Some(stage) = stage {
            let message = transition.reason.clone();
            let at = transition.at;
            let began = self.last_failure.as_ref().filter(|_| self.is_failing);
            let since = began.map_or(at, |failure| failure.since);
            self.last_failure = Some(LastFailure { stage, message, at, since });
            self.is_failing = true;
        } else if phase == ServerPhase::Ready {
            self.is_failing = false;
        }
        self.since = now;
        self.phase = phase;
        reason.clone_into(&mut self.reason);
        if phase == ServerPhase::Restarting {
            self.restarts += 1;
        }
        if self.transitions.len() == KEPT_TRANSITIONS {
            self.transitions.pop_front();
        }
        self.transitions.push_back(transition);
    }
}

/// Returns the stage at which a server failed, in the words of Bifrost's admin API; `None` if the
/// change is no failure.
fn stage(before: ServerPhase, after: ServerPhase) -> Option<&'static str> {
    match after {
        ServerPhase::Restarting | ServerPhase::Failed => match before {
            ServerPhase::Ready | ServerPhase::Degraded | ServerPhase::HeldOut => {
                Some("transport_lost")
            }
            _ => Some("connect"),
        },
        ServerPhase::Degraded | ServerPhase::HeldOut => Some("tool_discovery"),
        _ => None,
    }
}

/// Returns a reason with at most [`MAX_KEPT_REASON_CHARS`] characters.
fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(MAX_KEPT_REASON_CHARS) {
        None => reason.to_owned(),
        Some(_) => reason.chars().take(MAX_KEPT_REASON_CHARS - 1).chain(['…']).collect(),
    }
}

fn as_text<S: serde::Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time(*at))
}

/// Returns a time in UTC, in the form of RFC 3339.
fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_kept_with_its_reason_and_the_history_is_bounded() {
        let status = Status::new();
        status.enter(ServerPhase::Starting, "first start");
        status.enter(ServerPhase::Ready, "listed 3 tools");
        status.enter(ServerPhase::Ready, "listed 3 tools");
        status.enter(ServerPhase::Restarting, "the connection ended");
        let json = status.to_json();
        assert_eq!(json["history"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["phase"], "restarting");
        assert_eq!(json["last_failure"]["message"], "the connection ended");
        for n in 0..3 * KEPT_TRANSITIONS {
            status.enter(ServerPhase::Degraded, &n.to_string());
        }
        let (restarts, times) = status.totals();
        assert_eq!((restarts, times.len()), (1, ServerPhase::ALL.len()));
        assert_eq!(status.to_json()["history"].as_array().map(Vec::len), Some(KEPT_TRANSITIONS));
        assert!(ServerPhase::ALL.iter().enumerate().all(|(at, phase)| *phase as usize == at));
    }
    #[test]
    fn a_failure_has_its_stage_and_the_time_since_which_the_server_fails() {
        let status = Status::new();
        status.enter(ServerPhase::Starting, "first start");
        assert_eq!(failure(&status), None);
        status.enter(ServerPhase::Failed, "no such program");
        let first = failure(&status).expect("it failed");
        assert_eq!((&first["stage"], &first["since"]), (&json!("connect"), &first["at"]));
        status.enter(ServerPhase::Starting, "attempt 2");
        status.enter(ServerPhase::Ready, "listed 3 tools");
        assert_eq!(failure(&status).as_ref(), Some(&first), "the last failure is kept");
        status.enter(ServerPhase::Degraded, "the list is in doubt");
        assert_eq!(failure(&status).expect("it is kept")["stage"], "tool_discovery");
        status.enter(ServerPhase::Restarting, "the connection ended");
        assert_eq!(failure(&status).expect("it is kept")["stage"], "transport_lost");
    }

    fn failure(status: &Status) -> Option<Value> {
        status.to_json().get("last_failure").cloned()
    }

    #[test]
    fn a_kept_reason_has_at_most_512_characters() {
        let status = Status::new();
        for (length, kept) in [(512, 512), (513, 512)] {
            let reason = "ä".repeat(length);
            status.enter(ServerPhase::Failed, &reason);
            let json = status.to_json();
            assert_eq!(json["reason"], reason.as_str());
            let message = json["last_failure"]["message"].as_str().expect("a text");
            assert_eq!(message.chars().count(), kept);
            assert_eq!(message.ends_with('…'), length > kept);
        }
    }

    #[test]
    fn a_server_that_sends_more_than_is_read_is_not_ready_until_it_stops() {
        let status = Status::new();
        status.enter(ServerPhase::Starting, "first start");
        status.set_flooding(true);
        assert_eq!(status.phase(), ServerPhase::Starting);
        status.enter(ServerPhase::Ready, "listed 3 tools");
        status.set_flooding(true);
        status.set_flooding(true);
        assert_eq!(
            (status.phase(), &status.to_json()["reason"]),
            (ServerPhase::Degraded, &json!(FLOODING))
        );
        assert_eq!(status.to_json().get("last_failure"), None);
        status.enter(ServerPhase::Ready, "listed 4 tools");
        assert_eq!(status.phase(), ServerPhase::Degraded, "another list does not make it ready");
        status.set_flooding(false);
        assert_eq!(
            (status.phase(), &status.to_json()["reason"]),
            (ServerPhase::Ready, &json!("listed 4 tools"))
        );
        status.set_flooding(true);
        status.enter(ServerPhase::Restarting, "it floods the gateway");
        status.set_flooding(false);
        assert_eq!(status.phase(), ServerPhase::Restarting);
        status.enter(ServerPhase::Ready, "listed 3 tools");
        assert_eq!(status.phase(), ServerPhase::Ready);
    }
}
