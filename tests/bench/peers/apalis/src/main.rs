//! One phase of apalis over Redis, told in one line of JSON: `peer-apalis PHASE PORT JOBS BODY ANSWER CALLS`.
//!
//! - add: jobs by `push_bulk` in batches of 64, so many calls at once: one script a batch.
//! - process: one worker that fetches batches of 64; what is done is told in batches too. Then one `vacuum`, which deletes the
//!   answers and whatever else is left of the jobs.
//!
//! Tasks are not locked one by one and no events are published: both are faster without, and a worker still holds what it fetched
//! in a set of its own, from which another takes it back when its heartbeats end.
#![expect(clippy::expect_used, reason = "a bench that can't measure ends and says what failed")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use apalis_core::backend::{TaskSink, Vacuum};
use apalis_core::error::BoxDynError;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_core::worker::context::WorkerContext;
use apalis_redis::{Config, RedisStorage};
use futures_util::future::join_all;

/// Jobs in one batch.
const BATCH: usize = 64;

type Storage = RedisStorage<String>;

/// What is to be done.
struct Plan {
    jobs: usize,
    body: String,
    answer: String,
    /// Calls at once that add.
    calls: usize,
}

// One thread, as the bench itself has.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [phase, port, jobs, body, answer, calls] = words.as_slice() else {
        panic!("a phase, a port, a number of jobs, two sizes and a number of calls")
    };
    let number = |word: &String| word.parse::<usize>().expect("a number");
    let plan = Plan {
        jobs: number(jobs),
        body: "a".repeat(number(body)),
        answer: "b".repeat(number(answer)),
        calls: number(calls),
    };
    let url = format!("redis://127.0.0.1:{port}");
    let connection = apalis_redis::connect(url).await.expect("Redis is there");
    let config = Config::default().queue("bench").batch_size(BATCH).emit_events(false);
    let storage = Storage::new(connection).with_config(config.lock_tasks(false));
    let seconds = match phase.as_str() {
        "add" => plan.add(storage).await,
        "process" => plan.process(storage).await,
        other => panic!("no phase {other}"),
    };
    println!(r#"{{"phase":"{phase}","jobs":{jobs},"seconds":{seconds},"version":"1.0.0"}}"#);
}

impl Plan {
    /// Adds all jobs; seconds.
    async fn add(&self, storage: Storage) -> f64 {
        let sizes = (0..self.jobs).step_by(BATCH).map(|from| BATCH.min(self.jobs - from));
        let batches: Vec<_> = sizes.map(|size| vec![self.body.clone(); size]).collect();
        let left = Mutex::new(batches.into_iter());
        let next = || left.lock().expect("nobody panics with it").next();
        let call = |mut storage: Storage| async move {
            while let Some(batch) = next() {
                storage.push_bulk(batch).await.expect("jobs are taken");
            }
        };
        let began = Instant::now();
        join_all((0..self.calls).map(|_| call(storage.clone()))).await;
        began.elapsed().as_secs_f64()
    }

    /// Processes all jobs and deletes what is left of them; seconds.
    async fn process(&self, mut storage: Storage) -> f64 {
        let done = Arc::new(AtomicUsize::new(0));
        let (jobs, answer) = (self.jobs, self.answer.clone());
        let answered = move |_: String, worker: WorkerContext| {
            let (done, answer) = (Arc::clone(&done), answer.clone());
            async move {
                if done.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                    worker.stop()?;
                }
                Ok::<_, BoxDynError>(answer)
            }
        };
        // One that ended a moment ago is taken for alive: no two are called the same.
        let name = format!("worker-{}", std::process::id());
        let worker = WorkerBuilder::new(name.as_str()).backend(storage.clone()).build(answered);
        let began = Instant::now();
        worker.run().await.expect("a worker");
        let deleted = storage.vacuum().await.expect("a vacuum");
        assert_eq!(deleted, jobs, "each job was done");
        began.elapsed().as_secs_f64()
    }
}
