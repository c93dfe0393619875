//! Writes families of metrics, for collectors that read what they count when it is shown.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::TypedMetric,
};

/// Labels of a metric without any.
pub(super) const NO_LABELS: [(&str, &str); 0] = [];

/// Writes a family of metrics. The encoder adds `_total` to the name of a counter.
pub(super) fn encode_family<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metrics: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in metrics {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
