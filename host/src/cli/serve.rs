//! `airlock serve`.

use std::{
    convert::Infallible,
    future::pending,
    io::{self, Write as _},
};

use anyhow::{Context as _, bail};
use tokio::sync::oneshot;

use super::{
    outcome::Done,
    output, purge,
    session::ConfigFile,
    signals::{Hangups, Signals},
    spinner,
};
use crate::{
    gateway::{self, Gateway, Reloader},
    telemetry::Export,
};
use airlock_config::Config;
use airlock_management::{NewKeyValue, SetupToken};

/// Run the gateway
///
/// The first line on standard output has the address, and is printed as soon as requests are served.
/// Components that were not compiled before are compiled meanwhile; the line `ready` follows when all
/// are loaded. While the gateway has no operator, a line `setup token: …` on standard error has the token that
/// makes the first one. For each virtual key of the file without a value, a line `virtual key "NAME": …` on
/// standard error has the value that was made for it, once. SIGTERM or Ctrl-C stops the gateway when the
/// requests in flight have ended, at the latest after `server.drain_timeout`; a second signal stops
/// it at once. SIGHUP reads the certificate of `server.tls` again, takes the configuration file, but for the few
/// keys that need a restart, and reloads the plugins that have changed; all of it also happens by itself within seconds
/// of a change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock serve --config airlock.json")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &ServeArgs) -> anyhow::Result<Done> {
    let config = args.config.load()?;
    let mut export = Export::start(&config.telemetry)?;
    let served = Box::pin(serve(config, &mut export)).await;
    export.end(served.is_ok()).await;
    served
}

async fn serve(config: Config, export: &mut Export) -> anyhow::Result<Done> {
    let mut signals = Signals::catch()?;
    let hangups = Hangups::catch()?;
    // Before plugins are compiled, so that a port that is taken is reported at once.
    let listener = gateway::bind(&config.server).await?;
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
    let impatience = async move {
        signals.next().await;
        tracing::info!("stopping; a second signal stops at once");
        drop(stop);
        signals.next().await;
    };
    tokio::select! {
        served = gateway.serve() => Ok(served.map(|()| Done::Yes)?),
        () = impatience => bail!("stopped while requests were in flight"),
        never = reload_on(hangups, reloader) => match never {},
        never = purge::repeatedly() => match never {},
        never = announce(loaded) => match never {},
        never = announce_setup(setup_token) => match never {},
    }
}

/// Takes the configuration file and reloads the plugins that have changed, at every SIGHUP.
async fn reload_on(mut hangups: Hangups, reloader: Reloader) -> Infallible {
    loop {
        hangups.next().await;
        tracing::info!("SIGHUP: checking the configuration file and every plugin");
        reloader.reload_all().await;
    }
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
        let _ = writeln!(io::stderr(), "setup token: {}", token.expose());
    }
    pending().await
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
