//! `airlock serve`.

use std::{
    convert::Infallible,
    future::pending,
    io::{self, Write as _},
};

use anyhow::{Context as _, bail};
use tokio::{net::TcpListener, sync::oneshot};

use super::{inherited, manager::ServiceManager, purge};
use crate::telemetry::Export;
use airlock_config::Config;
use airlock_gateway::{Gateway, Reloader, command_line};
use airlock_management::{NewKeyValue, SetupToken};
use airlock_server::Settings;
use airlock_terminal::{
    outcome::CommandOutcome,
    output,
    session::ConfigFile,
    signals::{Hangups, Signals},
    spinner,
};

/// Run the gateway
///
/// The first line on standard output contains the address, and is printed as soon as requests are served.
/// Components without compiled code are compiled in the background; the line `ready` follows when all
/// are loaded. While the gateway has no operator, a line `setup token: …` on standard error contains the token that
/// creates the first one. For each virtual key of the file without a value, a line `virtual key "NAME": …` on
/// standard error contains the value that was generated for it; it is printed once.
///
/// SIGTERM or Ctrl-C stops the gateway when the requests in flight have ended, at the latest after
/// `server.drain_timeout`; a second signal stops it at once. SIGHUP reads the certificate of `server.tls` again, applies
/// the configuration file, except the few keys that need a restart, and reloads changed plugins. The gateway also does
/// all of this by itself within seconds of a change.
///
/// If standard input is a listening socket, as with `StandardInput=socket` in a unit of systemd, the gateway
/// serves on it instead of `server.listen`. `Type=notify` and `WatchdogSec=` are supported.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock serve --config airlock.json")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &ServeArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let mut export = Export::start(&config.telemetry)?;
    let served = Box::pin(serve(config, &mut export)).await;
    export.end(served.is_ok()).await;
    served
}

async fn serve(config: Config, export: &mut Export) -> anyhow::Result<CommandOutcome> {
    let signals = Signals::catch()?;
    let hangups = Hangups::catch()?;
    let manager = ServiceManager::from_environment();
    // Before plugins are compiled, so that a port that is taken is reported at once.
    let listener = listener(&config.server).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    let scheme = config.server.scheme();
    let (stop, stopped) = oneshot::channel::<()>();
    let gateway = Gateway::builder(config)
        .listener(listener)
        .shutdown(closed(stopped))
        .on_compile(spinner::compiling)
        .on_new_key(announce_key)
        .open()?;
    export.add_metrics(&gateway);
    gateway.load_certificate().await?;
    output::line(&format!("listening on {scheme}://{address}"))?;
    let loaded = gateway.loaded();
    let reloader = gateway.reloader().clone();
    let setup_token = gateway.setup_token();
    let settings_read = command_line::settings_read(&gateway);
    tokio::select! {
        served = gateway.serve() => Ok(served.map(|()| CommandOutcome::Success)?),
        () = impatience(signals, stop, &manager) => bail!("stopped while requests were in flight"),
        never = reload_on(hangups, reloader, &manager) => match never {},
        never = manager.keep_alive() => match never {},
        never = report_ready(settings_read, &manager) => match never {},
        never = purge::repeatedly() => match never {},
        never = announce(loaded) => match never {},
        never = announce_setup(setup_token) => match never {},
    }
}

/// Returns the listener: one that the service manager has opened, or else one on the configured address.
async fn listener(settings: &Settings) -> anyhow::Result<TcpListener> {
    match inherited::take()? {
        Some(listener) => Ok(listener),
        None => Ok(command_line::bind(settings).await?),
    }
}

/// Begins to stop the gateway at the first signal. Returns at the second.
async fn impatience(mut signals: Signals, stop: oneshot::Sender<()>, manager: &ServiceManager) {
    signals.next().await;
    tracing::info!("stopping; a second signal stops at once");
    manager.stopping();
    drop(stop);
    signals.next().await;
}

/// Applies the configuration file and reloads the plugins that have changed, at every SIGHUP.
async fn reload_on(
    mut hangups: Hangups,
    reloader: Reloader,
    manager: &ServiceManager,
) -> Infallible {
    loop {
        hangups.next().await;
        tracing::info!("SIGHUP: checking the configuration file and every plugin");
        manager.reloading();
        reloader.reload_all().await;
        manager.reloaded();
    }
}

/// Notifies the service manager once requests are accepted, that is, once `GET /ready` is 200. Never returns.
async fn report_ready(
    settings_read: impl Future<Output = ()>,
    manager: &ServiceManager,
) -> Infallible {
    settings_read.await;
    manager.ready();
    pending().await
}

/// Prints `ready` to standard output when all is loaded. Never returns.
async fn announce(loaded: impl Future<Output = ()>) -> Infallible {
    loaded.await;
    // The reader of standard output may be gone.
    let _ = output::line("ready");
    pending().await
}

/// Prints the setup token of a gateway without an operator to standard error, once. Never returns.
async fn announce_setup(token: impl Future<Output = Option<SetupToken>>) -> Infallible {
    if let Some(token) = token.await {
        // The reader of standard error may be gone.
        let _ = writeln!(io::stderr(), "{}", setup_lines(token.expose()));
    }
    pending().await
}

/// Returns the line with the setup token, which programs read, and one about its use.
fn setup_lines(token: &str) -> String {
    format!(
        "setup token: {token}\n  it makes the first operator, at /admin of this gateway or with POST /api/session/setup"
    )
}

/// Prints the credential that was made for a virtual key to standard error.
fn announce_key(new: &NewKeyValue) {
    let NewKeyValue { key, value } = new;
    // The reader of standard error may be gone.
    let _ = writeln!(io::stderr(), "virtual key {key:?}: {}", value.expose());
}

async fn closed(channel: oneshot::Receiver<()>) {
    // The sender is dropped; it never sends.
    let _ = channel.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setup_token_is_alone_on_its_line_and_the_next_line_has_its_use() {
        let lines = setup_lines("setup_abc");
        let (first, second) = lines.split_once('\n').expect("two lines");
        assert_eq!(first, "setup token: setup_abc");
        assert!(
            second.contains("/admin") && second.contains("POST /api/session/setup"),
            "{second}"
        );
    }
}
