//! The standard variables of OpenTelemetry, as its specification of environment variables has them. Values are never
//! quoted where they may have a secret.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::{RESERVED, Signal, below, sensitive};
use crate::resolve::file_env::FileEnv;
use airlock_telemetry::{MAX_ELEMENTS, settings::Sampler};

/// Name of a gateway that has no other one.
const SERVICE: &str = "airlock";
/// Time for one export without a variable.
const TIMEOUT: u64 = 10_000;
/// Longest time of any variable, in milliseconds.
const LONGEST: u64 = 3_600_000;

/// The variables of the gateway's environment.
#[derive(Clone, Copy)]
pub(super) struct OtelVariables<'e>(pub(super) FileEnv<'e>);

impl OtelVariables<'_> {
    /// Returns whether the export is switched off.
    pub(super) fn are_disabled(self) -> bool {
        self.0
            .optional("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// Returns whether one kind of telemetry is to be exported if there is a URL for it.
    pub(super) fn exports(self, signal: Signal) -> Result<bool, String> {
        let name = format!("OTEL_{}_EXPORTER", signal.variable);
        match self.0.optional(&name).as_deref().map(str::trim) {
            None | Some("otlp") => Ok(true),
            Some("none") => Ok(false),
            Some(other) => {
                Err(format!("the environment variable {name} is {other:?}; expected otlp or none"))
            }
        }
    }

    /// Fails if another protocol than that of the gateway is asked for.
    pub(super) fn check_protocol(self, signal: Signal) -> Result<(), String> {
        match self.of_signal(signal, "PROTOCOL") {
            Some((name, value)) if value.trim() != "http/protobuf" => Err(format!(
                "the environment variable {name} is {value:?}; the gateway exports with http/protobuf only, by default to port 4318"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the whole URL of one kind of telemetry; `None` if there is none.
    pub(super) fn url(self, signal: Signal) -> Result<Option<Uri>, String> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable);
        let shared = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (name, url) = if let Some(url) = self.0.optional(&own) {
            (own.as_str(), url.trim().parse().ok())
        } else if let Some(base) = self.0.optional(shared) {
            (shared, below(base.trim(), signal))
        } else {
            return Ok(None);
        };
        let url = url.filter(is_collector);
        let expected =
            "expected a URL that starts with http:// or https://, without a user name or password";
        url.map(Some).ok_or_else(|| format!("the environment variable {name}: {expected}"))
    }

    /// Returns the headers of each request.
    pub(super) fn headers(self, signal: Signal) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let Some((name, value)) = self.of_signal(signal, "HEADERS") else { return Ok(Vec::new()) };
        let pairs = pairs(&value).ok_or_else(|| not_pairs(&name))?;
        let headers = pairs.into_iter().map(|(header, value)| {
            let header: HeaderName = header.parse().ok()?;
            let value = HeaderValue::from_str(&value).ok()?;
            (!RESERVED.contains(&header.as_str())).then(|| sensitive((header, value)))
        });
        headers.collect::<Option<_>>().ok_or_else(|| {
            format!(
                "the environment variable {name} has a header that cannot be sent to a collector"
            )
        })
    }

    /// Returns the time for one export, retries included.
    pub(super) fn timeout(self, signal: Signal) -> Result<Duration, String> {
        match self.of_signal(signal, "TIMEOUT") {
            Some((name, value)) => milliseconds(&name, &value),
            None => Ok(Duration::from_millis(TIMEOUT)),
        }
    }

    /// Returns the time between two exports.
    pub(super) fn interval(self, name: &str, default: u64) -> Result<Duration, String> {
        match self.0.optional(name) {
            Some(value) => milliseconds(name, &value),
            None => Ok(Duration::from_millis(default)),
        }
    }

    /// Returns the choice of the traces that are recorded.
    pub(super) fn sampler(self) -> Result<Sampler, String> {
        let name = "OTEL_TRACES_SAMPLER";
        let Some(value) = self.0.optional(name) else { return Ok(Sampler::default()) };
        let (kind, is_parent_based) = match value.trim().strip_prefix("parentbased_") {
            Some(kind) => (kind, true),
            None => (value.trim(), false),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.ratio()?,
            _ => {
                return Err(format!(
                    "the environment variable {name} is {value:?}; expected always_on, always_off or traceidratio, each also with parentbased_ before it"
                ));
            }
        };
        Ok(Sampler { ratio, is_parent_based })
    }

    fn ratio(self) -> Result<f64, String> {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(value) = self.0.optional(name) else { return Ok(1.0) };
        let ratio = value.trim().parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        ratio.ok_or_else(|| {
            format!("the environment variable {name} is {value:?}; expected a number from 0 to 1")
        })
    }

    /// Returns the attributes of the resource.
    pub(super) fn resource(self) -> Result<Vec<(String, String)>, String> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let Some(value) = self.0.optional(name) else { return Ok(Vec::new()) };
        pairs(&value).ok_or_else(|| not_pairs(name))
    }

    /// Returns the name of the gateway.
    pub(super) fn service_name(self, resource: &[(String, String)]) -> String {
        let of_resource = resource.iter().find(|(name, _)| name == "service.name");
        self.0
            .optional("OTEL_SERVICE_NAME")
            .or_else(|| of_resource.map(|(_, value)| value.clone()))
            .unwrap_or_else(|| SERVICE.to_owned())
    }

    /// Returns the variable of one kind of telemetry, or that of all, with its name.
    fn of_signal(self, signal: Signal, end: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{}_{end}", signal.variable),
            format!("OTEL_EXPORTER_OTLP_{end}"),
        ];
        names.into_iter().find_map(|name| {
            let value = self.0.optional(&name)?;
            Some((name, value))
        })
    }
}

fn is_collector(url: &Uri) -> bool {
    matches!(url.scheme_str(), Some("http" | "https"))
        && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
}

fn milliseconds(name: &str, value: &str) -> Result<Duration, String> {
    let time = value.trim().parse::<u64>().ok().filter(|time| (1..=LONGEST).contains(time));
    time.map(Duration::from_millis).ok_or_else(|| {
        format!(
            "the environment variable {name} is {value:?}; expected milliseconds, from 1 to {LONGEST}"
        )
    })
}

/// Parses `name=value,name=value`, whose values are percent-encoded. `None` if it is not that.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pairs: Option<Vec<_>> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((name.trim().to_owned(), value.into_owned()))
        })
        .collect();
    pairs.filter(|pairs| pairs.len() <= MAX_ELEMENTS)
}

fn not_pairs(name: &str) -> String {
    format!(
        "the environment variable {name}: expected at most {MAX_ELEMENTS} of name=value, with commas between them"
    )
}
