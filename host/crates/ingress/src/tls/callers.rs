//! Certificates of callers: the authorities that sign them, and the lists of those that are revoked.
//!
//! With lists, each certificate between the caller and its authority needs one that has not expired: a
//! caller whose state is not known is refused, and its connections end when that happens. An attacker who
//! keeps the gateway from getting newer lists therefore gains nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    future::pending,
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, CertificateRevocationListDer},
    server::{
        ClientCertVerifierBuilder, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
};
use tokio::time::sleep;

use super::{BadTls, ClientAuth, ListenerTls, TlsProblem, TlsSettings, Untimely, bad};
use crate::ingress::Ingress;
use airlock_tls::{
    CertificateNumber, IssuerDigest, RevocationList, SerialDigest, read_certificates,
    read_revocation_lists,
};

/// Time before the end of a list from which on it is reported.
const NOTICE: Duration = Duration::from_hours(24);

/// The content of the files about callers.
pub(super) struct Callers {
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    pub(super) revocations: Revocations,
}

/// The certificates that are revoked, by the authority that has signed them.
#[derive(Default)]
pub(super) struct Revocations(BTreeMap<IssuerDigest, RevokedOfIssuer>);

#[derive(Default)]
struct RevokedOfIssuer {
    revoked: BTreeSet<SerialDigest>,
    /// Earliest time at which a list of the authority expires.
    end: Option<SystemTime>,
}

/// The certificate of a caller, and those that connect it to its authority, as lists name them. Empty if the
/// caller has shown none.
#[derive(Debug, Default)]
pub(crate) struct CallerChain(Box<[CertificateNumber]>);

impl TlsSettings {
    /// Reads the files about callers; `None` if callers are not asked for a certificate.
    pub(super) fn callers(&self) -> Result<Option<Callers>, BadTls> {
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
        let authorities = Arc::new(authorities);
        let lists = self.lists(&authorities)?;
        let ders = lists.iter().map(|list| list.der.clone());
        let verifier = self.verifier(&authorities).with_crls(ders).build();
        let verifier =
            verifier.map_err(|error| bad_authority(TlsProblem::Verifier(path.clone(), error)))?;
        let mut revocations = Revocations::default();
        for list in lists {
            revocations.add(list);
        }
        Ok(Some(Callers { verifier, revocations }))
    }

    /// Reads the lists, and returns the latest ones. The verifier looks a certificate up in the first list that
    /// its authority has made about it, and in no other: an older one must not hide a newer one.
    fn lists(&self, authorities: &Arc<RootCertStore>) -> Result<Vec<RevocationList>, BadTls> {
        let mut all = Vec::new();
        for file in &self.client_crl {
            let lists = read_revocation_lists(file);
            let lists = lists.map_err(|error| bad("client_crl", TlsProblem::Pem(error)))?;
            let of_file = lists.iter().map(|list| list.der.clone());
            self.check_lists(authorities, of_file, file)?;
            all.extend(lists);
        }
        all.sort_by_key(|list| Reverse(list.this_update));
        let mut known = BTreeSet::new();
        all.retain(|list| known.insert((list.issuer, list.scope.clone())));
        Ok(all)
    }

    /// Fails, with the name of the file, if the lists are of a kind that is not supported.
    fn check_lists(
        &self,
        authorities: &Arc<RootCertStore>,
        lists: impl Iterator<Item = CertificateRevocationListDer<'static>>,
        file: &Path,
    ) -> Result<(), BadTls> {
        match self.verifier(authorities).with_crls(lists).build() {
            Err(error @ VerifierBuilderError::InvalidCrl(_)) => {
                Err(bad("client_crl", TlsProblem::Verifier(file.to_owned(), error)))
            }
            _ => Ok(()),
        }
    }

    fn verifier(&self, authorities: &Arc<RootCertStore>) -> ClientCertVerifierBuilder {
        let provider = airlock_tls::provider();
        let builder = WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider);
        // Callers need no list of the authorities, and one of more than 64 KiB breaks every handshake.
        let builder = builder.clear_root_hint_subjects().enforce_revocation_expiration();
        match self.client_auth {
            ClientAuth::Required => builder,
            ClientAuth::Optional | ClientAuth::None => builder.allow_unauthenticated(),
        }
    }
}

impl Revocations {
    fn add(&mut self, list: RevocationList) {
        let of_issuer = self.0.entry(list.issuer).or_default();
        of_issuer.revoked.extend(list.revoked);
        of_issuer.end = of_issuer.end.into_iter().chain(list.next_update).min();
    }

    /// Returns whether a list of the past, or soon of the past, makes callers be refused.
    pub(super) fn untimely(&self, now: SystemTime) -> Option<Untimely> {
        match time_until(self.end()?, now) {
            None => Some(Untimely::ListExpired),
            Some(left) => (left < NOTICE).then_some(Untimely::ListExpiring),
        }
    }

