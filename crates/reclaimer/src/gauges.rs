//! How much is where, summed over the shards of each queue.

use std::collections::BTreeMap;

use holdfast_core::metrics;
use holdfast_core::model::QueueName;
use holdfast_core::script::DepthReply;

/// What one pass has seen of each queue.
#[derive(Default)]
pub(crate) struct Gauges(BTreeMap<QueueName, Seen>);

#[derive(Default)]
struct Seen {
    homes: [(&'static str, u64); 6],
    age: f64,
    slack: Option<f64>,
    oldest_lease: f64,
    paused: bool,
}

impl Gauges {
    /// Adds one shard.
    pub(crate) fn add(&mut self, queue: &QueueName, depth: &DepthReply) {
        let seen = self.0.entry(queue.clone()).or_default();
        let counts = [
            ("pending", depth.pending),
            ("suspects", depth.suspects),
            ("delayed", depth.delayed),
            ("leased", depth.leased),
            ("finished", depth.finished),
            ("dead", depth.dead),
        ];
        for (home, (word, count)) in seen.homes.iter_mut().zip(counts) {
            *home = (word, home.1 + count);
        }
        let since =
            |time: Option<u64>| time.map_or(0.0, |time| seconds(depth.now.saturating_sub(time)));
        seen.age = seen.age.max(since(depth.head_submitted));
        seen.oldest_lease = seen.oldest_lease.max(since(depth.oldest_claimed));
        seen.paused |= depth.paused;
        if let Some(deadline) = depth.head_deadline {
            // Negative once it is late.
            let slack = seconds(deadline) - seconds(depth.now);
            seen.slack = Some(seen.slack.map_or(slack, |least| least.min(slack)));
        }
    }

    /// Exports them.
    pub(crate) fn tell(self) {
        for (queue, seen) in self.0 {
            let queue = queue.as_str();
            metrics::queue_watched(queue);
            for (home, count) in seen.homes {
                metrics::queue_requests(queue, home, count);
            }
            metrics::head_age(queue, seen.age);
            metrics::head_slack(queue, seen.slack.unwrap_or(0.0));
            metrics::oldest_lease(queue, seen.oldest_lease);
            metrics::queue_paused(queue, seen.paused);
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_summed_and_the_worst_head_counts() {
        let (mut gauges, queue) = (Gauges::default(), QueueName::try_from("q").unwrap());
        let depth = DepthReply {
            pending: 3,
            now: 10_000,
            head_deadline: Some(9_000),
            head_submitted: Some(4_000),
            ..DepthReply::default()
        };
        gauges.add(&queue, &depth);
        gauges.add(
            &queue,
            &DepthReply {
                pending: 2,
                now: 10_000,
                head_deadline: Some(60_000),
                ..DepthReply::default()
            },
        );
        let seen = &gauges.0[&queue];
        assert_eq!(seen.homes[0], ("pending", 5));
        assert_eq!((seen.slack, seen.age), (Some(-1.0), 6.0));
    }
}
