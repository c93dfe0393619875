//! Reasons that certificates and keys cannot be used. None has a part of a key.

use std::{fmt, io, path::PathBuf};

use super::pem::MAX_BYTES;

/// Place of a text in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PemPlace {
    /// A file.
    File(PathBuf),
    /// A text of the configuration, or of a variable that it names.
    Text,
}

impl fmt::Display for PemPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Text => f.write_str("the text"),
        }
    }
}

/// Reason that a text in PEM format cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadPem {
    /// The file cannot be read.
    #[error("the file {} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// A path that is not shown, because it may be the content of a file.
    #[error("expected the path of a PEM file, and not its content")]
    Content,
    /// The path is that of a directory, a pipe, a socket or a device.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// The file is too large.
    #[error("the file {} is larger than {} MiB", .0.display(), MAX_BYTES >> 20)]
    TooLarge(PathBuf),
    /// It has no certificate, or one that is not in PEM format.
    #[error("{0} has no certificate in PEM format")]
    NoCertificate(PemPlace),
    /// It has a certificate that is none.
    #[error("{0} has a certificate that cannot be used")]
    BadCertificate(PemPlace, #[source] rustls::Error),
    /// It has no list of revoked certificates, or one that is none.
    #[error("{0} has no list of revoked certificates in PEM format, or one that cannot be read")]
    NoList(PemPlace),
    /// It has no private key.
    #[error("{0} has no private key in PEM format")]
    NoKey(PemPlace),
    /// Its private key is encrypted.
    #[error(
        "{0} has an encrypted private key; store it without a passphrase, and let only the user of the gateway read it"
    )]
    EncryptedKey(PemPlace),
    /// It has several private keys.
    #[error("{0} has several private keys; leave one")]
    SeveralKeys(PemPlace),
    /// Its private key is of a kind that is not supported, or broken.
    #[error(
        "{0} has a private key that cannot be used; expected RSA, ECDSA (P-256 or P-384) or Ed25519"
    )]
    BadKey(PemPlace, #[source] rustls::Error),
    /// Its private key is that of another certificate.
    #[error("{key} has a private key that is not the one of the first certificate of the file {}", .certificate.display())]
    Mismatch {
        /// Place of the key.
        key: PemPlace,
        /// File of the certificate.
        certificate: PathBuf,
    },
}

/// Reason that a certificate and its key cannot be used, by the one of both that it is about.
#[derive(Debug, thiserror::Error)]
pub enum BadIdentity {
    /// The certificate.
    #[error(transparent)]
    Certificate(BadPem),
    /// The private key.
    #[error(transparent)]
    Key(BadPem),
}
