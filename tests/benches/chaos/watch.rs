//! Open files and memory of the gateway while it runs.

use std::{fs, time::Duration};

use airlock_tests::bench::process::Process;
use rustix::process::Pid;
use tokio::{task::JoinHandle, time::Instant};

/// Open files and resident memory at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) descriptors: usize,
    pub(crate) resident_bytes: u64,
}

/// The first sample, the last one, and the largest values of all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resources {
    pub(crate) start: Sample,
    pub(crate) end: Sample,
    pub(crate) most: Sample,
}

/// Samples a process while it runs.
pub(crate) struct Watch(JoinHandle<Resources>);

impl Watch {
    /// Begins to sample a process, twenty times a second, for some time.
    pub(crate) fn start(id: Pid, over: Duration) -> Self {
        let end = Instant::now() + over;
        Self(tokio::spawn(async move {
            let start = sample(id);
            let mut resources = Resources { start, end: start, most: start };
            let mut turns = tokio::time::interval(Duration::from_millis(50));
            while Instant::now() < end {
                turns.tick().await;
                resources.end = sample(id);
                let now = resources.end;
                let most = &mut resources.most;
                most.descriptors = most.descriptors.max(now.descriptors);
                most.resident_bytes = most.resident_bytes.max(now.resident_bytes);
            }
            resources
        }))
    }

    /// Waits for the end of that time. Returns the samples, which are zero if the process has ended.
    pub(crate) async fn end(self) -> Resources {
        self.0.await.unwrap_or_default()
    }
}

fn sample(id: Pid) -> Sample {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", id.as_raw_nonzero()));
    Sample {
        descriptors: descriptors.map_or(0, Iterator::count),
        resident_bytes: Process::new(id).resident(),
    }
}
