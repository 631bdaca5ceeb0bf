//! The operators' calls: by a producer's operators' listener, or straight at Redis where there is none.

mod direct;
mod http;

use holdfast_core::model::{Fence, Identity, QueueName};
use holdfast_core::operate::{
    Acted, DeadFilter, DeadLetter, DeadPage, LeaseRow, Overruled, QueueRow, RedriveAsk, Redriven,
    Rows, Why, WorkerRow,
};
use holdfast_core::script::Override;

use crate::api::{Api, Flag};
use crate::args::OpsArgs;
use crate::failure::Failure;
use crate::store::Store;
use direct::Direct;
use http::Http;

/// Whom an operator's call goes to. Both mean the same by it.
pub(crate) enum Ops {
    /// Redis.
    Direct(Direct),
    /// A producer.
    Http(Box<Http>),
}

/// The same call by either way.
macro_rules! by_either {
    ($ops:expr, $call:ident($($argument:expr),*)) => {
        match $ops {
            Ops::Direct(direct) => direct.$call($($argument),*).await,
            Ops::Http(http) => http.$call($($argument),*).await,
        }
    };
}

impl Ops {
    /// Starts to connect: to Redis if the command line says where it is, else to a producer.
    pub(crate) fn open(args: &OpsArgs) -> Result<Self, Failure> {
        if args.redis.is_given() {
            let (store, who) = (Store::open(&args.redis)?, args.who.clone());
            return Ok(Self::Direct(Direct { store, who }));
        }
        let api = Api::at((Flag::Operator, &args.operator.0), args.key_file.as_deref())?;
        Ok(Self::Http(Box::new(Http(api))))
    }

    /// The queues, or the one that is asked for.
    pub(crate) async fn queue_rows(
        &self,
        only: Option<&QueueName>,
    ) -> Result<Vec<QueueRow>, Failure> {
        by_either!(self, queue_rows(only))
    }

    /// The names of the queues, or of the one that is asked for.
    pub(crate) async fn queues(&self, only: Option<&QueueName>) -> Result<Vec<QueueName>, Failure> {
        let names = self.queue_rows(only).await?;
        Ok(names.iter().filter_map(|row| QueueName::try_from(row.name.as_str()).ok()).collect())
    }

    /// The leases of the queues, or of the one that is asked for.
    pub(crate) async fn lease_rows(
        &self,
        only: Option<&QueueName>,
        limit: usize,
    ) -> Result<Rows<LeaseRow>, Failure> {
        by_either!(self, lease_rows(only, limit))
    }

    /// The workers.
    pub(crate) async fn worker_rows(&self) -> Result<Vec<WorkerRow>, Failure> {
        by_either!(self, worker_rows())
    }

    /// Why a request is where it is.
    pub(crate) async fn why(&self, queue: &QueueName, who: &Identity) -> Result<Why, Failure> {
        by_either!(self, why(queue, who))
    }

    /// Says something over a queue's settings; only if the override has the version that was seen, if one is named.
    pub(crate) async fn overrule(
        &self,
        queue: &QueueName,
        word: Override,
        seen_and_dry: (Option<u64>, bool),
    ) -> Result<Overruled, Failure> {
        by_either!(self, overrule(queue, word, seen_and_dry))
    }

    /// Pulls a back-off forward; only if it is due then, if a time (ms) is named.
    pub(crate) async fn retry_now(
        &self,
        queue: &QueueName,
        who: &Identity,
        due_and_dry: (Option<u64>, bool),
    ) -> Result<Acted, Failure> {
        by_either!(self, retry_now(queue, who, due_and_dry))
    }

    /// Ends a lease; only that one, if a fence is named.
    pub(crate) async fn release(
        &self,
        queue: &QueueName,
        who: &Identity,
        fence_and_dry: (Option<Fence>, bool),
    ) -> Result<Acted, Failure> {
        by_either!(self, release(queue, who, fence_and_dry))
    }

    /// Dead letters of a queue.
    pub(crate) async fn dead_rows(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadPage, Failure> {
        by_either!(self, dead_rows(queue, filter, cursor, limit))
    }

    /// One dead letter.
    pub(crate) async fn dead_letter(
        &self,
        queue: &QueueName,
        who: &Identity,
    ) -> Result<DeadLetter, Failure> {
        by_either!(self, dead_letter(queue, who))
    }

    /// Counts dead letters, or runs some of them again.
    pub(crate) async fn redrive(
        &self,
        queue: &QueueName,
        ask: &RedriveAsk,
    ) -> Result<Redriven, Failure> {
        by_either!(self, redrive(queue, ask))
    }
}
