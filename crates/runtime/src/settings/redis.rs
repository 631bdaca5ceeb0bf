//! `[redis]`: where Redis is, and how to speak to it.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::redis::Options;

use super::name::Word;
use super::redis_url::{RedisUrl, Topology};
use super::secret::SecretFile;
use super::section::{Section, Shown};

/// `[redis]`, checked.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Its address, in any form that the client takes.
    pub url: RedisUrl,
    /// The user to log in as, if it does not stand in the address.
    pub username: Option<String>,
    /// Holds the password.
    pub password_file: Option<SecretFile>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate, and the key of it.
    pub client_pair: Option<(PathBuf, PathBuf)>,
    /// How long a call may take.
    pub command_timeout: Duration,
}

impl From<&RedisSettings> for Options {
    fn from(settings: &RedisSettings) -> Self {
        Self {
            url: settings.url.expose().to_owned(),
            username: settings.username.clone(),
            password_file: settings.password_file.as_ref().map(|file| file.path().to_owned()),
            ca_file: settings.ca_file.clone(),
            client_pair: settings.client_pair.clone(),
            command_timeout: settings.command_timeout,
        }
    }
}

const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

pub(super) fn read(mut section: Section<'_>) -> (Option<RedisSettings>, Shown) {
    let url: Option<RedisUrl> = section.field("url", "redis://127.0.0.1:6379");
    let username: Option<Option<Word>> = section.optional("username");
    let password_file: Option<Option<SecretFile>> = section.optional("password_file");
    let ca_file: Option<Option<PathBuf>> = section.optional("ca_file");
    let certificate: Option<Option<PathBuf>> = section.optional("client_cert_file");
    let key: Option<Option<PathBuf>> = section.optional("client_key_file");
    let command_timeout = section.within("command_timeout", "2s", TIMEOUTS);

    if let Some(url) = &url {
        let encrypts = url.tls || !matches!(ca_file, Some(Some(_)));
        section.check(
            encrypts,
            "ca_file",
            "needs TLS: redis.url must start with rediss or valkeys",
        );
        let once = !url.has_password || !matches!(password_file, Some(Some(_)));
        section.check(once, "password_file", "stands beside a password in redis.url: give one");
        let once = !url.has_username || !matches!(username, Some(Some(_)));
        section.check(once, "username", "stands beside a user in redis.url: give one");
        let socket_with_ca = url.topology == Topology::Unix && url.tls;
        section.check(!socket_with_ca, "url", "can't be a Unix socket with TLS");
    }
    if let (Some(certificate), Some(key), Some(ca_file)) = (&certificate, &key, &ca_file) {
        let (certificate, key) = (certificate.is_some(), key.is_some());
        section.check(key || !certificate, "client_cert_file", "needs client_key_file");
        section.check(certificate || !key, "client_key_file", "needs client_cert_file");
        section.check(!certificate || ca_file.is_some(), "client_cert_file", "needs ca_file");
    }
    let shown = section.finish();
    let checked = || {
        Some(RedisSettings {
            url: url?,
            username: username?.map(|Word(name)| name),
            password_file: password_file?,
            ca_file: ca_file?,
            client_pair: certificate?.zip(key?),
            command_timeout: command_timeout?,
        })
    };
    (checked(), shown)
}
