//! TLS between gateways: the authorities that sign their certificates, and the certificate of this one.
//!
//! The files are read again and again, because certificates are renewed while the gateway runs. Nothing
//! waits for a file system that does not respond: requests use what was read before.

use std::{convert::Infallible, future::pending, panic, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{Uri, uri::Scheme};
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::{error, info};

use airlock_egress::https::{HttpsClient, HttpsSettings};
use airlock_strings::with_causes;
use airlock_tls::{Authorities, BadIdentity, BadPem, Identity, IdentitySource};
use rustls::pki_types::CertificateDer;

/// Time for a connection to another gateway.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval at which the files are read.
const PERIOD: Duration = Duration::from_mins(1);

/// Certificates of the gateways for each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaTls {
    /// Authorities that sign the certificates of the other gateways.
    pub authorities: Authorities,
    /// Certificate that this gateway shows to one that asks for it.
    pub identity: Option<IdentitySource>,
}

/// Reason that the certificates for other gateways cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadReplicaTls {
    /// The authorities cannot be read.
    #[error("the authorities of `server.replica_tls` cannot be used")]
    Authorities(#[source] BadPem),
    /// The gateway's own certificate or its key cannot be read.
    #[error("the client certificate of `server.replica_tls` cannot be used")]
    Identity(#[source] BadIdentity),
    /// There is no TLS with these certificates, or with those of the operating system.
    #[error("other gateways cannot be reached over TLS")]
    Client(#[source] rustls::Error),
}

/// The content of the files.
struct ReplicaTrust {
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<Identity>,
}

/// Client for the other gateways, whose certificates are renewed.
pub(super) struct ReplicaClient {
    settings: Arc<ReplicaTls>,
    is_tls: bool,
    current: ArcSwap<HttpsClient>,
}

impl ReplicaTls {
    /// Reads and checks the files. Blocks.
    pub fn check(&self) -> Result<(), BadReplicaTls> {
        self.read().and_then(|trust| trust.client(true)).map(drop)
    }

    fn read(&self) -> Result<ReplicaTrust, BadReplicaTls> {
        let authorities = self.authorities.read().map_err(BadReplicaTls::Authorities)?;
        let identity = self.identity.as_ref().map(IdentitySource::read).transpose();
        Ok(ReplicaTrust { authorities, identity: identity.map_err(BadReplicaTls::Identity)? })
    }
}

impl ReplicaTrust {
    fn client(&self, is_tls: bool) -> Result<HttpsClient, BadReplicaTls> {
        let client = HttpsClient::new(HttpsSettings {
            is_tls,
            connect_timeout: CONNECT,
            proxy: None,
            authorities: self.authorities.clone(),
            identity: self.identity.clone(),
        });
        client.map_err(BadReplicaTls::Client)
    }

    /// Returns whether another reading has found other certificates.
    fn differs(&self, other: &Self) -> bool {
        let [own, others] =
            [self, other].map(|trust| trust.identity.as_ref().map(Identity::certificate));
        self.authorities != other.authorities || own != others
    }
}

impl ReplicaClient {
    /// Reads the files, and creates the client for gateways whose URLs have the scheme of `url`. Blocks.
    pub(super) fn new(settings: &ReplicaTls, url: &Uri) -> Result<Self, BadReplicaTls> {
        let is_tls = url.scheme() == Some(&Scheme::HTTPS);
        let current = ArcSwap::from_pointee(settings.read()?.client(is_tls)?);
        Ok(Self { settings: Arc::new(settings.clone()), is_tls, current })
    }

    /// Returns the client with the certificates that were read last.
    pub(super) fn current(&self) -> Arc<HttpsClient> {
        self.current.load_full()
    }

    /// Reads the files again and again. A reading that does not end delays the next one. Never returns.
    pub(super) async fn follow(&self) -> Infallible {
        if *self.settings == ReplicaTls::default() {
            return pending().await;
        }
        let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut used: Option<ReplicaTrust> = None;
        let mut failed = None;
        loop {
            ticks.tick().await;
            match self.take(used.as_ref()).await {
                Ok(Some(trust)) => {
                    if used.is_some() || failed.is_some() {
                        info!(
                            "the certificates for other gateways were read; new connections get them"
                        );
                    }
                    used = Some(trust);
                    failed = None;
                }
                Ok(None) => failed = None,
                Err(problem) => {
                    let reason = with_causes(&problem);
                    if failed.as_ref() != Some(&reason) {
                        error!(
                            reason,
                            "the certificates for other gateways cannot be used; those before are"
                        );
                    }
                    failed = Some(reason);
                }
            }
        }
    }

    /// Reads the files, and takes what they have unless that is what is `used`; `None` if it is.
    async fn take(
        &self,
        used: Option<&ReplicaTrust>,
    ) -> Result<Option<ReplicaTrust>, BadReplicaTls> {
        let settings = self.settings.clone();
        let reading = spawn_blocking(move || settings.read()).await;
        let trust = match reading {
            Ok(read) => read?,
            Err(lost) if lost.is_panic() => panic::resume_unwind(lost.into_panic()),
            // The runtime shuts down.
            Err(_) => return Ok(None),
        };
        if used.is_some_and(|used| !used.differs(&trust)) {
            return Ok(None);
        }
        self.current.store(Arc::new(trust.client(self.is_tls)?));
        Ok(Some(trust))
    }
}
