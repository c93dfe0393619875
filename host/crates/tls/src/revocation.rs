//! Lists of revoked certificates (RFC 5280, section 5).

use std::{path::Path, time::SystemTime};

use airlock_core::door::CertificateDigest;
use rustls::pki_types::{CertificateRevocationListDer, pem::PemObject as _};
use x509_cert::{
    Certificate,
    crl::{CertificateList, TbsCertList},
    der::{Decode as _, Encode as _, oid::ObjectIdentifier},
    name::Name,
    serial_number::SerialNumber,
};

use super::{
    error::{BadPem, PemPlace},
    pem,
};

/// Extension with the part of its certificates that a list is about (RFC 5280, section 5.2.5).
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");

/// A list of the certificates that one authority has revoked. Its signature is checked when a certificate is.
pub struct RevocationList {
    /// The list in DER format.
    pub der: CertificateRevocationListDer<'static>,
    /// The authority.
    pub issuer: IssuerDigest,
    /// The part of its certificates that the list is about, in DER format; `None` if it is about all.
    pub scope: Option<Vec<u8>>,
    /// Time at which the authority has made the list.
    pub this_update: SystemTime,
    /// Time at which the authority makes the next list at the latest; `None` if the list does not say.
    pub next_update: Option<SystemTime>,
    /// The certificates.
    pub revoked: Vec<SerialDigest>,
}

/// Digest of the name of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IssuerDigest(CertificateDigest);

/// Digest of the issuer and the serial number of a certificate, by which lists name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SerialDigest(CertificateDigest);

/// Finds a certificate in lists: the authority whose list may have it, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateNumber {
    /// The authority that has signed it.
    pub issuer: IssuerDigest,
    /// Its number.
    pub serial: SerialDigest,
}

impl CertificateNumber {
    /// Reads the issuer and the serial number of a certificate in DER format; `None` if they cannot be read.
    pub fn read(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?.tbs_certificate;
        let issuer = IssuerDigest::new(&certificate.issuer)?;
        let serial = SerialDigest::new(&certificate.issuer, &certificate.serial_number)?;
        Some(Self { issuer, serial })
    }
}

impl IssuerDigest {
    fn new(name: &Name) -> Option<Self> {
        name.to_der().ok().map(|der| Self(CertificateDigest::from_der(&der)))
    }
}

impl SerialDigest {
    fn new(issuer: &Name, serial: &SerialNumber) -> Option<Self> {
        let mut bytes = issuer.to_der().ok()?;
        bytes.extend_from_slice(serial.as_bytes());
        Some(Self(CertificateDigest::from_der(&bytes)))
    }
}

/// Reads the lists of a file, in its order. Fails if it has none, or if one is not in PEM format.
pub fn read_revocation_lists(path: &Path) -> Result<Vec<RevocationList>, BadPem> {
    let text = pem::read(path)?;
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let found = found.ok().filter(|found| !found.is_empty());
    let lists = found.and_then(|found| found.into_iter().map(parse).collect());
    lists.ok_or_else(|| BadPem::NoList(PemPlace::File(path.to_owned())))
}

fn parse(der: CertificateRevocationListDer<'static>) -> Option<RevocationList> {
    let list = CertificateList::from_der(&der).ok()?.tbs_cert_list;
    let scope = scope(&list);
    let revoked = list.revoked_certificates.unwrap_or_default();
    let revoked = revoked.iter().map(|entry| SerialDigest::new(&list.issuer, &entry.serial_number));
    Some(RevocationList {
        issuer: IssuerDigest::new(&list.issuer)?,
        scope,
        revoked: revoked.collect::<Option<_>>()?,
        this_update: list.this_update.to_system_time(),
        next_update: list.next_update.map(|time| time.to_system_time()),
        der,
    })
}

fn scope(list: &TbsCertList) -> Option<Vec<u8>> {
    let mut extensions = list.crl_extensions.iter().flatten();
    let point = extensions.find(|found| found.extn_id == ISSUING_DISTRIBUTION_POINT)?;
    Some(point.extn_value.as_bytes().to_vec())
}
