//! Certificates: the time in which each is valid, the names and the chain of that of the listener.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{checkup::Check, finding::DoctorFinding};
use airlock_config::{Config, Source};
use airlock_model::Kind;
use airlock_server::Settings;
use airlock_tls::{
    Authorities, Identity, IdentitySource, KeySource, Validity, read_certificates, validity,
};

const CODE: &str = "certificate";
const DAY: Duration = Duration::from_hours(24);
/// Time before the end of a certificate from which on it is reported. One that is valid for a short time is reported
/// in the last third of it.
const NOTICE: Duration = Duration::from_hours(30 * 24);
const VALID: &str = "a certificate that is valid for another 30 days";

/// Returns the checks of all certificates. Files that cannot be used are left out: the check of files reports them.
pub(super) fn checks(config: &Arc<Config>) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(tls) = &config.server.tls {
        let source = IdentitySource {
            certificate: tls.certificate.clone(),
            key: KeySource::File(tls.key.clone()),
        };
        let hosts = hosts(&config.server);
        checks.push(Check::blocking(CODE, "server.tls", move || listener(&source, &hosts)));
    }
    checks.extend(identities(config).into_iter().map(|(key, source)| {
        Check::blocking(CODE, key.clone(), move || {
            let identity = source.read().ok();
            identity.iter().map(|identity| timely(&key, identity.validity())).collect()
        })
    }));
    checks.extend(
        authorities(config)
            .into_iter()
            .map(|(key, path)| Check::blocking(CODE, key.clone(), move || authority(&key, &path))),
    );
    checks
}

/// Returns the certificates of the gateway for others, with their keys in the configuration.
fn identities(config: &Config) -> Vec<(String, IdentitySource)> {
    let mut found = Vec::new();
    for client in &config.clients {
        if let Source::Upstream(settings) = &client.source
            && let Some(identity) = settings.transport.http().and_then(|http| http.identity.clone())
        {
            found.push((
                format!("tls_config.client_certificate of the client {}", client.name),
                identity,
            ));
        }
    }
    for provider in &config.providers {
        if let Kind::Service(service) = &provider.kind
            && let Some(identity) = service.identity.clone()
        {
            found.push((format!("providers.{}.client_certificate", provider.name), identity));
        }
    }
    let replicas = config.server.replica_tls.identity.clone();
    found.extend(replicas.map(|identity| ("server.replica_tls".to_owned(), identity)));
    found
}

/// Returns the files of authorities, with their keys in the configuration.
fn authorities(config: &Config) -> Vec<(String, std::path::PathBuf)> {
    let mut found = Vec::new();
    for client in &config.clients {
        if let Source::Upstream(settings) = &client.source
            && let Some(http) = settings.transport.http()
            && let Authorities::File(path) = &http.authorities
        {
            found.push((format!("tls_config.ca_cert of the client {}", client.name), path.clone()));
        }
    }
    for provider in &config.providers {
        if let Kind::Service(service) = &provider.kind
            && let Some(path) = &service.ca
        {
            found.push((format!("providers.{}.ca", provider.name), path.clone()));
        }
    }
    if let Authorities::File(path) = &config.server.replica_tls.authorities {
        found.push(("server.replica_tls.ca".to_owned(), path.clone()));
    }
    let client_ca = config.server.tls.as_ref().and_then(|tls| tls.client_ca.clone());
    found.extend(client_ca.map(|path| ("server.tls.client_ca".to_owned(), path)));
    found
}

/// Returns the names by which clients reach the gateway, as far as the configuration has them.
fn hosts(server: &Settings) -> Vec<String> {
    if let Some(url) = &server.external_url {
        // An address of IPv6 is in brackets in a URL.
        let host = url.host_str().unwrap_or_default();
        return vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()];
    }
    if !server.allowed_hosts.is_empty() {
        return server.allowed_hosts.clone();
    }
    address(server.listen).into_iter().collect()
}

