//! TLS of the listener: its certificate, which may be replaced while the gateway serves, and the
//! certificates of callers.
//!
//! ```text
//! files ─load─▶ settings of new connections          connections before keep theirs
//! accepted connection ─accept─▶ handshake ─▶ requests, with the certificate that the caller has shown
//! ```

mod accept;
mod callers;
mod failures;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use rustls::{ServerConfig, server::NoServerSessionStorage};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_rustls::TlsAcceptor;

use self::callers::Revocations;
pub(super) use self::{
    accept::{Handshake, accept},
    callers::{CallerChain, certificate_ended},
    failures::FailedHandshakes,
};
use airlock_tls::{BadIdentity, BadPem, IdentitySource, KeySource, Validity};

/// Time before the end of a certificate from which on it is reported. One that is valid for a short time is
/// reported in the last third of it, because it is renewed late.
const NOTICE: Duration = Duration::from_hours(14 * 24);

/// Protocols of the connection, in the gateway's order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// PEM file of the certificate, and after it of those that connect it to its authority.
    pub certificate: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities that sign certificates of callers.
    pub client_ca: Option<PathBuf>,
    /// PEM files of lists of revoked certificates of callers, which expire. None are looked at if it is empty.
    pub client_crl: Vec<PathBuf>,
    /// Certificates of callers. Anything but [`ClientAuth::None`] needs `client_ca`.
    pub client_auth: ClientAuth,
}

/// Certificates of callers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// None are asked for.
    #[default]
    None,
    /// A caller may show one. One that is not valid is refused.
    Optional,
    /// A caller without a valid one is refused in the handshake.
    Required,
}

/// Reason that the listener cannot have TLS.
#[derive(Debug, thiserror::Error)]
#[error("`server.tls.{key}` cannot be used")]
pub struct BadTls {
    /// Its key below `server.tls`.
    pub key: &'static str,
    /// The cause, which names the file.
    #[source]
    pub problem: TlsProblem,
}

/// Problem with a file of TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    /// The file has nothing usable.
    #[error(transparent)]
    Pem(BadPem),
    /// No certificate of the file can be that of an authority.
    #[error("the file {} has a certificate that cannot be that of an authority", .0.display())]
    Authority(PathBuf, #[source] rustls::Error),
    /// The certificates of callers cannot be checked.
    #[error("the certificates of callers cannot be checked by the file {}", .0.display())]
    Verifier(PathBuf, #[source] rustls::server::VerifierBuilderError),
    /// The cryptography of an embedding program cannot be used.
    #[error("the cryptography of this process has no version of TLS")]
    Versions(#[source] rustls::Error),
    /// The gateway stops while the files are read.
    #[error("the gateway stops")]
    Stopped,
}

/// Reason that clients refuse the certificate of the listener, or that callers are refused, at present or
/// soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untimely {
    /// It was valid.
    #[error("clients refuse the certificate of the listener, because it has expired")]
    Expired,
    /// It will be valid.
    #[error("clients refuse the certificate of the listener, because it is not valid yet")]
    Early,
    /// It is valid for less than another two weeks, or for less than a third of its time.
    #[error("the certificate of the listener expires soon: renew it")]
    Expiring,
    /// A list of revoked certificates was valid.
    #[error("callers with a certificate are refused, because a list of `client_crl` has expired")]
    ListExpired,
    /// A list of revoked certificates is valid for less than another day.
    #[error("a list of `client_crl` expires within a day: get a newer one, or callers are refused")]
    ListExpiring,
}

impl Untimely {
    /// Returns the key below `server.tls` of the file that it is about.
    pub fn key(self) -> &'static str {
        match self {
            Self::Expired | Self::Early | Self::Expiring => "certificate",
            Self::ListExpired | Self::ListExpiring => "client_crl",
        }
    }
}

/// TLS of a listener, with the certificate that new connections get. Clones share it.
#[derive(Clone)]
pub struct ListenerTls(Arc<ListenerTlsState>);

struct ListenerTlsState {
    settings: TlsSettings,
    /// `None` until the files are read.
    current: ArcSwapOption<LoadedTls>,
    /// Woken when the files have been read again.
    loads: watch::Sender<()>,
}

/// The content of the files.
struct LoadedTls {
    config: Arc<ServerConfig>,
    validity: Option<Validity>,
    revocations: Revocations,
}

impl LoadedTls {
    fn untimely(&self) -> Vec<Untimely> {
        let now = SystemTime::now();
        let of_certificate = self.validity.and_then(|validity| untimely(validity, now));
        of_certificate.into_iter().chain(self.revocations.untimely(now)).collect()
    }
}

