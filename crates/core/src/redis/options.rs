//! How to reach Redis, and the client settings that fred's defaults get wrong.

use std::{
    fmt, fs,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    types::{
        Builder,
        config::{
            Config, CredentialProvider, ReconnectPolicy, Server, ServerConfig, TlsConnector,
            UnresponsiveConfig,
        },
    },
};

/// How to reach Redis.
#[derive(Clone)]
pub struct Options {
    /// Any form that fred takes: single, Sentinel, Cluster, TLS, unix socket. May hold a password.
    pub url: String,
    /// User, if not in the url.
    pub username: Option<String>,
    /// A file that holds the password; read again at each connection.
    pub password_file: Option<PathBuf>,
    /// Certificates that are trusted instead of the system's (PEM).
    pub ca_file: Option<PathBuf>,
    /// Our own certificate (PEM), for a server that asks for one, and the key of it; only beside `ca_file`.
    pub client_pair: Option<(PathBuf, PathBuf)>,
    /// Time limit of every call.
    pub command_timeout: Duration,
}

impl fmt::Debug for Options {
    /// Without the url: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("command_timeout", &self.command_timeout)
            .finish_non_exhaustive()
    }
}

/// Settings with which no connection can be tried.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The url is none that can be used. It is not repeated: it may hold a password.
    #[error("redis.url is not a redis url")]
    Url,
    /// The certificate file cannot be used.
    #[error("redis.ca_file cannot be read as PEM certificates")]
    CaFile(#[source] Option<io::Error>),
    /// Our own certificate or its key cannot be used.
    #[error(
        "redis.client_cert_file and redis.client_key_file cannot be used as certificate and key"
    )]
    ClientPair,
    /// The file with the password cannot be read.
    #[error("redis.password_file cannot be read")]
    PasswordFile(#[source] io::Error),
    /// The TLS library refuses.
    #[error("TLS for redis cannot be set up")]
    Tls,
    /// The client refuses its settings.
    #[error("the redis client cannot be set up")]
    Client,
}

/// The longest that one try to connect may take, however long a call may.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

impl Options {
    /// Options with no user, no files, and a limit of 2 s a call.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            username: None,
            password_file: None,
            ca_file: None,
            client_pair: None,
            command_timeout: Duration::from_secs(2),
        }
    }

    /// Host and port of each server that the url names, or the path of a socket: nothing secret.
    pub(super) fn place(&self) -> String {
        let Ok(config) = Config::from_url(&self.url) else { return String::new() };
        let place = |server: &Server| match server.port {
            0 => server.host.to_string(),
            port => format!("{}:{port}", server.host),
        };
        let mut places: Vec<String> = config.server.hosts().iter().map(place).collect();
        // The client keeps the nodes of a cluster in no order.
        places.sort_unstable();
        places.join(", ")
    }

    /// Behind Sentinel the client asks the first that lets it connect, over and over, also one that hangs. So `turn` says which
    /// is the first.
    fn config(&self, turn: usize) -> Result<Config, OpenError> {
        let mut config = Config::from_url(&self.url).map_err(|_| OpenError::Url)?;
        // An unreachable Redis is tried again, from the first connection on.
        config.fail_fast = false;
        if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
            let first = turn.checked_rem(hosts.len()).unwrap_or_default();
            hosts.rotate_left(first);
        }
        if let Some(path) = &self.ca_file {
            config.tls = Some(trusting(path, self.client_pair.as_ref())?.into());
        }
        if self.username.is_some() {
            config.username.clone_from(&self.username);
        }
        match &self.password_file {
            // The client would ask for the sentinels' passwords there too, and theirs are others, or none.
            Some(path) if config.server.is_sentinel() => {
                config.password = Some(password_in(path).map_err(OpenError::PasswordFile)?);
            }
            Some(path) => {
                let username = config.username.clone();
                config.credential_provider =
                    Some(Arc::new(PasswordFile { username, path: path.clone() }));
            }
            None => {}
        }
        Ok(config)
    }

    fn builder(&self, turn: usize) -> Result<Builder, OpenError> {
        Ok(builder_of(self.config(turn)?))
    }

    /// A client that takes a connection without PING first: a server that can't write to its disk refuses that, as if it
    /// would write. Where there is a password, the client sends that and no PING anyway.
    pub(super) fn client_without_ping(
        &self,
        limit: Duration,
        turn: usize,
    ) -> Result<Client, OpenError> {
        let mut config = self.config(turn)?;
        if config.password.is_none() && config.credential_provider.is_none() {
            config.credential_provider = Some(Arc::new(Nobody));
        }
        let mut builder = builder_of(config);
        limited(&mut builder, limit);
        builder.build().map_err(|_| OpenError::Client)
    }

    /// A client whose calls end after `limit`.
    pub(super) fn client(&self, limit: Duration, turn: usize) -> Result<Client, OpenError> {
        let mut builder = self.builder(turn)?;
        limited(&mut builder, limit);
        builder.build().map_err(|_| OpenError::Client)
    }

    /// A client for one command that blocks: no limit of its own.
    pub(super) fn blocking_client(&self, turn: usize) -> Result<Client, OpenError> {
        let mut builder = self.builder(turn)?;
        builder.with_connection_config(|connection| {
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.reconnect_on_auth_error = true;
            connection.tcp.nodelay = Some(true);
        });
        builder.build().map_err(|_| OpenError::Client)
    }

    pub(super) fn subscriber(
        &self,
        turn: usize,
    ) -> Result<fred::clients::SubscriberClient, OpenError> {
        let mut builder = self.builder(turn)?;
        limited(&mut builder, self.command_timeout);
        builder.build_subscriber_client().map_err(|_| OpenError::Client)
    }
}

