//! One call of a run, and each step of it.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Refused;
use airlock_strings::hex;

/// A call as a script makes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Called {
    /// Name by which the script calls the tool.
    pub tool: Arc<str>,
    /// Arguments with which the call is decided and made: JSON text, as the guards have left it.
    pub arguments: Arc<str>,
    /// Digest of the arguments as the script wrote them; `None` if guards have not changed them. The text is not kept,
    /// because a guard may have removed a secret from it.
    pub written: Option<Arc<str>>,
    /// Digest of the definition of the tool. Empty if the script may not see the tool, and for a
    /// repeatable call that needed no approval.
    pub definition: Arc<str>,
    /// True if a second call with the same arguments has no further effect.
    pub is_repeatable: bool,
    /// Sources of untrusted content that the script had read before, as they are shown with the call: a JSON array, or an
    /// object with those of its arguments too; `None` for none.
    pub sources: Option<Arc<str>>,
    /// Reasons for which guards require an approval, as they are shown with the call: a JSON array; `None` for none.
    pub asked_by: Option<Arc<str>>,
}

/// A call in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// The call.
    pub called: Called,
    /// Its stage.
    pub stage: Stage,
}

/// Stage of a call. Attempts count from 1; times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It waits for an approval.
    Pending {
        /// Number of attempts that were made before.
        attempts: u32,
    },
    /// It may be sent once, and so may the calls that a plugin makes in it.
    Approved {
        /// Number of attempts that were made before.
        attempts: u32,
        /// Time at which the approval expires.
        until_ms: i64,
    },
    /// It was in doubt, and may be sent once more. The calls that a plugin makes in it need an
    /// approval of their own: they were not shown.
    Retried {
        /// Number of attempts that were made before.
        attempts: u32,
        /// Time at which the decision expires.
        until_ms: i64,
    },
    /// A person has denied it. The script receives an error.
    Denied,
    /// Its intent is stored: it may have been sent.
    Sent {
        /// Number of this attempt.
        attempt: u32,
    },
    /// It may have been sent, its answer is lost, and it must not be repeated without a decision.
    InDoubt {
        /// Number of the attempt.
        attempt: u32,
    },
    /// It has an answer.
    Answered,
}

impl Called {
    /// Sets the arguments as the script wrote them, which the guards have changed to those that the call has.
    #[must_use]
    pub fn written_as(self, arguments: &str) -> Self {
        Self { written: Some(digest(arguments).into()), ..self }
    }

    /// Returns whether the call is of this tool, and the script wrote it with these arguments.
    pub fn is_made_by(&self, tool: &str, arguments: &str) -> bool {
        *self.tool == *tool && self.is_written_as(arguments)
    }

    /// Returns whether the script makes the same call. What guards leave of its arguments and the definition of the tool
    /// may have changed.
    pub fn is_same_call(&self, other: &Self) -> bool {
        let is_same = match (&self.written, &other.written) {
            (Some(own), Some(others)) => own == others,
            (_, None) => self.is_written_as(&other.arguments),
            (None, Some(_)) => other.is_written_as(&self.arguments),
        };
        self.tool == other.tool && is_same
    }

    fn is_written_as(&self, arguments: &str) -> bool {
        match &self.written {
            Some(written) => **written == *digest(arguments),
            None => *self.arguments == *arguments,
        }
    }

    /// Returns whether a person is shown the same of both calls besides the tool.
    fn is_shown_as(&self, other: &Self) -> bool {
        self.is_approved_as(other)
            && self.sources == other.sources
            && self.asked_by == other.asked_by
    }

    /// Returns whether an approval of this call is one of the other.
    fn is_approved_as(&self, other: &Self) -> bool {
        self.definition == other.definition && self.arguments == other.arguments
    }
}

impl Call {
    /// Stores that a call waits for an approval. An approval that was given for another definition, for other
    /// arguments or with other sources or reasons, or that has expired, is void. Fails if the journal has another call,
    /// or if the call has come further.
    pub fn ask(present: Option<&Self>, called: Called, now_ms: i64) -> Result<Self, Refused> {
        let attempts = match present {
            None => 0,
            Some(present) => {
                present.check_same(&called)?;
                match present.stage {
                    Stage::Pending { attempts } => attempts,
                    Stage::Approved { attempts, until_ms }
                    | Stage::Retried { attempts, until_ms }
                        if until_ms <= now_ms || !present.called.is_shown_as(&called) =>
                    {
                        attempts
                    }
                    // The attempt found that it needs an approval, as that of a plugin does whose
                    // own call needs one. Of a process that has ended, only repeatable calls are here.
                    Stage::Sent { attempt } => attempt,
                    _ => return Err(Refused::NotPending),
                }
            }
        };
        Ok(Self { called, stage: Stage::Pending { attempts } })
    }

