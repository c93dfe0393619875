//! `airlock top`: shows what a running gateway does, again every two seconds.
//!
//! | module | purpose |
//! |---|---|
//! | `metrics` | Prometheus' text format, and quantiles of histograms |
//! | `sample` | asks the gateway: health, metrics, servers, live calls, approvals |
//! | `frame` | a sample as lines of text |
//! | `screen` | the terminal, which is restored at the end |

mod frame;
mod metrics;
mod sample;
mod screen;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval_at},
};

use self::{sample::Sample, screen::Screen};
use super::running::RunningGateway;
use airlock_terminal::{outcome::CommandOutcome, output, signals::Signals};

/// Time between two samples: more than the second for which a gateway shows the same metrics.
const INTERVAL: Duration = Duration::from_secs(2);
/// Width and height of a frame without a terminal, in characters and lines.
const PLAIN: (usize, usize) = (160, 1_000);

/// Show the live calls of a running gateway
///
/// Shows every two seconds: requests in flight, calls per second, each tool with its calls, errors and times,
/// decisions, calls that wait for an approval, the state of the servers, and the calls that have run for longest. Times
/// are counted since the start of the gateway. Ctrl-C ends the command. Values that the gateway does not have, or does not
/// show to this operator, are left out, and listed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock top --config airlock.json\n  airlock top --url https://airlock.example.com\n  airlock top --once --json"
)]
pub(super) struct TopArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Show one sample, and end.
    #[arg(long)]
    once: bool,
    /// Print one sample as a JSON document: `{gateway, requests_in_flight, calls, calls_per_second, decisions, approvals,
    /// tools, servers, live_calls, missing}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &TopArgs) -> anyhow::Result<CommandOutcome> {
    if args.json {
        let sample = Sample::take(&args.gateway).await?;
        output::document(&sample)?;
    } else if args.once || !io::stdout().is_terminal() {
        let sample = Sample::take(&args.gateway).await?;
        for line in frame::lines(&sample, PLAIN.0, PLAIN.1) {
            output::line(&line)?;
        }
    } else {
        watch(&args.gateway).await?;
    }
    Ok(CommandOutcome::Success)
}

/// Shows samples until a signal comes. Fails if there is no gateway at the beginning; later, it may be restarted.
async fn watch(gateway: &RunningGateway) -> anyhow::Result<()> {
    let mut signals = Signals::catch()?;
    let mut resized = resizes()?;
    let mut last = tokio::select! {
        first = Sample::take(gateway) => first?,
        () = signals.next() => return Ok(()),
    };
    let mut problem = None;
    let mut screen = Screen::open()?;
    let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(&last, problem.as_deref())?;
        tokio::select! {
            _ = ticks.tick() => {}
            _ = resized.recv() => continue,
            () = signals.next() => return Ok(()),
        }
        tokio::select! {
            sampled = Sample::take(gateway) => match sampled {
                Ok(sample) => {
                    last = sample.after(&last);
                    problem = None;
                }
                Err(error) => problem = Some(format!("{error:#}")),
            },
            () = signals.next() => return Ok(()),
        }
    }
}

/// Returns the signals that the size of the terminal has changed.
fn resizes() -> anyhow::Result<Signal> {
    signal(SignalKind::window_change()).context("signals cannot be caught")
}
