//! Certificates and keys of TLS: those of the listener, and those of the gateway for servers and providers.

use std::path::PathBuf;

use super::{file_env::FileEnv, resolved::Resolved};
use crate::file::{self, PrivateKey};
use airlock_server::{ClientAuth, TlsSettings};
use airlock_tls::{IdentitySource, KeySource};

/// Resolves `server.tls`.
pub(super) fn listener(file: &file::Tls, env: FileEnv<'_>) -> Resolved<TlsSettings> {
    Resolved::new(|problems| {
        let client_ca = file.client_ca.as_ref();
        let client_ca = client_ca.map(|path| problems.take("client_ca", env.path(path)));
        let client_auth = match (file.client_auth, &client_ca) {
            (Some(file::ClientAuth::None), _) | (None, None) => ClientAuth::None,
            (Some(file::ClientAuth::Optional), Some(_)) => ClientAuth::Optional,
            (Some(file::ClientAuth::Required) | None, Some(_)) => ClientAuth::Required,
            (Some(file::ClientAuth::Optional | file::ClientAuth::Required), None) => {
                problems.refuse(
                    "client_auth",
                    "needs a `client_ca` beside it: the authorities that sign the certificates",
                );
                ClientAuth::None
            }
        };
        TlsSettings {
            certificate: problems.take("certificate", env.path(&file.certificate)),
            key: problems.take("key", env.path(&file.key)),
            client_ca,
            client_auth,
        }
    })
}

/// Resolves `client_certificate` and `client_key`, which need each other.
pub(super) fn identity(
    certificate: Option<PathBuf>,
    key: Option<PrivateKey>,
    env: FileEnv<'_>,
) -> Resolved<Option<IdentitySource>> {
    Resolved::new(|problems| {
        let (certificate, key) = match (certificate, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return None,
            (Some(_), None) => {
                problems.refuse("client_certificate", "needs a `client_key` beside it");
                return None;
            }
            (None, Some(_)) => {
                problems.refuse("client_key", "needs a `client_certificate` beside it");
                return None;
            }
        };
        let certificate = problems.take("client_certificate", env.path(&certificate));
        let key = match key {
            PrivateKey::File(path) => {
                Some(KeySource::File(problems.take("client_key", env.path(&path))))
            }
            PrivateKey::Variable(name) => {
                problems.accept("client_key", env.variable(&name)).map(KeySource::Pem)
            }
        };
        Some(IdentitySource { certificate, key: key? })
    })
}
