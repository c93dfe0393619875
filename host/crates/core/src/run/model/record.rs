//! The history of a call, as an observer sees it. It is noted beside the protocol, and no step of
//! the protocol depends on it.

use std::sync::Arc;

use crate::run::{Call, Stage};

/// The history of one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct CallHistory {
    /// Attempts whose intent was stored, a bit each.
    pub(super) intended: u32,
    /// Attempts that the upstream received, a bit each.
    pub(super) sent: u32,
    /// Approvals and decisions to retry.
    pub(super) grants: u32,
    /// Decisions to retry.
    pub(super) retries: u32,
    /// The last of them, unless it was used or is void.
    pub(super) grant: Option<Grant>,
    /// Broken properties of the call. They are moved to the state.
    pub(super) faults: Vec<Fault>,
}

/// An approval as the person gave it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    pub(super) until_ms: i64,
    pub(super) definition: Arc<str>,
}

/// A property that is broken by one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// Two intents had the same number.
    AttemptReused,
    /// A message was sent twice.
    SentTwice,
    /// A message was sent before its intent was stored, or with a number other than that of its intent.
    SentWithoutIntent,
    /// An approval was used that was not given, was used before, or is void.
    NotGranted,
    /// An approval was used after it had expired.
    UsedAfterExpiry,
    /// An approval was used for another definition than the one that was shown.
    UsedForOtherDefinition,
    /// An attempt began at a call that was answered, denied or in doubt, or after the run had ended.
    BegunTooLate,
    /// An answer was changed or lost.
    AnswerLost,
    /// A denied call is no longer denied.
    DenialLost,
    /// An answer was stored of an attempt that was never sent, or that is not the last one.
    AnswerOfOther,
    /// An answer that the journal waits for was refused.
    AnswerRefused,
    /// The gateway that has the run could not end it.
    EndRefused,
    /// A run went on after its end.
    Revived,
    /// A gateway that had lost the run changed more than answers.
    ChangedByOther,
}

impl CallHistory {
    /// Messages that the upstream received.
    pub(super) fn sends(&self) -> u32 {
        self.sent.count_ones()
    }

    /// Notes that an earlier approval is void: the call is asked for again, or was denied.
    pub(super) fn is_asked(&mut self) {
        self.grant = None;
    }

    pub(super) fn is_granted(&mut self, grant: Grant, is_retry: bool) {
        self.grants += 1;
        self.retries += u32::from(is_retry);
        self.grant = Some(grant);
    }

    /// Notes that an intent was stored.
    pub(super) fn is_intended(&mut self, before: Option<&Call>, sent: &Call, now_ms: i64) {
        let Stage::Sent { attempt } = sent.stage else {
            return self.faults.push(Fault::SentWithoutIntent);
        };
        if self.intended & bit(attempt) != 0 {
            self.faults.push(Fault::AttemptReused);
        }
        self.intended |= bit(attempt);
        match (before.map(|call| call.stage), self.grant.take()) {
            (None | Some(Stage::Sent { .. }), _) => {}
            (Some(Stage::Approved { .. } | Stage::Retried { .. }), None) => {
                self.faults.push(Fault::NotGranted);
            }
            (Some(Stage::Approved { .. } | Stage::Retried { .. }), Some(grant)) => {
                if grant.until_ms <= now_ms {
                    self.faults.push(Fault::UsedAfterExpiry);
                }
                if grant.definition != sent.called.definition {
                    self.faults.push(Fault::UsedForOtherDefinition);
                }
            }
            (Some(_), _) => self.faults.push(Fault::BegunTooLate),
        }
    }

    /// Notes that the upstream received an attempt, and acts on it.
    pub(super) fn is_sent(&mut self, attempt: u32) -> Option<Fault> {
        let is_repeated = self.sent & bit(attempt) != 0;
        self.sent |= bit(attempt);
        if is_repeated {
            Some(Fault::SentTwice)
        } else {
            (self.intended & bit(attempt) == 0).then_some(Fault::SentWithoutIntent)
        }
    }

    /// Returns whether an attempt was sent, and no later one was intended.
    pub(super) fn is_last(&self, attempt: u32) -> bool {
        self.sent & bit(attempt) != 0 && self.intended >> attempt == 1
    }
}

fn bit(attempt: u32) -> u32 {
    1 << attempt
}
