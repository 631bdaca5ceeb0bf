//! What the producer takes of the settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{QueueName, TenantName};
use holdfast_core::script::LaneLimits;
use holdfast_runtime::keys;
use holdfast_runtime::serve::Tls;
use holdfast_runtime::settings::{
    HttpLimits, QueueSettings, RedisSettings, TenantSettings, TracesSettings,
};
use holdfast_runtime::{Problems, Settings};

use crate::who::Keys;

/// What the producer takes of the settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where Redis is.
    pub redis: RedisSettings,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// Where operators' calls are.
    pub operator_listen: SocketAddr,
    /// The longest wait that is granted.
    pub wait_max: Duration,
    /// What a caller may occupy.
    pub limits: HttpLimits,
    /// The certificate that the API shows; none: it speaks without TLS.
    pub(crate) tls: Option<Tls>,
    /// The callers' keys; none: everybody is one tenant.
    pub(crate) keys: Option<Arc<Keys>>,
    /// What tenants may have in each queue; who is not there has no limit.
    pub tenants: BTreeMap<TenantName, LaneLimits>,
    /// Where traces go.
    pub traces: TracesSettings,
    /// The queues that take submits.
    pub queues: BTreeMap<QueueName, QueueSettings>,
}

impl Config {
    /// Takes the producer's part of settings that were checked as a whole.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut problems = settings.redis_files();
        problems.extend(settings.producer_files());
        let some = !settings.queues.is_empty();
        problems.check(some, "queues", "none", "must declare at least one queue");
        let producer = &settings.producer;
        problems.or(())?;
        let unusable = |err| settings.problems("producer", [err]);
        let keys = producer.keys_file.as_deref().map(keys::open).transpose().map_err(unusable)?;
        let tls = producer.tls_cert_file.as_deref().zip(producer.tls_key_file.as_deref());
        let tls = tls.map(|(certificate, key)| Tls::open(certificate, key)).transpose();
        let tls = tls.map_err(unusable)?;
        Ok(Self {
            redis: settings.redis.clone(),
            listen: settings.producer.listen,
            ops_listen: settings.producer.ops_listen,
            operator_listen: settings.producer.operator_listen,
            wait_max: settings.producer.wait_max,
            limits: settings.producer.limits.clone(),
            tls,
            keys: keys.map(Arc::new),
            tenants: settings.tenants.iter().map(|(name, it)| (name.clone(), limits(it))).collect(),
            traces: settings.traces.clone(),
            queues: settings.queues.clone(),
        })
    }
}

/// A tenant's limits as the scripts know them: those of a lane.
fn limits(settings: &TenantSettings) -> LaneLimits {
    let TenantSettings { queued, bytes, submits_per_second } = *settings;
    LaneLimits { requests: queued, bytes, rate: submits_per_second }
}
