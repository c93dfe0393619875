//! The certificate of the listener: reads its files at the start, whenever they change, and at a SIGHUP.
//!
//! Make before break: files that cannot be used are logged, and connections get the certificate before.

use std::{convert::Infallible, sync::Arc};

use tokio::{
    sync::Mutex,
    time::{MissedTickBehavior, interval},
};
use tracing::{error, info, warn};

use airlock_lock::{FileVersion, WATCH_PERIOD, file_version};
use airlock_server::{BadTls, ListenerTls, TlsSettings, Untimely};
use airlock_strings::with_causes;

/// Versions of the files of a certificate, in the order of the settings.
type Versions = Vec<Option<FileVersion>>;

/// The certificate of the listener. Clones share it.
#[derive(Clone)]
pub(super) struct Certificate {
    tls: ListenerTls,
    /// Versions of the files that were read last, usable or not; `None` until the start has read them.
    /// Held while they are read.
    taken: Arc<Mutex<Option<Versions>>>,
}

impl Certificate {
    /// Creates the certificate of a listener. Nothing is read yet.
    pub(super) fn new(settings: TlsSettings) -> Self {
        Self { tls: ListenerTls::new(settings), taken: Arc::default() }
    }

    /// Returns what the listener takes the certificate from.
    pub(super) fn listener(&self) -> &ListenerTls {
        &self.tls
    }

    /// Reads the files for the first time; does nothing after that. Fails if a file cannot be used.
    pub(super) async fn start(&self) -> Result<(), BadTls> {
        let mut taken = self.taken.lock().await;
        if taken.is_none() {
            let versions = self.versions().await;
            report(self.tls.load().await?);
            *taken = Some(versions);
        }
        Ok(())
    }

    /// Reads the files again, and logs the outcome. Does nothing before [`Self::start`].
    pub(super) async fn reload(&self) {
        let mut taken = self.taken.lock().await;
        if taken.is_none() {
            return;
        }
        // Before they are read: a change meanwhile is another change.
        *taken = Some(self.versions().await);
        match self.tls.load().await {
            Ok(untimely) => {
                info!("the certificate of the listener was read; new connections get it");
                report(untimely);
            }
            Err(error) => error!(
                reason = with_causes(&error),
                "the certificate of the listener cannot be used; connections get the one before"
            ),
        }
    }

    /// Reads the files again whenever they change. They must look the same in two checks before they are
    /// read, so that a certificate is not read without its key. Never returns.
    pub(super) async fn watch(&self) -> Infallible {
        let mut ticks = interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let now = Some(self.versions().await);
            if now == before && *self.taken.lock().await != now {
                self.reload().await;
            }
            before = now;
        }
    }

    async fn versions(&self) -> Versions {
        let mut versions = Vec::new();
        for file in self.tls.settings().files() {
            versions.push(file_version(file).await);
        }
        versions
    }
}

/// Logs the reason for which clients refuse a certificate that can be used.
fn report(untimely: Option<Untimely>) {
    if let Some(reason) = untimely {
        warn!(%reason, "the certificate of the listener is used all the same");
    }
}
