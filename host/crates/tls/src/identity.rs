//! A certificate with its private key.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use rustls::{
    client::verify_server_name,
    pki_types::{PrivateKeyDer, ServerName},
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
};
use x509_cert::{Certificate, der::Decode as _};

use super::{
    error::{BadIdentity, BadPem, PemPlace},
    pem, provider,
};
use airlock_core::secret::Secret;

/// Place of a certificate and of its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentitySource {
    /// PEM file of the certificate, and after it of those that connect it to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: KeySource,
}

/// Place of a private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A PEM file.
    File(PathBuf),
    /// The key itself, in PEM format.
    Pem(Secret),
}

/// A certificate with its private key. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

/// Time in which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Time from which it is valid.
    pub begin: SystemTime,
    /// Last time at which it is valid.
    pub end: SystemTime,
}

impl IdentitySource {
    /// Reads the certificate and the key, and checks that they belong together. Blocks. Nothing is said
    /// about the time in which the certificate is valid.
    pub fn read(&self) -> Result<Identity, BadIdentity> {
        let chain = pem::read_certificates(&self.certificate).map_err(BadIdentity::Certificate)?;
        let key = self.key.read().map_err(BadIdentity::Key)?;
        let place = self.key.place();
        let signing = provider().key_provider.load_private_key(key);
        let signing =
            signing.map_err(|error| BadIdentity::Key(BadPem::BadKey(place.clone(), error)))?;
        let certified = CertifiedKey::new(chain, signing);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = self.certificate.clone();
                BadIdentity::Key(BadPem::Mismatch { key: place, certificate })
            }
            error => {
                let place = PemPlace::File(self.certificate.clone());
                BadIdentity::Certificate(BadPem::BadCertificate(place, error))
            }
        })?;
        Ok(Identity(Arc::new(certified)))
    }
}

impl KeySource {
    /// Returns the file of the key; `None` if there is none.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Pem(_) => None,
        }
    }

    fn read(&self) -> Result<PrivateKeyDer<'static>, BadPem> {
        match self {
            Self::File(path) => pem::private_key(&pem::read(path)?, &self.place()),
            Self::Pem(text) => pem::private_key(text.expose().as_bytes(), &self.place()),
        }
    }

    fn place(&self) -> PemPlace {
        match self {
            Self::File(path) => PemPlace::File(path.clone()),
            Self::Pem(_) => PemPlace::Text,
        }
    }
}

impl Identity {
    /// Returns the resolver that shows this certificate in every handshake, as a server or as a client.
    pub fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.0.clone()))
    }

    /// Returns the certificate in DER format.
    pub fn certificate(&self) -> &[u8] {
        self.0.cert.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// Returns whether a client that connects to `host`, a name or an address, accepts the names of the certificate.
    pub fn is_for(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        let Some(certificate) = self.0.cert.first() else { return false };
        let parsed = ParsedCertificate::try_from(certificate);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// Returns the number of the certificate in the file, from 1, after which one of another authority follows:
    /// clients cannot connect the first one to its authority. `None` if each is signed by the one after it, by
    /// its name.
    pub fn broken_link(&self) -> Option<usize> {
        let certificates = self.0.cert.iter().map(|der| Certificate::from_der(der));
        let Ok(certificates) = certificates.collect::<Result<Vec<_>, _>>() else { return Some(1) };
        let broken = certificates
            .windows(2)
            .position(|pair| pair[0].tbs_certificate.issuer != pair[1].tbs_certificate.subject);
        broken.map(|index| index + 1)
    }

    /// Returns the time in which the certificate is valid; `None` if it cannot be read from it.
    pub fn validity(&self) -> Option<Validity> {
        validity(self.certificate())
    }
}

/// Returns the time in which a certificate in DER format is valid; `None` if it cannot be read from it.
pub fn validity(der: &[u8]) -> Option<Validity> {
    let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
    Some(Validity {
        begin: validity.not_before.to_system_time(),
        end: validity.not_after.to_system_time(),
    })
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Returns a certificate and its key, in PEM format.
    fn pair() -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 3);
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    }

    fn read(certificate: &str, key: &str) -> Result<Identity, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, secret] = ["c.pem", "k.pem"].map(|name| directory.path().join(name));
        std::fs::write(&path, certificate).expect("written");
        std::fs::write(&secret, key).expect("written");
        let source = IdentitySource { certificate: path, key: KeySource::File(secret) };
        source.read().map_err(|error| {
            error.to_string().replace(&directory.path().display().to_string(), "…")
        })
    }

    #[test]
    fn a_certificate_is_read_with_its_key_from_one_file_or_two_or_a_text() {
        let (certificate, key) = pair();
        let identity = read(&certificate, &key).expect("a pair");
        let validity = identity.validity().expect("it has times");
        assert_eq!(validity.begin + Duration::from_hours(48), validity.end);
        let both = format!("{certificate}{key}");
        assert!(read(&both, &both).is_ok());
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), certificate).expect("written");
        let key = KeySource::Pem(Secret::new(key));
        let source = IdentitySource { certificate: file.path().to_owned(), key };
        assert!(source.read().is_ok());
        assert!(!format!("{source:?}").contains("PRIVATE"));
    }

    #[test]
    fn the_names_and_the_chain_of_a_certificate_are_checked() {
        let (certificate, key) = pair();
        let (other, _) = pair();
        let identity = read(&certificate, &key).expect("a pair");
        assert!(identity.is_for("localhost"));
        for host in ["example.com", "127.0.0.1", "", "a b"] {
            assert!(!identity.is_for(host), "{host}");
        }
        assert_eq!(identity.broken_link(), None);
        // Both have the name of rcgen as issuer and subject.
        let chain = read(&format!("{certificate}{other}"), &key).expect("a chain");
        assert_eq!(chain.broken_link(), None);
        let signer = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["ca".to_owned()]).expect("a name");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "another authority");
        let stranger = params.self_signed(&signer).expect("a certificate").pem();
        let chain = read(&format!("{certificate}{stranger}"), &key).expect("a chain");
        assert_eq!(chain.broken_link(), Some(1));
    }

    #[test]
    fn a_key_that_cannot_be_used_is_refused_with_the_reason() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (key, expected) in [
            (
                other,
                "the file …/k.pem has a private key that is not the one of the first certificate of the file …/c.pem",
            ),
            (certificate.clone(), "the file …/k.pem has no private key in PEM format"),
            (format!("{key}{key}"), "the file …/k.pem has several private keys; leave one"),
            (
                encrypted,
                "the file …/k.pem has an encrypted private key; store it without a passphrase, and let only the user of the gateway read it",
            ),
            (
                broken.to_owned(),
                "the file …/k.pem has a private key that cannot be used; expected RSA, ECDSA (P-256 or P-384) or Ed25519",
            ),
        ] {
            assert_eq!(read(&certificate, &key).expect_err("it is refused"), expected);
        }
        let none = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let refused = read(none, &pair().1).expect_err("it is refused");
        assert_eq!(refused, "the file …/c.pem has a certificate that cannot be used");
    }
}
