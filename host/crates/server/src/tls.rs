//! TLS of the listener: its certificate, which may be replaced while the gateway serves, and the
//! certificates of callers.
//!
//! ```text
//! files ─load─▶ settings of new connections          connections before keep theirs
//! accepted connection ─accept─▶ handshake ─▶ requests, with the certificate that the caller has shown
//! ```

mod accept;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use arc_swap::ArcSwapOption;
use rustls::{
    RootCertStore, ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio_rustls::TlsAcceptor;

pub(super) use self::accept::accept;
use airlock_tls::{BadIdentity, BadPem, Identity, IdentitySource, KeySource, read_certificates};

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
}

/// Reason that clients refuse a certificate at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untimely {
    /// It was valid.
    #[error("clients refuse the certificate, because it has expired")]
    Expired,
    /// It will be valid.
    #[error("clients refuse the certificate, because it is not valid yet")]
    Early,
}

/// TLS of a listener, with the certificate that new connections get. Clones share it.
#[derive(Clone)]
pub struct ListenerTls(Arc<Shared>);

struct Shared {
    settings: TlsSettings,
    /// `None` until the files are read.
    current: ArcSwapOption<ServerConfig>,
}

impl TlsSettings {
    /// Returns the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }

    /// Reads and checks the files, as [`ListenerTls::load`] does. Blocks.
    pub fn check(&self) -> Result<Option<Untimely>, BadTls> {
        self.read().map(|(_, untimely)| untimely)
    }

    fn read(&self) -> Result<(ServerConfig, Option<Untimely>), BadTls> {
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
        let mut config = match self.verifier()? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(identity.resolver());
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        if self.client_auth != ClientAuth::None {
            // A resumed session would not check the certificate of the caller again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((config, untimely(&identity, SystemTime::now())))
    }

    /// Returns what checks the certificates of callers; `None` if they are not asked for one.
    fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, BadTls> {
        let Some(path) = self.client_ca.as_ref().filter(|_| self.client_auth != ClientAuth::None)
        else {
            return Ok(None);
        };
        let certificates = read_certificates(path);
        let certificates = certificates.map_err(|error| bad_authority(TlsProblem::Pem(error)))?;
        let mut authorities = RootCertStore::empty();
        for certificate in certificates {
            let added = authorities.add(certificate);
            added.map_err(|error| bad_authority(TlsProblem::Authority(path.clone(), error)))?;
        }
        let provider = airlock_tls::provider();
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
        let builder = match self.client_auth {
            ClientAuth::Required => builder,
            ClientAuth::Optional | ClientAuth::None => builder.allow_unauthenticated(),
        };
        let verifier = builder.build();
        let verifier =
            verifier.map_err(|error| bad_authority(TlsProblem::Verifier(path.clone(), error)))?;
        Ok(Some(verifier))
    }
}

impl ListenerTls {
    /// Creates the TLS of a listener. Its files are not read yet.
    pub fn new(settings: TlsSettings) -> Self {
        Self(Arc::new(Shared { settings, current: ArcSwapOption::empty() }))
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
    /// theirs. Returns the reason for which clients refuse it at present, if there is one. Fails if a file
    /// cannot be used; nothing changes then.
    pub async fn load(&self) -> Result<Option<Untimely>, BadTls> {
        let shared = self.0.clone();
        let reading = tokio::task::spawn_blocking(move || shared.settings.read()).await;
        let read = reading.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        let (config, untimely) = read?;
        self.0.current.store(Some(Arc::new(config)));
        Ok(untimely)
    }

    /// Returns what makes the handshakes of connections that are accepted now; `None` if the files were
    /// never read.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.0.current.load_full().map(TlsAcceptor::from)
    }
}

fn untimely(identity: &Identity, now: SystemTime) -> Option<Untimely> {
    let validity = identity.validity()?;
    if now > validity.end {
        Some(Untimely::Expired)
    } else {
        (now < validity.begin).then_some(Untimely::Early)
    }
}

fn bad(key: &'static str, problem: TlsProblem) -> BadTls {
    BadTls { key, problem }
}

fn bad_authority(problem: TlsProblem) -> BadTls {
    bad("client_ca", problem)
}
