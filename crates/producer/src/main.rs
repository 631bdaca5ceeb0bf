//! `holdfast-producer`: takes requests over HTTP and tells how they ended.

use std::process::ExitCode;

use holdfast_producer::Config;
use holdfast_runtime::{self as runtime, BoxError, Services};

fn main() -> ExitCode {
    runtime::main(Config::read, start)
}

async fn start(config: Config) -> Result<Services, BoxError> {
    let mut services = Services::new();
    let redis = services.open_redis(&config.redis)?;
    services.open_ops(config.ops_listen).await?;
    holdfast_producer::start(&mut services, redis, config).await?;
    Ok(services)
}
