//! The resource: which program the telemetry is about.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource as ProtocolResource;
use opentelemetry_sdk::Resource;
use uuid::Uuid;

use super::message;
use crate::settings::OtlpSettings;

/// Attributes of the resource, by name.
pub(super) type Attributes = Vec<(String, String)>;

/// Returns the attributes: those of the operator, and for the rest those of this process.
pub(super) fn attributes(settings: &OtlpSettings) -> Attributes {
    let own = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", Uuid::new_v4().to_string()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.name", "opentelemetry".to_owned()),
    ];
    let mut attributes = settings.resource.clone();
    attributes.retain(|(name, _)| name != "service.name");
    attributes.push(("service.name".to_owned(), settings.service_name.clone()));
    for (name, value) in own {
        if !attributes.iter().any(|(present, _)| present == name) {
            attributes.push((name.to_owned(), value));
        }
    }
    attributes
}

/// Returns the attributes in the form of the SDK.
pub(super) fn of_sdk(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder_empty().with_attributes(attributes).build()
}

/// Returns the attributes in the form of the protocol.
pub(super) fn of_protocol(attributes: &[(String, String)]) -> ProtocolResource {
    let attributes = attributes.iter().map(|(name, value)| message::attribute(name, value));
    ProtocolResource { attributes: attributes.collect(), ..ProtocolResource::default() }
}