fn address(listen: SocketAddr) -> Option<String> {
    (!listen.ip().is_unspecified()).then(|| listen.ip().to_string())
}

/// Checks the certificate of the listener.
fn listener(source: &IdentitySource, hosts: &[String]) -> Vec<DoctorFinding> {
    let Ok(identity) = source.read() else { return Vec::new() };
    let mut found = vec![timely("server.tls", identity.validity())];
    let strange: Vec<_> =
        hosts.iter().filter(|host| !identity.is_for(host)).map(String::as_str).collect();
    if !strange.is_empty() {
        let text = format!("clients refuse the certificate at {}", strange.join(", "));
        let finding = DoctorFinding::warning("certificate_name", "server.tls.certificate", text);
        found.push(
            finding
                .valid("a certificate with each name by which clients reach the gateway")
                .fix("another certificate, `server.external_url` or `server.allowed_hosts`"),
        );
    }
    found.extend(broken_chain(&identity));
    found
}

fn broken_chain(identity: &Identity) -> Option<DoctorFinding> {
    let number = identity.broken_link()?;
    let text = format!("certificate {number} of the file is not signed by the one after it");
    let finding = DoctorFinding::warning("certificate_chain", "server.tls.certificate", text);
    let valid = "the certificate, then each authority that has signed the one before";
    Some(finding.valid(valid).fix("the order and the content of `server.tls.certificate`"))
}

/// Checks the certificates of a file of authorities.
fn authority(key: &str, path: &Path) -> Vec<DoctorFinding> {
    let certificates = read_certificates(path).unwrap_or_default();
    let first_to_end =
        certificates.iter().filter_map(|der| validity(der)).min_by_key(|one| one.end);
    first_to_end.map(|validity| timely(key, Some(validity))).into_iter().collect()
}

fn timely(key: &str, validity: Option<Validity>) -> DoctorFinding {
    let Some(validity) = validity else {
        return DoctorFinding::warning(CODE, key, "the time in which it is valid cannot be read")
            .valid(VALID);
    };
    judge(key, validity, SystemTime::now())
}

fn judge(key: &str, validity: Validity, now: SystemTime) -> DoctorFinding {
    let renew = format!("renew the certificate of `{key}`");
    let Ok(left) = validity.end.duration_since(now) else {
        let text = format!("it has expired at {}", shown(validity.end));
        return DoctorFinding::error("certificate_expired", key, text).valid(VALID).fix(renew);
    };
    if now < validity.begin {
        let text = format!("it is not valid before {}", shown(validity.begin));
        let finding = DoctorFinding::error("certificate_early", key, text);
        return finding.valid(VALID).fix("set the clock of this machine, or wait");
    }
    let days = left.as_secs() / DAY.as_secs();
    let text = format!("it is valid for another {days} days, until {}", shown(validity.end));
    let whole = validity.end.duration_since(validity.begin).unwrap_or_default();
    if left < NOTICE.min(whole / 3) {
        return DoctorFinding::warning("certificate_expiring", key, text).valid(VALID).fix(renew);
    }
    DoctorFinding::ok(CODE, key, text)
}

fn shown(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_judged_by_the_time_that_is_left() {
        let begin = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        let second = Duration::from_secs(1);
        for (days, after, code) in [
            (365, Duration::ZERO, CODE),
            (365, 335 * DAY, CODE),
            (365, 335 * DAY + second, "certificate_expiring"),
            (365, 365 * DAY + second, "certificate_expired"),
            // Of a short time, the last third.
            (30, 20 * DAY, CODE),
            (30, 20 * DAY + second, "certificate_expiring"),
        ] {
            let validity = Validity { begin, end: begin + days * DAY };
            assert_eq!(judge("k", validity, begin + after).code, code, "{days} {after:?}");
        }
        let validity = Validity { begin, end: begin + 365 * DAY };
        assert_eq!(judge("k", validity, begin - second).code, "certificate_early");
    }
}