    /// Stores the intent to send a call, and uses its approval. Fails if the journal has another
    /// call, or one that may not be sent now.
    pub fn intend(present: Option<&Self>, called: Called, now_ms: i64) -> Result<Self, Refused> {
        let attempts = match present {
            None => 0,
            Some(present) => {
                present.check_same(&called)?;
                match present.stage {
                    Stage::Approved { attempts, until_ms }
                    | Stage::Retried { attempts, until_ms } => {
                        if !present.called.is_approved_as(&called) {
                            return Err(Refused::Redefined);
                        }
                        if until_ms <= now_ms {
                            return Err(Refused::Expired);
                        }
                        attempts
                    }
                    Stage::Sent { attempt } if present.called.is_repeatable => attempt,
                    _ => return Err(Refused::NotDue),
                }
            }
        };
        Ok(Self { called, stage: Stage::Sent { attempt: attempts + 1 } })
    }

    /// Stores that an attempt was answered. An answer is a fact, so it does not need the lease: a
    /// process that has lost it may still know the answer.
    pub fn answer(&self, attempt: u32) -> Result<Self, Refused> {
        match self.stage {
            Stage::Sent { attempt: sent } | Stage::InDoubt { attempt: sent } if sent == attempt => {
                Ok(self.at(Stage::Answered))
            }
            _ => Err(Refused::Stale),
        }
    }

    /// Stores the answer of a call whose intent was not stored, because it is repeatable or was
    /// refused before it was sent. Fails if the journal has the call, or another one.
    pub fn record(present: Option<&Self>, called: Called) -> Result<Self, Refused> {
        match present {
            None => Ok(Self { called, stage: Stage::Answered }),
            Some(present) => {
                present.check_same(&called)?;
                Err(Refused::Stale)
            }
        }
    }

    /// Returns the call as the next process finds it: one that was sent and has no answer is in
    /// doubt, unless it is repeatable.
    #[must_use]
    pub fn claimed(&self) -> Self {
        match self.stage {
            Stage::Sent { attempt } if !self.called.is_repeatable => {
                self.at(Stage::InDoubt { attempt })
            }
            _ => self.clone(),
        }
    }

    /// Approves the call until `until_ms`, and the calls that a plugin makes in it. An approval that was
    /// not used is renewed. Refused for a call in doubt: the same approval may have made it, and a
    /// client that repeats its request must not make it again.
    pub fn approve(&self, until_ms: i64) -> Result<Self, Refused> {
        match self.stage {
            Stage::Pending { attempts } | Stage::Approved { attempts, .. } => {
                Ok(self.at(Stage::Approved { attempts, until_ms }))
            }
            _ => Err(Refused::NotPending),
        }
    }

    /// Denies the call, also if an approval was given and not used.
    pub fn deny(&self) -> Result<Self, Refused> {
        match self.stage {
            Stage::Pending { .. } | Stage::Approved { .. } | Stage::Retried { .. } => {
                Ok(self.at(Stage::Denied))
            }
            _ => Err(Refused::NotPending),
        }
    }

    /// Decides that a call in doubt is made again, until `until_ms`.
    pub fn retry(&self, until_ms: i64) -> Result<Self, Refused> {
        Ok(self.at(Stage::Retried { attempts: self.attempt_in_doubt()?, until_ms }))
    }

    /// Decides that a call in doubt is made again as [`Self::retry`], and approves the calls that a
    /// plugin makes in it.
    pub fn retry_approved(&self, until_ms: i64) -> Result<Self, Refused> {
        Ok(self.at(Stage::Approved { attempts: self.attempt_in_doubt()?, until_ms }))
    }

    /// Decides that a call in doubt has the answer that the caller stores with it.
    pub fn skip(&self) -> Result<Self, Refused> {
        self.attempt_in_doubt().map(|_| self.at(Stage::Answered))
    }

    fn attempt_in_doubt(&self) -> Result<u32, Refused> {
        match self.stage {
            Stage::InDoubt { attempt } => Ok(attempt),
            _ => Err(Refused::NotInDoubt),
        }
    }

    fn check_same(&self, called: &Called) -> Result<(), Refused> {
        if self.called.is_same_call(called) { Ok(()) } else { Err(Refused::Diverged) }
    }

    fn at(&self, stage: Stage) -> Self {
        Self { called: self.called.clone(), stage }
    }
}

fn digest(arguments: &str) -> String {
    hex(&Sha256::digest(arguments))
}
