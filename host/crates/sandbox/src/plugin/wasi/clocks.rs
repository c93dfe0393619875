//! Clocks: the real ones if they are granted, otherwise a time that starts anew in every call.
//!
//! Without the grant, time stands still except for two cases. Every reading of a clock advances it,
//! so that a guest that polls the clock reaches its deadline. Sleeping advances it too, and takes
//! as long in real time. Timestamps of files are data of the files and are not changed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::{
    async_trait,
    clocks::WasiClocksCtxView,
    p2::{
        DynPollable, Pollable,
        bindings::clocks::{
            monotonic_clock,
            wall_clock::{self, Datetime},
        },
        subscribe,
    },
};

use crate::{Use, plugin::uses::CallRecorder};

/// 2000-01-01T00:00:00Z, in seconds since 1970.
const START_SECONDS: u64 = 946_684_800;
/// Nanoseconds by which reading a clock advances it.
const STEP_NANOSECONDS: u32 = 1_000_000;

/// The time of one call without the grant, in nanoseconds since its start. Both clocks show it.
#[derive(Clone, Default)]
pub(super) struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    fn read(&self) -> u64 {
        self.0.fetch_add(STEP_NANOSECONDS.into(), Ordering::Relaxed)
    }

    /// Sleeps until `instant`. An instant too far in the future for the host's clock is never
    /// reached.
    fn sleep_until(&self, instant: u64) -> Sleep {
        let left = Duration::from_nanos(instant.saturating_sub(self.0.load(Ordering::Relaxed)));
        Sleep { clock: self.clone(), instant, until: tokio::time::Instant::now().checked_add(left) }
    }
}

/// A sleep that takes real time and advances its call's own time.
struct Sleep {
    clock: VirtualClock,
    instant: u64,
    /// `None` if the host's clock cannot represent it.
    until: Option<tokio::time::Instant>,
}

#[async_trait]
impl Pollable for Sleep {
    /// Waits for the instant. The call's deadline drops the future if it is sooner.
    async fn ready(&mut self) {
        match self.until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
        self.clock.0.fetch_max(self.instant, Ordering::Relaxed);
    }
}

/// Clocks of a call: its own time, or the real one if `virtual_clock` is `None`.
pub(super) struct Clocks<'a> {
    pub(super) real: WasiClocksCtxView<'a>,
    pub(super) virtual_clock: Option<&'a VirtualClock>,
    pub(super) recorder: Option<&'a CallRecorder>,
}

impl Clocks<'_> {
    /// Records that the real time is read.
    fn record(&self) {
        if let Some(recorder) = self.recorder {
            recorder.record(Use::Clocks);
        }
    }
}

/// Links both clocks over those of wasmtime-wasi. `view` returns the clocks of a store.
pub(super) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> Clocks<'_>,
) -> wasmtime::Result<()> {
    wall_clock::add_to_linker::<T, Time>(linker, view)?;
    monotonic_clock::add_to_linker::<T, Time>(linker, view)
}

/// Names the type that implements the generated traits.
struct Time;

impl HasData for Time {
    type Data<'a> = Clocks<'a>;
}

impl wall_clock::Host for Clocks<'_> {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let Some(clock) = self.virtual_clock else {
            self.record();
            return wall_clock::Host::now(&mut self.real);
        };
        let now = Duration::from_nanos(clock.read());
        Ok(Datetime { seconds: START_SECONDS + now.as_secs(), nanoseconds: now.subsec_nanos() })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        match self.virtual_clock {
            Some(_) => Ok(Datetime { seconds: 0, nanoseconds: STEP_NANOSECONDS }),
            None => wall_clock::Host::resolution(&mut self.real),
        }
    }
}

