//! Lists of revoked certificates of callers.

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::*;
use airlock_ingress::TlsProblem;

/// Returns a list of an authority that ends in this year, with the certificates that have these numbers.
fn list(authority: &Authority, year: i32, revoked: &[u64]) -> String {
    signed(authority, &params(year, revoked))
}

fn params(year: i32, revoked: &[u64]) -> CertificateRevocationListParams {
    let revoked = revoked.iter().map(|number| RevokedCertParams {
        serial_number: SerialNumber::from(*number),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(year, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
}

fn signed(authority: &Authority, params: &CertificateRevocationListParams) -> String {
    let list = params.signed_by(&authority.issuer).expect("a list");
    list.pem().expect("PEM")
}

/// Signs a certificate with this number.
fn numbered(number: u64) -> Signed {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
    params.serial_number = Some(SerialNumber::from(number));
    OWN.sign_with(&params)
}

/// Returns the TLS of a listener with one file of lists.
fn listener(files: &Files, lists: &str, client_auth: ClientAuth) -> ListenerTls {
    files.set("crl.pem", lists);
    let client_crl = vec![files.0.path().join("crl.pem")];
    ListenerTls::new(TlsSettings { client_crl, ..files.settings(client_auth) })
}

#[tokio::test]
async fn a_certificate_on_a_list_opens_no_connection_and_ends_the_one_that_is_open() {
    let files = Files::new();
    let tls = listener(&files, &list(&OWN, 2999, &[1]), ClientAuth::Optional);
    assert_eq!(tls.load().await.expect("good files"), NONE);
    let gateway = start(settings(), &tls).await;
    let [first, second] = [1, 2].map(numbered);
    assert_eq!(health(&gateway, &client(&OWN, Some(&first))).await, None);
    let open = client(&OWN, Some(&second));
    assert_eq!(health(&gateway, &open).await, Some(200));
    files.set("crl.pem", &list(&OWN, 2999, &[1, 2]));
    tls.load().await.expect("good files");
    // Otherwise the connection would be used again.
    while health(&gateway, &open).await.is_some() {}
    assert_eq!(health(&gateway, &client(&OWN, Some(&TIA))).await, Some(200));
    assert_eq!(health(&gateway, &client(&OWN, None)).await, Some(200));
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_expires_ends_the_connections_that_are_open() {
    let files = Files::new();
    let soon = date_time_ymd(1970, 1, 1) + since_1970() + Duration::from_secs(3);
    let ends_soon = CertificateRevocationListParams { next_update: soon, ..params(2999, &[]) };
    let tls = listener(&files, &signed(&OWN, &ends_soon), ClientAuth::Optional);
    assert_eq!(tls.load().await.expect("good files"), [Untimely::ListExpiring]);
    let gateway = start(settings(), &tls).await;
    let [open, anonymous] = [Some(&*TIA), None].map(|own| client(&OWN, own));
    assert_eq!(health(&gateway, &open).await, Some(200));
    // Otherwise the connection would be used again.
    while health(&gateway, &open).await.is_some() {}
    assert_eq!(tls.untimely(), [Untimely::ListExpired]);
    assert_eq!(health(&gateway, &anonymous).await, Some(200));
    files.set("crl.pem", &list(&OWN, 2999, &[]));
    assert_eq!(tls.load().await.expect("good files"), NONE);
    assert_eq!(health(&gateway, &open).await, Some(200));
    gateway.stop().await;
}

#[tokio::test]
async fn a_revoked_certificate_between_a_caller_and_its_authority_ends_the_connection() {
    let files = Files::new();
    let (between, caller) = caller_below(7);
    let lists = list(&between, 2999, &[]);
    let tls = listener(&files, &(lists.clone() + &list(&OWN, 2999, &[8])), ClientAuth::Optional);
    tls.load().await.expect("good files");
    let gateway = start(settings(), &tls).await;
    let open = client(&OWN, Some(&caller));
    assert_eq!(health(&gateway, &open).await, Some(200));
    files.set("crl.pem", &(lists + &list(&OWN, 2999, &[7])));
    tls.load().await.expect("good files");
    while health(&gateway, &open).await.is_some() {}
    gateway.stop().await;
}

/// Returns an authority with this number below the own one, and a caller whose certificate it has signed.
fn caller_below(number: u64) -> (Authority, Signed) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.serial_number = Some(SerialNumber::from(number));
    params.distinguished_name.push(DnType::CommonName, "below");
    let certificate = params.signed_by(&key, &OWN.issuer).expect("a certificate");
    let between = certificate.pem();
    let authority = Authority { certificate, issuer: Issuer::new(params, key) };
    let caller = Signed { between, ..authority.sign() };
    (authority, caller)
}

#[tokio::test]
async fn the_latest_list_of_an_authority_counts_wherever_it_stands() {
    let files = Files::new();
    let older = list(&OWN, 2999, &[2]);
    let this_update = date_time_ymd(2021, 1, 1);
    let newer = CertificateRevocationListParams { this_update, ..params(2999, &[1]) };
    let newer = signed(&OWN, &newer);
    for lists in [older.clone() + &newer, newer + &older] {
        let tls = listener(&files, &lists, ClientAuth::Optional);
        assert_eq!(tls.load().await.expect("good files"), NONE);
        let gateway = start(settings(), &tls).await;
        for (number, expected) in [(1, None), (2, Some(200))] {
            let caller = client(&OWN, Some(&numbered(number)));
            assert_eq!(health(&gateway, &caller).await, expected, "{number}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_that_expires_soon_does_not_hide_a_list_that_has_expired() {
    let files = Files::new();
    files.write(&OWN.sign_for(Duration::from_hours(1)));
    let tls = listener(&files, &list(&OWN, 2021, &[]), ClientAuth::Optional);
    let untimely = tls.load().await.expect("good files");
    assert_eq!(untimely, [Untimely::Expiring, Untimely::ListExpired]);
}

#[tokio::test]
async fn a_caller_without_a_list_that_is_valid_is_refused() {
    let files = Files::new();
    for (lists, untimely) in [
        (list(&OWN, 2021, &[]), &[Untimely::ListExpired][..]),
        (list(&Authority::new(), 2999, &[]), &NONE[..]),
    ] {
        let tls = listener(&files, &lists, ClientAuth::Optional);
        assert_eq!(tls.load().await.expect("good files"), untimely);
        let gateway = start(settings(), &tls).await;
        assert_eq!(health(&gateway, &client(&OWN, Some(&TIA))).await, None, "{untimely:?}");
        assert_eq!(health(&gateway, &client(&OWN, None)).await, Some(200));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_file_without_a_list_is_refused_by_its_key() {
    let files = Files::new();
    let broken = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    for text in ["none", &OWN.certificate.pem(), broken] {
        let refused = listener(&files, text, ClientAuth::Required).load().await;
        let refused = refused.expect_err("it is refused");
        assert_eq!(refused.key, "client_crl");
        assert!(matches!(refused.problem, TlsProblem::Pem(_)), "{refused:?}");
    }
}
