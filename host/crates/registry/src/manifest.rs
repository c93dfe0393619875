//! The manifest of an artifact that is one WebAssembly component, as the CNCF's layout for Wasm says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    digest::Digest,
    error::{RegistryError, shown},
};

/// Media type of a manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of the configuration.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the layer with the component.
const LAYER: &str = "application/wasm";
/// Media types of a layer with a component, the second one of older tools.
const LAYERS: [&str; 2] = [LAYER, "application/vnd.wasm.content.layer.v1+wasm"];
/// Maximum size of a manifest, in bytes: what the protocol asks registries to take.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// Maximum layers of a manifest. The component is one of them, and nothing else is read. They are counted when the manifest
/// has been parsed: one of [`MAX_MANIFEST_BYTES`] has at most 40,000, which take less than 10 MB.
const MAX_LAYERS: usize = 16;
/// Annotation with a signature of the component, as `minisign` writes it.
const SIGNATURE: &str = "io.github.airlock-gateway.minisig";
/// Time of every configuration: the same component is the same artifact, whenever it is pushed.
const CREATED: &str = "1970-01-01T00:00:00Z";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// A blob that a manifest names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

impl Manifest {
    /// Parses a manifest.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, RegistryError> {
        let manifest: Self = serde_json::from_slice(json)
            .map_err(|error| RegistryError::Manifest(shown(&error.to_string())))?;
        let media_type = manifest.media_type.as_deref().unwrap_or(MANIFEST);
        if manifest.schema_version != 2 || media_type != MANIFEST {
            let reason = format!("it has the type {}, expected {MANIFEST}", shown(media_type));
            return Err(RegistryError::Manifest(reason));
        }
        if manifest.layers.len() > MAX_LAYERS {
            let reason =
                format!("it has {} layers, expected at most {MAX_LAYERS}", manifest.layers.len());
            return Err(RegistryError::Manifest(reason));
        }
        Ok(manifest)
    }

    /// Makes the manifest of a component, with the configuration that it names.
    pub(crate) fn new(component: &[u8], config: &[u8], signature: Option<&str>) -> Self {
        let signature = signature.map(|text| (SIGNATURE.to_owned(), text.to_owned()));
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            config: Descriptor::new(CONFIG, config),
            layers: vec![Descriptor::new(LAYER, component)],
            annotations: signature.into_iter().collect(),
        }
    }

    /// Returns the manifest as JSON, the same bytes for the same content.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can be written as JSON")
    }

    /// Returns the one layer that has a component. Fails if its size is above the limit.
    pub(crate) fn component(&self, limit: u64) -> Result<&Descriptor, RegistryError> {
        let mut components =
            self.layers.iter().filter(|layer| LAYERS.contains(&layer.media_type.as_str()));
        let (Some(component), None) = (components.next(), components.next()) else {
            let reason = format!("expected one layer of the type {LAYER}");
            return Err(RegistryError::Manifest(reason));
        };
        if component.size > limit {
            return Err(RegistryError::TooLarge { what: "the component".to_owned(), limit });
        }
        Ok(component)
    }

    /// Returns the signature of the component.
    pub(crate) fn signature(&self) -> Option<&str> {
        self.annotations.get(SIGNATURE).map(String::as_str)
    }
}

impl Descriptor {
    fn new(media_type: &str, content: &[u8]) -> Self {
        let digest = Digest::compute(content);
        Self { media_type: media_type.to_owned(), digest, size: content.len() as u64 }
    }
}

/// Returns the configuration of the artifact of a component.
pub(crate) fn config(component: &[u8], imports: &[String], exports: &[String]) -> Vec<u8> {
    let config = json!({
        "created": CREATED,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [Digest::compute(component)],
        "component": {"exports": exports, "imports": imports},
    });
    config.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(json: &str) -> String {
        let manifest = Manifest::parse(json.as_bytes());
        let refused = manifest.and_then(|manifest| manifest.component(10).cloned());
        refused.expect_err("it is refused").to_string()
    }

    #[test]
    fn the_layout_is_that_of_the_cncf_and_the_same_for_the_same_component() {
        let config = config(b"wasm", &["wasi:io/poll@0.2.6".to_owned()], &["run".to_owned()]);
        insta::assert_snapshot!(String::from_utf8_lossy(&config), @r#"{"created":"1970-01-01T00:00:00Z","architecture":"wasm","os":"wasip2","layerDigests":["sha256:336154bf67f765f8f75d16a0accee61b5ee5f6a75b2a2905703df913bd550f3e"],"component":{"exports":["run"],"imports":["wasi:io/poll@0.2.6"]}}"#);
        let manifest = Manifest::new(b"wasm", b"{}", Some("sig"));
        insta::assert_snapshot!(String::from_utf8_lossy(&manifest.to_json()), @r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.wasm.config.v0+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[{"mediaType":"application/wasm","digest":"sha256:336154bf67f765f8f75d16a0accee61b5ee5f6a75b2a2905703df913bd550f3e","size":4}],"annotations":{"io.github.airlock-gateway.minisig":"sig"}}"#);
        let read = Manifest::parse(&manifest.to_json()).expect("a manifest");
        assert_eq!(read.component(4).expect("a component").size, 4);
        assert_eq!(read.signature(), Some("sig"));
        assert!(matches!(read.component(3), Err(RegistryError::TooLarge { limit: 3, .. })));
    }

    #[test]
    fn a_manifest_of_anything_else_is_refused() {
        let digest = Digest::compute(b"");
        let layer = format!(r#"{{"mediaType":"{LAYER}","digest":"{digest}","size":1}}"#);
        let other = layer.replace(LAYER, "application/vnd.oci.image.layer.v1.tar+gzip");
        let large = layer.replace(r#""size":1"#, r#""size":18446744073709551615"#);
        for (layers, expected) in [
            (String::new(), "expected one layer"),
            (other, "expected one layer"),
            (format!("{layer},{layer}"), "expected one layer"),
            (vec![layer.as_str(); 10_000].join(","), "it has 10000 layers"),
            (layer.replace("sha256", "../sha"), "expected a digest"),
            (layer.replace(r#""size":1"#, r#""size":-1"#), "invalid value"),
            (large, "larger than 10 bytes"),
        ] {
            let json = format!(r#"{{"schemaVersion":2,"config":{layer},"layers":[{layers}]}}"#);
            let reason = reason(&json);
            assert!(reason.contains(expected), "{reason}");
        }
        let index = r#"{"schemaVersion":2,"manifests":[]}"#;
        assert!(reason(index).contains("missing field `config`"), "{}", reason(index));
        let docker = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{layer},"layers":[]}}"#
        );
        assert!(reason(&docker).contains("it has the type application/vnd.docker"));
    }
}
