//! Providers of models: each responds to a request without a key.

use std::sync::Arc;

use url::{Host, Url};

use super::{
    checkup::{Check, PATIENCE},
    finding::DoctorFinding,
};
use airlock_config::Config;
use airlock_model::{Kind, Service, reach};
use airlock_strings::with_causes;

const CODE: &str = "provider";

/// Returns a check for each provider that is a service.
pub(super) fn checks(config: &Arc<Config>, is_offline: bool) -> Vec<Check> {
    let services = config.providers.iter().filter_map(|provider| match &provider.kind {
        Kind::Service(service) => Some((provider.name.clone(), service.clone())),
        Kind::Scripted { .. } => None,
    });
    let checks = services.map(|(name, service)| {
        Check::new(CODE, name.clone(), async move {
            let mut found: Vec<_> = clear_text(&name, &service).into_iter().collect();
            if !is_offline {
                found.push(connect(&name, &service).await);
            }
            found
        })
    });
    checks.collect()
}

/// Returns the finding of a provider that gets keys without TLS on another machine.
fn clear_text(name: &str, service: &Service) -> Option<DoctorFinding> {
    let url = Url::parse(&service.base_url).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    if url.scheme() == "https" || is_local || service.keys.is_empty() {
        return None;
    }
    let text = "its keys are sent to another machine in clear text";
    let finding = DoctorFinding::warning("provider_clear_text", name, text);
    Some(finding.valid("https").fix(format!("`providers.{name}.base_url`")))
}

async fn connect(name: &str, service: &Service) -> DoctorFinding {
    match reach(name, service, PATIENCE).await {
        Ok(status) => {
            let text = format!("it responds (status {} without a key)", status.as_u16());
            DoctorFinding::ok(CODE, name, text)
        }
        Err(error) => DoctorFinding::error("provider_unreachable", name, with_causes(&error))
            .valid("a service that responds, with a certificate that the gateway trusts")
            .fix(format!(
                "start the service, or correct `base_url`, `proxy` or `ca` of `providers.{name}`"
            )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::secret::Secret;
    use airlock_model::{Api, Key};

    #[test]
    fn a_provider_with_keys_on_another_machine_needs_https() {
        for (url, expected) in [
            ("http://models.example.com/v1", true),
            ("https://models.example.com/v1", false),
            ("http://localhost:11434/v1", false),
            ("http://[::1]/v1", false),
        ] {
            let mut service = Service::new(Api::OpenAi, url);
            assert_eq!(clear_text("p", &service), None, "{url}");
            service.keys = vec![Key::new("k", Secret::new("hunter2"))];
            assert_eq!(clear_text("p", &service).is_some(), expected, "{url}");
        }
    }
}
