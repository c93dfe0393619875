//! The certificate of the listener: reads its files at the start, whenever they change, and at a SIGHUP.
//!
//! Make before break: files that cannot be used are logged, and connections get the certificate before. The
//! files are read again after a pause, because the reason may not show in their versions: a directory that
//! could not be searched, or a file system that failed.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future;
use tokio::{
    sync::Mutex,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::{error, info, warn};

use super::background::Tasks;
use airlock_core::file_version::FileVersion;
use airlock_ingress::{BadTls, ListenerTls, TlsSettings, Untimely};
use airlock_lock::{WATCH_PERIOD, file_version};
use airlock_strings::with_causes;

/// Pause before files that cannot be used are read again. It doubles after each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause before files that cannot be used are read again.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Longest time that a reload waits for the files. A network file system that does not respond keeps its
/// readers for ever.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks of the time in which the certificate is valid.
const VALIDITY_PERIOD: Duration = Duration::from_hours(24);

/// Versions of the files of a certificate, in the order of the settings.
type Versions = Vec<Option<FileVersion>>;

/// The last time that the files were read.
struct LastRead {
    /// Versions of the files, examined before they were read: a change meanwhile is another change.
    versions: Versions,
    /// `None` if they can be used.
    failure: Option<UnusableFiles>,
}

/// Files that cannot be used.
struct UnusableFiles {
    reason: String,
    /// Pause after this failure.
    pause: Duration,
    retry_at: Instant,
}

/// Reason that the files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadTrigger {
    /// They have changed, or the pause after a failure has ended.
    Watch,
    /// An operator has asked for it.
    Request,
}

impl LastRead {
    /// Creates an attempt that fails now, after `last`.
    fn failed(versions: Versions, reason: String, last: &Self, now: Instant) -> Self {
        let last_pause = match &last.failure {
            Some(failure) if last.versions == versions => Some(failure.pause),
            _ => None,
        };
        let pause = last_pause.map_or(FIRST_PAUSE, |pause| LONGEST_PAUSE.min(pause * 2));
        Self { versions, failure: Some(UnusableFiles { reason, pause, retry_at: now + pause }) }
    }

    /// Returns whether files with these versions are to be read now.
    fn is_due(&self, versions: &[Option<FileVersion>], now: Instant) -> bool {
        self.versions != *versions
            || self.failure.as_ref().is_some_and(|failure| failure.retry_at <= now)
    }

    /// Returns the reason for which the files cannot be used, if there is one.
    fn reason(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.reason.as_str())
    }
}

/// The certificate of the listener. Clones share it.
#[derive(Clone)]
pub(super) struct Certificate {
    tls: ListenerTls,
    /// `None` until the start has read the files. Held while they are read, so that what was read first
    /// does not replace what was read later. Only regular files of a limited size are read.
    last: Arc<Mutex<Option<LastRead>>>,
}

impl Certificate {
    /// Creates the certificate of a listener. Nothing is read yet.
    pub(super) fn new(settings: TlsSettings) -> Self {
        Self { tls: ListenerTls::new(settings), last: Arc::default() }
    }

    /// Returns what the listener takes the certificate from.
    pub(super) fn listener(&self) -> &ListenerTls {
        &self.tls
    }

    /// Reads the files for the first time; does nothing after that. Fails if a file cannot be used.
    pub(super) async fn start(&self) -> Result<(), BadTls> {
        let mut last = self.last.lock().await;
        if last.is_none() {
            let versions = self.versions().await;
            report(&self.tls.load().await?);
            *last = Some(LastRead { versions, failure: None });
        }
        Ok(())
    }

    /// Reads the files again in a task of their own, which logs the outcome. Waits for it for a few seconds
    /// at most. Does nothing before [`Self::start`].
    pub(super) async fn reload(&self, tasks: &Tasks) {
        let this = self.clone();
        let reading = tasks.spawn(async move { this.take(ReadTrigger::Request).await });
        if timeout(PATIENCE, reading).await.is_err() {
            warn!(
                "the files of the certificate have not been read yet; nothing else waits for them"
            );
        }
    }