    /// Returns the time until [`Self::untimely`] returns something else; `None` if that takes another list.
    pub(super) fn next_notice(&self, now: SystemTime) -> Option<Duration> {
        let left = time_until(self.end()?, now)?;
        Some(left.checked_sub(NOTICE).filter(|until| !until.is_zero()).unwrap_or(left))
    }

    /// Earliest time at which a list expires; `None` if there are no lists.
    fn end(&self) -> Option<SystemTime> {
        self.0.values().filter_map(|of_issuer| of_issuer.end).min()
    }

    /// Returns the time after which the lists no longer say that a caller may have a connection; `None` if a
    /// certificate of its chain is revoked, or if it has no list that is valid.
    pub(super) fn time_left(&self, chain: &CallerChain, now: SystemTime) -> Option<Duration> {
        let mut least = Duration::MAX;
        if self.0.is_empty() {
            return Some(least);
        }
        for (place, number) in chain.0.iter().enumerate() {
            match self.0.get(&number.issuer) {
                Some(of_issuer) => least = least.min(of_issuer.time_left(number.serial, now)?),
                // An authority that the caller shows after its chain needs none.
                None if place > 0 => {}
                None => return None,
            }
        }
        Some(least)
    }
}

impl RevokedOfIssuer {
    fn time_left(&self, serial: SerialDigest, now: SystemTime) -> Option<Duration> {
        if self.revoked.contains(&serial) {
            return None;
        }
        self.end.map_or(Some(Duration::MAX), |end| time_until(end, now))
    }
}

impl CallerChain {
    /// Reads the certificates that a caller has shown; `None` if the number of one cannot be read.
    pub(super) fn read(shown: &[CertificateDer<'_>]) -> Option<Self> {
        shown.iter().map(|der| CertificateNumber::read(der)).collect::<Option<_>>().map(Self)
    }
}

/// Returns the time until a list expires; `None` if it has expired.
fn time_until(end: SystemTime, now: SystemTime) -> Option<Duration> {
    end.duration_since(now).ok().filter(|left| !left.is_zero())
}

/// Returns the wait until the certificate that a caller has shown expires, or until its chain is revoked or has no
/// list that is valid; `None` if the caller has shown none.
pub(crate) fn certificate_ended(
    tls: Option<&ListenerTls>,
    ingress: Ingress,
    chain: &CallerChain,
) -> Option<Pin<Box<impl Future<Output = ()>>>> {
    let has_shown = ingress.shown().is_some() || !chain.0.is_empty();
    // Boxed: a connection without a certificate would have room for it, three quarters of a kibibyte.
    has_shown.then(|| {
        Box::pin(async move {
            tokio::select! {
                () = ingress.certificate_expired() => {}
                () = revoked(tls, chain) => {}
            }
        })
    })
}

async fn revoked(tls: Option<&ListenerTls>, chain: &CallerChain) {
    let Some(tls) = tls.filter(|_| !chain.0.is_empty()) else { return pending().await };
    let mut loads = tls.loads();
    while let Some(left) = tls.time_left(chain) {
        tokio::select! {
            () = sleep(left) => {}
            read = loads.changed() => {
                if read.is_err() {
                    return pending().await;
                }
            }
        }
    }
}

fn bad_authority(problem: TlsProblem) -> BadTls {
    bad("client_ca", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_reported_a_day_before_it_expires_and_no_connection_outlives_it() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = rcgen::CertificateParams::new([]).and_then(|params| params.self_signed(&key));
        let number = CertificateNumber::read(signed.expect("a certificate").der()).expect("read");
        let now = SystemTime::now();
        let revoked = BTreeSet::new();
        let of_issuer = RevokedOfIssuer { revoked, end: Some(now + 3 * NOTICE) };
        let mut revocations = Revocations(BTreeMap::from([(number.issuer, of_issuer)]));
        let chain = CallerChain([number].into());
        for (passed, next, left) in [
            (0, Some(2 * NOTICE), Some(3 * NOTICE)),
            (2, Some(NOTICE), Some(NOTICE)),
            (3, None, None),
        ] {
            let time = now + passed * NOTICE;
            assert_eq!(revocations.next_notice(time), next, "{passed}");
            assert_eq!(revocations.time_left(&chain, time), left, "{passed}");
        }
        let anonymous = CallerChain::default();
        assert_eq!(revocations.time_left(&anonymous, now + 3 * NOTICE), Some(Duration::MAX));
        for of_issuer in revocations.0.values_mut() {
            of_issuer.revoked.insert(number.serial);
        }
        assert_eq!(revocations.time_left(&chain, now), None);
        assert_eq!(Revocations::default().time_left(&chain, now), Some(Duration::MAX));
    }
}