impl monotonic_clock::Host for Clocks<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        let Some(clock) = self.virtual_clock else {
            self.record();
            return monotonic_clock::Host::now(&mut self.real);
        };
        Ok(clock.read())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        match self.virtual_clock {
            Some(_) => Ok(STEP_NANOSECONDS.into()),
            None => monotonic_clock::Host::resolution(&mut self.real),
        }
    }

    fn subscribe_instant(&mut self, instant: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let Some(clock) = self.virtual_clock else {
            self.record();
            return self.real.subscribe_instant(instant);
        };
        let sleep = self.real.table.push(clock.sleep_until(instant))?;
        subscribe(self.real.table, sleep)
    }

    fn subscribe_duration(&mut self, nanoseconds: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let Some(clock) = self.virtual_clock else {
            self.record();
            return self.real.subscribe_duration(nanoseconds);
        };
        self.subscribe_instant(clock.0.load(Ordering::Relaxed).saturating_add(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::ClientName;
    use wasmtime::component::ResourceTable;
    use wasmtime_wasi::clocks::WasiClocksCtx;

    use super::*;
    use crate::UseRecorder;

    fn with_clocks<T>(
        virtual_clock: Option<&VirtualClock>,
        body: impl FnOnce(&mut Clocks<'_>) -> T,
    ) -> T {
        with_recorder(virtual_clock, None, body)
    }

    fn with_recorder<T>(
        virtual_clock: Option<&VirtualClock>,
        recorder: Option<&CallRecorder>,
        body: impl FnOnce(&mut Clocks<'_>) -> T,
    ) -> T {
        let mut ctx = WasiClocksCtx::default();
        let mut table = ResourceTable::new();
        body(&mut Clocks {
            real: WasiClocksCtxView { ctx: &mut ctx, table: &mut table },
            virtual_clock,
            recorder,
        })
    }

    fn wall(clocks: &mut Clocks<'_>) -> (u64, u32) {
        let now = wall_clock::Host::now(clocks).expect("a time");
        (now.seconds, now.nanoseconds)
    }

    #[test]
    fn every_call_starts_at_the_same_time_and_each_reading_advances_it() {
        for _ in 0..2 {
            with_clocks(Some(&VirtualClock::default()), |clocks| {
                assert_eq!(wall(clocks), (START_SECONDS, 0));
                assert_eq!(
                    monotonic_clock::Host::now(clocks).expect("a time"),
                    u64::from(STEP_NANOSECONDS)
                );
                assert_eq!(wall(clocks), (START_SECONDS, 2_000_000));
                for _ in 0..1_000 {
                    wall(clocks);
                }
                assert_eq!(wall(clocks), (START_SECONDS + 1, 3_000_000));
            });
        }
    }

    #[test]
    fn with_the_grant_the_clock_shows_the_real_time() {
        let before = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let (now, _) = with_clocks(None, wall);
        assert!((before..before + 60).contains(&now), "{now}");
    }

    #[test]
    fn reading_a_real_clock_is_a_use_and_reading_the_calls_own_time_is_none() {
        let client = ClientName::parse("test").expect("a name");
        let read: [fn(&mut Clocks<'_>); 2] = [
            |clocks| assert_ne!(wall(clocks), (0, 0)),
            |clocks| assert!(monotonic_clock::Host::now(clocks).is_ok()),
        ];
        for read in read {
            let recorder = UseRecorder::default();
            let call = recorder.of_call(&client, "run");
            with_recorder(Some(&VirtualClock::default()), Some(&call), read);
            assert!(recorder.uses(&client).is_empty());
            with_recorder(None, Some(&call), read);
            assert_eq!(recorder.uses(&client)["run"], [Use::Clocks].into());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_takes_real_time_and_advances_the_clock() {
        let clock = VirtualClock::default();
        let began = tokio::time::Instant::now();
        clock.sleep_until(5_000_000_000).ready().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert_eq!(clock.read(), 5_000_000_000);
        // A time in the past is over at once, and does not set the clock back.
        clock.sleep_until(0).ready().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        assert_eq!(clock.read(), 5_000_000_000 + u64::from(STEP_NANOSECONDS));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_sleep_ends_when_it_is_dropped() {
        let sleep = async { VirtualClock::default().sleep_until(u64::MAX).ready().await };
        assert!(tokio::time::timeout(Duration::from_hours(1), sleep).await.is_err());
    }
}
