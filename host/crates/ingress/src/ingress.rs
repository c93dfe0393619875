//! The ways that requests come in.

use std::{future::pending, net::IpAddr, time::SystemTime};

use http::Extensions;

use super::socket::SocketToken;
use airlock_core::door::CertificateDigest;

/// Way that the connection of a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// TCP, or another server of the process.
    Remote {
        /// Address of the remote end; `None` if another server does not tell it.
        address: Option<IpAddr>,
        /// Certificate that it has shown, which an authority of the operator has signed; `None` if it has
        /// shown none, and without TLS.
        certificate: Option<ShownCertificate>,
    },
    /// The Unix socket, whose token makes a request an administrator's.
    Socket(SocketToken),
}

/// Certificate that a caller has shown in the handshake of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownCertificate {
    digest: CertificateDigest,
    /// Last time at which it is valid.
    end: SystemTime,
}

impl ShownCertificate {
    /// Reads a certificate in DER format; `None` if the end of its validity cannot be read from it.
    pub(super) fn new(der: &[u8]) -> Option<Self> {
        let end = airlock_tls::validity(der)?.end;
        Some(Self { digest: CertificateDigest::from_der(der), end })
    }
}

/// Address of the client of a request, as an extension of a request that another
/// server of the process passes on. Without it, the address is unknown. It must be that of the connection, or one that
/// a trusted proxy tells: a client on the loopback interface may read metrics without an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Certificate in DER format that the client of a request has shown, as an extension of a request
/// that another server of the process passes on. That server must have verified that
/// an authority of the operator has signed it, and that the client has its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub Vec<u8>);

impl Ingress {
    /// Returns the way of a request that another server of the process passes on, with what it tells in the
    /// extensions.
    pub fn passed_on(extensions: &Extensions) -> Self {
        let address = extensions.get::<PeerAddress>().map(|peer| peer.0);
        let shown = extensions.get::<PeerCertificate>();
        let certificate = shown.and_then(|shown| ShownCertificate::new(&shown.0));
        Self::Remote { address, certificate }
    }

    /// Returns the address of the remote end; `None` for the Unix socket, and if it is not known.
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::Remote { address, .. } => address,
            Self::Socket(_) => None,
        }
    }

    /// Returns the certificate that the remote end has shown; `None` if it has shown none, or one that has
    /// expired by now.
    pub fn certificate(self) -> Option<CertificateDigest> {
        let shown = self.shown()?;
        (SystemTime::now() <= shown.end).then_some(shown.digest)
    }

    /// Waits until the certificate that the remote end has shown expires; for ever if it has shown none.
    pub(super) async fn certificate_expired(self) {
        let Some(ShownCertificate { end, .. }) = self.shown() else { return pending().await };
        tokio::time::sleep(end.duration_since(SystemTime::now()).unwrap_or_default()).await;
    }

    pub(super) fn shown(self) -> Option<ShownCertificate> {
        match self {
            Self::Remote { certificate, .. } => certificate,
            Self::Socket(_) => None,
        }
    }

    /// Returns the way of a connection on which the remote end has shown a certificate.
    pub(super) fn with_certificate(self, shown: Option<ShownCertificate>) -> Self {
        match self {
            Self::Remote { address, .. } => Self::Remote { address, certificate: shown },
            Self::Socket(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_has_expired_is_none() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = rcgen::CertificateParams::new([]).and_then(|params| params.self_signed(&key));
        let signed = ShownCertificate::new(signed.expect("a certificate").der()).expect("read");
        let digest = signed.digest;
        let address = Some([127, 0, 0, 1].into());
        let hour = Duration::from_hours(1);
        for (end, expected) in
            [(SystemTime::now() + hour, Some(digest)), (SystemTime::now() - hour, None)]
        {
            let shown = ShownCertificate { end, ..signed };
            let ingress = Ingress::Remote { address, certificate: None };
            let ingress = ingress.with_certificate(Some(shown));
            assert_eq!(ingress.certificate(), expected);
            let waiting =
                tokio::time::timeout(Duration::from_secs(1), ingress.certificate_expired());
            assert_eq!(waiting.await.is_ok(), expected.is_none());
        }
        assert_eq!(ShownCertificate::new(b"no certificate"), None);
    }
}
