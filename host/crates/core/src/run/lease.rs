//! The lease of a run: which process runs its script.

use super::Refused;

/// State of a run, apart from its calls. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Number that grows with each process that takes the run over; the first one has 1. A process
    /// that holds the lease knows its epoch; each of its steps is refused after another process has
    /// taken the run over.
    pub epoch: i64,
    /// Phase of the run.
    pub phase: Phase,
    /// True if the process that runs the script is to stop.
    pub is_cancelled: bool,
}

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A process runs the script, or has ended while it did.
    Running {
        /// Time from which another process may resume the run.
        until_ms: i64,
    },
    /// The script has stopped at a call, and the run can be resumed.
    Suspended,
    /// The run has ended.
    Ended,
}

/// Result of [`Lease::cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The run has ended.
    Ended,
    /// The process that runs the script ends the run.
    Requested,
}

impl Lease {
    /// Begins a run, with a lease of `lease_ms`.
    pub fn begin(now_ms: i64, lease_ms: i64) -> Self {
        let phase = Phase::Running { until_ms: now_ms.saturating_add(lease_ms) };
        Self { epoch: 1, phase, is_cancelled: false }
    }

    /// Takes the run over to resume it, in the epoch after `skipped` others. The caller then passes
    /// every call through [`Call::claimed`](super::Call::claimed). Fails as [`Self::can_go_on`], or if
    /// there are no further epochs.
    ///
    /// A party that knows an epoch may approve the calls that wait in it. With a random `skipped` no
    /// party knows the next one before its calls are shown.
    #[must_use = "the run is taken over only if this is stored"]
    pub fn claim(self, now_ms: i64, lease_ms: i64, skipped: u32) -> Result<Self, Refused> {
        self.can_go_on(now_ms)?;
        let phase = Phase::Running { until_ms: now_ms.saturating_add(lease_ms) };
        let next = self.epoch.checked_add(1 + i64::from(skipped)).ok_or(Refused::Ended)?;
        Ok(Self { epoch: next, phase, ..self })
    }

    /// Extends the lease. Fails if the process of `epoch` no longer has it, or is to stop.
    pub fn renew(self, epoch: i64, now_ms: i64, lease_ms: i64) -> Result<Self, Refused> {
        self.check(epoch)?;
        Ok(Self { phase: Phase::Running { until_ms: now_ms.saturating_add(lease_ms) }, ..self })
    }

    /// Fails if the process of `epoch` may not take a step. A lease that has expired is still that of
    /// its process, until another one takes the run over.
    pub fn check(self, epoch: i64) -> Result<(), Refused> {
        match self.phase {
            _ if self.epoch != epoch => Err(Refused::Superseded),
            Phase::Running { .. } if self.is_cancelled => Err(Refused::Cancelled),
            Phase::Running { .. } => Ok(()),
            Phase::Suspended => Err(Refused::Superseded),
            Phase::Ended => Err(Refused::Ended),
        }
    }

    /// Fails if the process of `epoch` no longer has the lease. A process that is to stop has it until
    /// the run ends, and may store what it knows.
    pub fn check_held(self, epoch: i64) -> Result<(), Refused> {
        match self.check(epoch) {
            Err(Refused::Cancelled) => Ok(()),
            checked => checked,
        }
    }

    /// Returns the lease after a change by the process of `epoch`, which shows that the process
    /// lives: extended, unless the process no longer has it or is to stop.
    #[must_use]
    pub fn touched(self, epoch: i64, now_ms: i64, lease_ms: i64) -> Self {
        self.renew(epoch, now_ms, lease_ms).unwrap_or(self)
    }

    /// Suspends the run: its script has stopped.
    pub fn suspend(self, epoch: i64) -> Result<Self, Refused> {
        self.check(epoch)?;
        Ok(Self { phase: Phase::Suspended, ..self })
    }

    /// Ends the run. A cancelled run can be ended by its process too.
    pub fn end(self, epoch: i64) -> Result<Self, Refused> {
        self.check_held(epoch)?;
        Ok(Self { phase: Phase::Ended, ..self })
    }

    /// Fails if the run cannot be resumed, so that nothing is decided about its calls: if a process runs
    /// the script, or if the run has ended or is to end.
    pub fn can_go_on(self, now_ms: i64) -> Result<(), Refused> {
        self.is_idle(now_ms)?;
        if self.is_cancelled { Err(Refused::Cancelled) } else { Ok(()) }
    }

    /// Fails if a process runs the script, or if the run has ended.
    pub fn is_idle(self, now_ms: i64) -> Result<(), Refused> {
        match self.phase {
            Phase::Running { until_ms } if now_ms < until_ms => Err(Refused::Running),
            Phase::Running { .. } | Phase::Suspended => Ok(()),
            Phase::Ended => Err(Refused::Ended),
        }
    }

    /// Returns whether the process that ran the script has ended, or has lost its connection to the
    /// store.
    pub fn is_interrupted(self, now_ms: i64) -> bool {
        matches!(self.phase, Phase::Running { until_ms } if until_ms <= now_ms)
    }

    /// Ends the run, or requests that from the process that runs the script.
    pub fn cancel(self, now_ms: i64) -> Result<(Self, Cancelled), Refused> {
        match self.is_idle(now_ms) {
            Ok(()) => Ok((Self { phase: Phase::Ended, ..self }, Cancelled::Ended)),
            Err(Refused::Running) => {
                Ok((Self { is_cancelled: true, ..self }, Cancelled::Requested))
            }
            Err(refused) => Err(refused),
        }
    }
}