fn builder_of(config: Config) -> Builder {
    let mut builder = Builder::from_config(config);
    builder.set_policy(ReconnectPolicy::new_exponential(0, 50, 1_000, 2));
    builder
}

fn limited(builder: &mut Builder, limit: Duration) {
    builder.with_connection_config(|connection| {
        connection.connection_timeout = limit.min(CONNECT);
        connection.internal_command_timeout = limit;
        // The default of 3 runs a script again when its reply is lost.
        connection.max_command_attempts = 1;
        // With one attempt, following an ASK ends the client for good: `moved` sends again what belongs elsewhere.
        connection.max_redirections = 0;
        // Above 0 it makes accepted calls time out, and leaks: our own semaphore bounds them.
        connection.max_command_buffer_len = 0;
        // Must be below the limit of a call, or it never comes to this. Where calls keep coming it doesn't anyway: see `kept`.
        connection.unresponsive = UnresponsiveConfig {
            max_timeout: Some(limit * 3 / 4),
            interval: (limit / 8).min(Duration::from_millis(250)),
        };
        connection.reconnect_on_auth_error = true;
        connection.tcp.nodelay = Some(true);
    });
    builder.with_performance_config(|performance| performance.default_command_timeout = limit);
}

fn trusting(
    path: &PathBuf,
    client_pair: Option<&(PathBuf, PathBuf)>,
) -> Result<TlsConnector, OpenError> {
    let pem = fs::read(path).map_err(|err| OpenError::CaFile(Some(err)))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| OpenError::CaFile(None))?;
        roots.add(certificate).map_err(|_| OpenError::CaFile(None))?;
    }
    if roots.is_empty() {
        return Err(OpenError::CaFile(None));
    }
    let provider = Arc::new(fred::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| OpenError::Tls)?
        .with_root_certificates(roots);
    let config = match client_pair {
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
            let chain: Vec<_> = chain.map_err(|_| OpenError::ClientPair)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|_| OpenError::ClientPair)?;
            config.with_client_auth_cert(chain, key).map_err(|_| OpenError::ClientPair)?
        }
        None => config.with_no_client_auth(),
    };
    Ok(TlsConnector::from(config))
}

/// Of a file of passwords no more is read, in bytes: what is no file at all may never end.
const LONGEST_PASSWORD: u64 = 64 << 10;

/// Reads the password again at each connection, so that a rotated one is taken without a restart.
struct PasswordFile {
    username: Option<String>,
    path: PathBuf,
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordFile")
    }
}

#[async_trait::async_trait]
impl CredentialProvider for PasswordFile {
    async fn fetch(&self, _: Option<&Server>) -> Result<(Option<String>, Option<String>), Error> {
        // Not as a fault of the settings: after one of these the client never connects again.
        let unread = |_| Error::new(ErrorKind::IO, UNREADABLE_PASSWORD);
        let password = password_in(&self.path).map_err(unread)?;
        Ok((self.username.clone(), Some(password)))
    }
}

/// What the client is told of a file of passwords that is missing, for a moment or for good.
pub(super) const UNREADABLE_PASSWORD: &str = "redis.password_file cannot be read";

fn password_in(path: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST_PASSWORD).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Has neither user nor password. The client takes it for credentials all the same, and sends nothing in their place.
#[derive(Debug)]
struct Nobody;

#[async_trait::async_trait]
impl CredentialProvider for Nobody {
    async fn fetch(&self, _: Option<&Server>) -> Result<(Option<String>, Option<String>), Error> {
        Ok((None, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_not_repeated() {
        let error = Options::new("redis://ad:S3CRET@host:port")
            .client(Duration::from_secs(1), 0)
            .err()
            .unwrap();
        assert!(!error.to_string().contains("S3CRET"));
        assert!(!format!("{:?}", Options::new("redis://ad:S3CRET@host")).contains("S3CRET"));
    }

    #[test]
    fn the_place_is_told_without_user_and_password() {
        for (url, place) in [
            ("redis://ad:S3CRET@h:6390/2", "h:6390"),
            ("redis://h", "h:6379"),
            ("redis-cluster://ad:S3CRET@h:1?node=i:2", "h:1, i:2"),
            ("redis+unix:///run/redis.sock", "/run/redis.sock"),
        ] {
            assert_eq!(Options::new(url).place(), place);
        }
    }

    #[test]
    fn a_ca_file_without_certificates_is_refused() {
        let options =
            Options { ca_file: Some("/dev/null".into()), ..Options::new("rediss://localhost") };
        assert!(matches!(options.client(Duration::from_secs(1), 0), Err(OpenError::CaFile(None))));
    }
}