    /// Reads the files again. A reason that was logged before is logged again only on request.
    async fn take(&self, trigger: ReadTrigger) {
        // While another reading does not end, further ones would keep a thread each.
        let Ok(mut last) = timeout(PATIENCE, self.last.lock()).await else { return };
        let Some(last) = last.as_mut() else { return };
        let versions = self.versions().await;
        match self.tls.load().await {
            Ok(untimely) => {
                info!("the certificate of the listener was read; new connections get it");
                report(&untimely);
                *last = LastRead { versions, failure: None };
            }
            Err(error) => {
                let reason = with_causes(&error);
                if trigger == ReadTrigger::Request || last.reason() != Some(reason.as_str()) {
                    error!(
                        reason,
                        "the certificate of the listener cannot be used; connections get the one before"
                    );
                }
                *last = LastRead::failed(versions, reason, last, Instant::now());
            }
        }
    }

    /// Reads the files again whenever they change, and after a pause if they cannot be used. Warns each day of
    /// files that make others refuse, or be refused. Never returns.
    pub(super) async fn watch(&self) -> Infallible {
        // A file system that does not respond delays no warning.
        future::join(self.watch_files(), self.watch_validity()).await.0
    }

    /// Reads the files again whenever they change. They must look the same in two checks before they are read,
    /// so that a certificate is not read without its key.
    async fn watch_files(&self) -> Infallible {
        let mut ticks = interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let now = self.versions().await;
            if before.as_ref() == Some(&now) && self.is_due(&now).await {
                self.take(ReadTrigger::Watch).await;
            }
            before = Some(now);
        }
    }

    async fn watch_validity(&self) -> Infallible {
        loop {
            self.tls.until_notice(VALIDITY_PERIOD).await;
            report(&self.tls.untimely());
        }
    }

    async fn is_due(&self, versions: &[Option<FileVersion>]) -> bool {
        let last = self.last.lock().await;
        last.as_ref().is_some_and(|last| last.is_due(versions, Instant::now()))
    }

    async fn versions(&self) -> Versions {
        let mut versions = Vec::new();
        for file in self.tls.settings().files() {
            versions.push(file_version(file).await);
        }
        versions
    }
}

/// Logs the reasons for which clients refuse a certificate that can be used, or callers are refused.
fn report(untimely: &[Untimely]) {
    for reason in untimely {
        warn!(%reason, "the files of `server.tls` are used all the same");
    }
}

#[cfg(test)]
mod tests {
    use airlock_ingress::ClientAuth;

    use super::{super::background::Background, *};

    fn settings() -> TlsSettings {
        TlsSettings {
            certificate: "/nowhere/c.pem".into(),
            key: "/nowhere/k.pem".into(),
            client_ca: None,
            client_crl: Vec::new(),
            client_auth: ClientAuth::None,
        }
    }

    fn missing() -> Versions {
        vec![None, None]
    }

    #[test]
    fn files_that_cannot_be_used_are_read_again_after_pauses_that_grow() {
        let now = Instant::now();
        let mut last = LastRead { versions: missing(), failure: None };
        assert!(!last.is_due(&missing(), now + LONGEST_PAUSE));
        assert!(last.is_due(&[None], now));
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            last = LastRead::failed(missing(), "reason".to_owned(), &last, now);
            let pause = Duration::from_secs(seconds);
            assert!(!last.is_due(&missing(), now + Duration::from_secs(seconds - 1)), "{seconds}");
            assert!(last.is_due(&missing(), now + pause), "{seconds}");
            assert!(last.is_due(&[None], now), "other versions are read at once");
        }
        let changed = LastRead::failed(vec![None], "reason".to_owned(), &last, now);
        assert!(changed.is_due(&[None], now + FIRST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_does_not_wait_for_a_reading_that_does_not_end() {
        let certificate = Certificate::new(settings());
        let background = Background::new();
        let hung = certificate.last.lock().await;
        let begun = Instant::now();
        certificate.reload(background.tasks()).await;
        assert!(begun.elapsed() <= PATIENCE, "{:?}", begun.elapsed());
        drop(hung);
    }

    #[tokio::test]
    async fn a_failed_read_is_due_again_although_the_files_look_the_same() {
        let certificate = Certificate::new(settings());
        // Nothing is watched before the start.
        let background = Background::new();
        certificate.reload(background.tasks()).await;
        assert!(!certificate.is_due(&missing()).await);
        let used = LastRead { versions: missing(), failure: None };
        *certificate.last.lock().await = Some(used);
        assert!(!certificate.is_due(&missing()).await);
        certificate.take(ReadTrigger::Watch).await;
        let last = certificate.last.lock().await;
        let last = last.as_ref().expect("it was read");
        assert!(last.reason().is_some_and(|reason| reason.contains("/nowhere/c.pem")));
        assert!(!last.is_due(&missing(), Instant::now()));
        assert!(last.is_due(&missing(), Instant::now() + FIRST_PAUSE));
    }
}
