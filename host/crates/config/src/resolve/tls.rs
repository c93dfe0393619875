//! Certificates and keys of TLS: those of the listener, and those of the gateway for servers and providers.

use std::path::{Path, PathBuf};

use super::{file_env::FileEnv, resolved::Resolved};
use airlock_config_file::file::{self, PrivateKey};
use airlock_ingress::{ClientAuth, TlsSettings};
use airlock_tls::{IdentitySource, KeySource, is_content};

/// Message about the content of a file in the place of its path. It may be a private key, so it is not quoted.
const NO_PATH: &str = "expected the path of a PEM file, and not its content: without line breaks, and up to 4096 bytes";
/// Message about a certificate for a service without TLS.
pub(super) const NEEDS_HTTPS: &str =
    "is shown on connections with TLS only, so that the URL must begin with https://";

/// Maximum files with lists of revoked certificates: caps `client_crl`. Each has up to 4 MiB, and its lists stay in memory.
const MAX_LISTS: usize = 8;

/// Returns the path that the path of a certificate or a private key means.
pub(super) fn path(path: &Path, env: FileEnv<'_>) -> Resolved<PathBuf> {
    if is_content(path) {
        return Resolved::new(|problems| {
            problems.refuse_whole(NO_PATH);
            PathBuf::new()
        });
    }
    env.path(path)
}

/// Returns whether a certificate of the gateway would never be shown at a URL.
pub(super) fn is_without_tls(identity: Option<&IdentitySource>, url: &str) -> bool {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    identity.is_some() && !scheme.eq_ignore_ascii_case("https")
}

/// Resolves `server.tls`.
pub(super) fn listener(file: &file::Tls, env: FileEnv<'_>) -> Resolved<TlsSettings> {
    Resolved::new(|problems| {
        let client_ca = file.client_ca.as_ref();
        let client_ca = client_ca.map(|path| problems.take("client_ca", self::path(path, env)));
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
        if !file.client_crl.is_empty() && client_auth == ClientAuth::None {
            problems.refuse(
                "client_crl",
                "needs a `client_ca` beside it, and callers that show certificates",
            );
        }
        if file.client_crl.len() > MAX_LISTS {
            problems.refuse("client_crl", format_args!("has more than {MAX_LISTS} entries"));
        }
        let client_crl = Resolved::elements(file.client_crl.iter(), |problems, path| {
            Some(problems.merge(self::path(path, env)))
        });
        TlsSettings {
            client_crl: problems.take("client_crl", client_crl),
            certificate: problems.take("certificate", path(&file.certificate, env)),
            key: problems.take("key", path(&file.key, env)),
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
        let certificate = problems.take("client_certificate", path(&certificate, env));
        let key = match key {
            PrivateKey::File(file) => {
                Some(KeySource::File(problems.take("client_key", path(&file, env))))
            }
            PrivateKey::Variable(name) => {
                problems.accept("client_key", env.variable(&name)).map(KeySource::Pem)
            }
        };
        Some(IdentitySource { certificate, key: key? })
    })
}
