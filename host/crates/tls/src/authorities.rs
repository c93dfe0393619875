//! Certificates that are trusted in addition to the system's.

use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

use super::{
    error::BadPem,
    pem::{parse_certificates, read_certificates},
};

/// Certificates that are trusted in addition to the system's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Authorities {
    /// None.
    #[default]
    System,
    /// Those in this text, in PEM format.
    Pem(String),
    /// Those in this file, in PEM format.
    File(PathBuf),
}

impl Authorities {
    /// Reads the certificates. Fails if there is none, unless only the system's are trusted.
    pub fn read(&self) -> Result<Vec<CertificateDer<'static>>, BadPem> {
        match self {
            Self::System => Ok(Vec::new()),
            Self::Pem(pem) => parse_certificates(pem),
            Self::File(path) => read_certificates(path),
        }
    }
}
