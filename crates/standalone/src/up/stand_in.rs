//! The stand-in beside the roles, on a runtime of its own: it still answers while they drain.

use std::io;

use holdfast_stand_in::{Keep, Options, StandIn};
use tokio::runtime::{Builder, Runtime};

/// How many arrivals can be looked at afterwards.
const KEPT: usize = 100;

/// A running stand-in. Dropped, it is gone.
pub(crate) struct Aside {
    stand_in: StandIn,
    // Dropped after what runs on it.
    _runtime: Runtime,
}

impl Aside {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("stand-in")
            .enable_all()
            .build()?;
        let options = Options { keep: Keep::Last(KEPT), ..Options::default() };
        let stand_in = runtime.block_on(StandIn::start(options))?;
        Ok(Self { stand_in, _runtime: runtime })
    }

    pub(crate) fn url(&self) -> String {
        self.stand_in.url()
    }
}
