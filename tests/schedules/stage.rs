//! The roles of a play, as they are shipped, over its Redis and its gateway.

use std::path::Path;

use holdfast_core::Redis;
use holdfast_reclaimer::Reclaimer;
use holdfast_runtime::{Environment, Services, Settings, Stop};
use holdfast_worker::RenewOn;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    gateway,
    mind::{self, At},
    redis,
    world::{Actor, Shared},
};

/// How leases are in a play, in ms.
pub(crate) const LEASE: At = 15_000;
/// How long a drain may take, and what is left of the grace period for handing back.
const DRAIN: At = 12_000;
const HAND_BACK: At = 17_000;

/// Where a play is played.
pub(crate) struct Stage {
    world: Shared,
    workers: Vec<Worker>,
    /// The reclaimer, the server and the gateway.
    others: JoinSet<()>,
}

struct Worker {
    stop: Stop,
    tasks: JoinSet<Result<(), String>>,
}

impl Stage {
    /// Starts everything; sockets lie in `folder`.
    pub(crate) async fn set(world: &Shared, folder: &Path, slots: &[usize], breaker: bool) -> Self {
        let mut others = JoinSet::new();
        let (late, delayed) = mpsc::unbounded_channel();
        others.spawn(redis::run_late(world.clone(), delayed));
        let gateway = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = gateway.local_addr().expect("a port").port();
        others.spawn(gateway::listen(world.clone(), gateway));
        let mut listen = |actor: Actor| {
            let path = folder.join(actor.name());
            let listener = UnixListener::bind(&path).expect("a socket");
            others.spawn(redis::listen(world.clone(), actor, listener, late.clone()));
            path
        };
        let mut workers = Vec::new();
        for (at, slots) in slots.iter().enumerate() {
            let socket = listen(Actor::Worker(at));
            let settings = settings(&socket, at, *slots, port, breaker);
            workers.push(Worker::start(world, at, &settings));
        }
        let settings = settings(&listen(Actor::Reclaimer), 0, 1, port, breaker);
        let config = holdfast_reclaimer::Config::read(&settings).expect("settings");
        let redis = Redis::open((&config.redis).into()).expect("a client");
        others.spawn(async {
            let _ = Reclaimer::new(redis, config).run(CancellationToken::new()).await;
        });
        Self { world: world.clone(), workers, others }
    }

    /// Tells a worker to stop.
    pub(crate) fn stop(&self, worker: usize) {
        let mut world = self.world.lock();
        let at = world.now();
        if world.minds[worker].stopped().is_none() {
            world.tell(|| format!("w{worker} is told to stop"));
            world.minds[worker].stop(mind::Stop { at, by: at + DRAIN + HAND_BACK, stalled: false });
            self.workers[worker].stop.drain.cancel();
        }
    }

    /// Waits until a worker that was told to stop has ended.
    pub(crate) async fn ended(&mut self, worker: usize) -> Result<(), String> {
        match self.workers[worker].tasks.join_next().await {
            Some(Ok(Err(_))) if self.has_stalled(worker) => Ok(()),
            Some(Ok(ended)) => ended.map_err(|why| format!("w{worker} ended badly: {why}")),
            Some(Err(panicked)) => Err(format!("w{worker} panicked: {panicked}")),
            None => Ok(()),
        }
    }

    fn has_stalled(&self, worker: usize) -> bool {
        self.world.lock().minds[worker].stopped().is_some_and(|stop| stop.stalled)
    }

    /// Whether everybody is there who should be.
    pub(crate) fn is_whole(&mut self) -> Result<(), String> {
        if let Some(ended) = self.others.try_join_next() {
            return Err(format!("the reclaimer or the stage has ended: {ended:?}"));
        }
        for (at, worker) in self.workers.iter_mut().enumerate() {
            if !worker.stop.drain.is_cancelled()
                && let Some(ended) = worker.tasks.try_join_next()
            {
                return Err(format!("w{at} ended by itself: {ended:?}"));
            }
        }
        Ok(())
    }
}

impl Worker {
    fn start(world: &Shared, at: usize, settings: &Settings) -> Self {
        let (mut services, stop) = (Services::new(), Stop::default());
        let config = holdfast_worker::Config::read(settings).expect("settings");
        let config = config.renewing_on(RenewOn::WorkersRuntime);
        let redis = services.open_redis(&config.redis).expect("a client");
        holdfast_worker::spawn(&mut services, redis, config).expect("a worker");
        let (mut tasks, told, world) = (JoinSet::new(), stop.clone(), world.clone());
        tasks.spawn(async move {
            let ended = services.run(&told).await.map_err(|why| why.to_string());
            world.lock().minds[at].ends();
            ended
        });
        Self { stop, tasks }
    }
}

fn settings(socket: &Path, worker: usize, slots: usize, port: u16, breaker: bool) -> Settings {
    let text = format!(
        "[redis]\nurl = \"redis+unix://{}\"\n\
        [worker]\nname = \"w{worker}\"\nconcurrency = {slots}\nlease = \"{LEASE}ms\"\ndrain = \"{DRAIN}ms\"\n\
        [reclaimer]\nevery = \"3s\"\n\
        [queues.q]\ntarget = \"http://127.0.0.1:{port}\"\npath = \"/w{worker}\"\nbreaker = {breaker}\n",
        socket.display()
    );
    let environment = Environment::new(std::iter::empty::<(String, String)>());
    Settings::load(&text, &environment).expect("settings")
}