impl TlsSettings {
    /// Returns the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let own = [&self.certificate, &self.key].into_iter();
        own.chain(&self.client_ca).chain(&self.client_crl).map(PathBuf::as_path)
    }

    /// Reads and checks the files, as [`ListenerTls::load`] does. Blocks.
    pub fn check(&self) -> Result<Vec<Untimely>, BadTls> {
        self.read().map(|loaded| loaded.untimely())
    }

    fn read(&self) -> Result<LoadedTls, BadTls> {
        let source = IdentitySource {
            certificate: self.certificate.clone(),
            key: KeySource::File(self.key.clone()),
        };
        let identity = source.read().map_err(|error| match error {
            BadIdentity::Certificate(problem) => bad("certificate", TlsProblem::Pem(problem)),
            BadIdentity::Key(problem) => bad("key", TlsProblem::Pem(problem)),
        })?;
        let builder = ServerConfig::builder_with_provider(airlock_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| bad("certificate", TlsProblem::Versions(error)))?;
        let (builder, revocations) = match self.callers()? {
            Some(callers) => {
                (builder.with_client_cert_verifier(callers.verifier), callers.revocations)
            }
            None => (builder.with_no_client_auth(), Revocations::default()),
        };
        let mut config = builder.with_cert_resolver(identity.resolver());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        if self.client_auth != ClientAuth::None {
            // A resumed session would not check the certificate of the caller again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(LoadedTls { config: Arc::new(config), validity: identity.validity(), revocations })
    }
}

impl ListenerTls {
    /// Creates the TLS of a listener. Its files are not read yet.
    pub fn new(settings: TlsSettings) -> Self {
        let current = ArcSwapOption::empty();
        Self(Arc::new(ListenerTlsState { settings, current, loads: watch::Sender::default() }))
    }

    /// Returns the settings.
    pub fn settings(&self) -> &TlsSettings {
        &self.0.settings
    }

    /// Returns whether the files were ever read.
    pub fn is_loaded(&self) -> bool {
        self.0.current.load().is_some()
    }

    /// Reads the files. Connections that are accepted from now on get the certificate; those before keep
    /// theirs, unless that of their caller is revoked. Returns the reasons for which clients refuse the
    /// certificate, or callers are refused, at present or soon. Fails if a file cannot be used; nothing
    /// changes then.
    pub async fn load(&self) -> Result<Vec<Untimely>, BadTls> {
        let shared = self.0.clone();
        let reading = tokio::task::spawn_blocking(move || shared.settings.read()).await;
        let loaded = match reading {
            Ok(read) => read?,
            Err(lost) if lost.is_panic() => std::panic::resume_unwind(lost.into_panic()),
            // The runtime shuts down.
            Err(_) => return Err(bad("certificate", TlsProblem::Stopped)),
        };
        let untimely = loaded.untimely();
        self.0.current.store(Some(Arc::new(loaded)));
        self.0.loads.send_replace(());
        Ok(untimely)
    }

    /// Returns what is woken when the files have been read again.
    fn loads(&self) -> watch::Receiver<()> {
        self.0.loads.subscribe()
    }

    /// Returns the time after which the lists that were read last no longer say that a caller may have a
    /// connection; `None` if it may have none.
    pub(super) fn time_left(&self, chain: &CallerChain) -> Option<Duration> {
        let current = self.0.current.load();
        current.as_ref()?.revocations.time_left(chain, SystemTime::now())
    }

    /// Returns the reasons for which clients refuse the certificate, or callers are refused, at present or
    /// soon; none if the files were never read.
    pub fn untimely(&self) -> Vec<Untimely> {
        self.0.current.load().as_ref().map(|loaded| loaded.untimely()).unwrap_or_default()
    }

    /// Waits for `period`, or until [`Self::untimely`] has another reason because a list expires.
    pub async fn until_notice(&self, period: Duration) {
        let last = Instant::now() + period;
        let mut loads = self.loads();
        loop {
            let next = self.next_notice().map(|left| Instant::now() + left);
            tokio::select! {
                () = sleep_until(next.map_or(last, |next| next.min(last))) => return,
                // Other lists expire at other times.
                Ok(()) = loads.changed() => {}
            }
        }
    }

    fn next_notice(&self) -> Option<Duration> {
        self.0.current.load().as_ref()?.revocations.next_notice(SystemTime::now())
    }

    /// Returns what makes the handshakes of connections that are accepted now; `None` if the files were
    /// never read.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let current = self.0.current.load();
        current.as_ref().map(|loaded| TlsAcceptor::from(loaded.config.clone()))
    }
}

fn untimely(validity: Validity, now: SystemTime) -> Option<Untimely> {
    let Ok(left) = validity.end.duration_since(now) else { return Some(Untimely::Expired) };
    if now < validity.begin {
        return Some(Untimely::Early);
    }
    let whole = validity.end.duration_since(validity.begin).unwrap_or_default();
    (left < NOTICE.min(whole / 3)).then_some(Untimely::Expiring)
}

fn bad(key: &'static str, problem: TlsProblem) -> BadTls {
    BadTls { key, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn a_certificate_is_reported_two_weeks_or_a_third_of_its_time_before_its_end() {
        let begin = SystemTime::UNIX_EPOCH + 1_000 * DAY;
        let second = Duration::from_secs(1);
        for (days, reported_after) in [(90, 76), (3, 2)] {
            let validity = Validity { begin, end: begin + days * DAY };
            for (now, expected) in [
                (begin - second, Some(Untimely::Early)),
                (begin, None),
                (begin + reported_after * DAY, None),
                (begin + reported_after * DAY + second, Some(Untimely::Expiring)),
                (validity.end, Some(Untimely::Expiring)),
                (validity.end + second, Some(Untimely::Expired)),
            ] {
                assert_eq!(untimely(validity, now), expected, "{days}");
            }
        }
    }
}
