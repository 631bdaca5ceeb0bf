//! A stand-in as a process of its own: `cargo run -p holdfast-stand-in --example serve -- 127.0.0.1:9901`.

use std::error::Error;

use holdfast_stand_in::{Keep, Options, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: serve ADDRESS")?;
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    let options = Options { keep: Keep::Last(1000), ..Options::default() };
    Ok(serve(listener, options, CancellationToken::new()).await?)
}
