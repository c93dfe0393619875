//! Certificates for tests, and their files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair,
};

/// An authority of an operator's own.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its private key.
pub(crate) struct Signed {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    /// Signs a certificate for one host name or address.
    pub(crate) fn sign(&self, host: &str) -> Signed {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        // With the name of the authority, OpenSSL takes it for one that signed itself.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, host);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Signed { certificate, key }
    }
}

impl Signed {
    /// Returns the certificate in DER format.
    pub(crate) fn der(&self) -> &[u8] {
        self.certificate.der()
    }

    /// Returns the private key in PEM format.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Writes the files `NAME.pem` and `NAME-key.pem`, as a program that renews certificates does: each takes
    /// the place of the one before at once. Returns their paths.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> [PathBuf; 2] {
        let texts = [self.certificate.pem(), self.key_pem()];
        let names = [format!("{name}.pem"), format!("{name}-key.pem")];
        let paths = names.map(|name| directory.join(name));
        for (path, text) in paths.iter().zip(texts) {
            let new = path.with_extension("new");
            fs::write(&new, text).expect("written");
            fs::rename(&new, path).expect("replaced");
        }
        paths
    }
}
