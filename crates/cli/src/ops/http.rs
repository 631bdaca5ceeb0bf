//! The same by a producer's operators' listener, which leaves the audit lines in its own log.

use holdfast_core::model::{Fence, Identity, QueueName};
use holdfast_core::operate::{
    Acted, DeadFilter, DeadLetter, DeadPage, LeaseRow, Overruled, QueueRow, RedriveAsk, Redriven,
    Rows, Seconds, Why, WorkerRow,
};
use holdfast_core::script::Override;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::Api;
use crate::call::{Call, JSON, encoded};
use crate::failure::Failure;

/// How long one call may take beside the usual: one that runs dead letters again takes its time.
const WAIT: std::time::Duration = std::time::Duration::from_secs(60);

/// The most rows of one page.
const PAGE: usize = 1000;

/// The operators' listener.
pub(crate) struct Http(pub(super) Api);

impl Http {
    pub(super) async fn queue_rows(
        &self,
        only: Option<&QueueName>,
    ) -> Result<Vec<QueueRow>, Failure> {
        #[derive(Deserialize)]
        struct Queues {
            queues: Vec<QueueRow>,
        }
        match only {
            Some(queue) => Ok(vec![self.get(format!("queues/{queue}")).await?]),
            None => Ok(self.get::<Queues>("queues".to_owned()).await?.queues),
        }
    }

    pub(super) async fn lease_rows(
        &self,
        only: Option<&QueueName>,
        limit: usize,
    ) -> Result<Rows<LeaseRow>, Failure> {
        let queue = only.map_or_else(String::new, |queue| format!("&queue={queue}"));
        self.get(format!("leases?limit={limit}{queue}")).await
    }

    pub(super) async fn worker_rows(&self) -> Result<Vec<WorkerRow>, Failure> {
        Ok(self.get::<Rows<WorkerRow>>("workers".to_owned()).await?.rows)
    }

    pub(super) async fn why(&self, queue: &QueueName, who: &Identity) -> Result<Why, Failure> {
        self.get(format!("queues/{queue}/why/{}", named(who))).await
    }

    pub(super) async fn dead_rows(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadPage, Failure> {
        let DeadFilter { tenant, outcome, failure, older_seconds, younger_seconds } = filter;
        let number = |it: &Option<u64>| it.map(|it| it.to_string());
        let said = [
            ("tenant", tenant.clone()),
            ("outcome", outcome.clone()),
            ("failure", failure.clone()),
            ("older_seconds", number(older_seconds)),
            ("younger_seconds", number(younger_seconds)),
            ("cursor", cursor.map(str::to_owned)),
        ];
        let said =
            said.into_iter().filter_map(|(name, it)| Some(format!("&{name}={}", encoded(&it?))));
        let said: String = said.collect();
        self.get(format!("queues/{queue}/dead?limit={}{said}", limit.clamp(1, PAGE))).await
    }

    pub(super) async fn dead_letter(
        &self,
        queue: &QueueName,
        who: &Identity,
    ) -> Result<DeadLetter, Failure> {
        self.get(format!("queues/{queue}/dead/letters/{}", named(who))).await
    }

    pub(super) async fn redrive(
        &self,
        queue: &QueueName,
        ask: &RedriveAsk,
    ) -> Result<Redriven, Failure> {
        let body = serde_json::to_value(ask).map_err(|_| UNWRITTEN)?;
        self.send(Method::POST, format!("queues/{queue}/dead/redrive"), body).await
    }

    pub(super) async fn overrule(
        &self,
        queue: &QueueName,
        word: Override,
        (seen, dry_run): (Option<u64>, bool),
    ) -> Result<Overruled, Failure> {
        let (method, what) = match word {
            Override::Paused(true) => (Method::POST, "pause"),
            Override::Paused(false) => (Method::POST, "resume"),
            Override::Limit(_) => (Method::PUT, "limit"),
        };
        let mut body = json!({ "version": seen, "dry_run": dry_run });
        if let Override::Limit(limit) = word {
            body["in_flight"] = json!(limit);
        }
        self.send(method, format!("queues/{queue}/{what}"), body).await
    }

    pub(super) async fn retry_now(
        &self,
        queue: &QueueName,
        who: &Identity,
        (due, dry_run): (Option<u64>, bool),
    ) -> Result<Acted, Failure> {
        let body = json!({ "due": due.map(Seconds), "dry_run": dry_run });
        let path = of_request(queue, "requests", who, "retry-now");
        self.send(Method::POST, path, body).await
    }

    pub(super) async fn release(
        &self,
        queue: &QueueName,
        who: &Identity,
        (fence, dry_run): (Option<Fence>, bool),
    ) -> Result<Acted, Failure> {
        let body = json!({ "fence": fence.map(|it| it.to_string()), "dry_run": dry_run });
        let path = of_request(queue, "leases", who, "release");
        self.send(Method::POST, path, body).await
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, Failure> {
        self.send(Method::GET, path, Value::Null).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Value,
    ) -> Result<T, Failure> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("/v1/ops/{path}");
        let call = Call { method, path, body: body.into(), kind: JSON, wait: WAIT };
        let reply = self.0.send(&call).await?;
        if reply.status != StatusCode::OK {
            return Err(reply.refusal().into());
        }
        serde_json::from_slice(&reply.body).map_err(|_| {
            Failure::Nonsense("an operators' answer of another form: is it another version?")
        })
    }
}

const UNWRITTEN: Failure = Failure::Nonsense("a call that can't be written as JSON");

/// A request in a path, and whose it is.
fn named(who: &Identity) -> String {
    format!("{}?tenant={}", encoded(&who.id.text()), who.tenant)
}

fn of_request(queue: &QueueName, what: &str, who: &Identity, action: &str) -> String {
    format!("queues/{queue}/{what}/{}/{action}?tenant={}", encoded(&who.id.text()), who.tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_segment_of_the_path_whatever_it_is_called() {
        let who = Identity { tenant: "t".try_into().unwrap(), id: "a/b?c".try_into().unwrap() };
        assert_eq!(named(&who), "a%2Fb%3Fc?tenant=t");
        let queue = QueueName::try_from("q").unwrap();
        let path = of_request(&queue, "leases", &who, "release");
        assert_eq!(path, "queues/q/leases/a%2Fb%3Fc/release?tenant=t");
    }
}
