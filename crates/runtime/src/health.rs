//! Whether this process can do its job: values in memory, so that a probe never waits for anybody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The health of a process. Clones are the same value.
#[derive(Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Default)]
struct Inner {
    draining: AtomicBool,
    parts: Mutex<BTreeMap<&'static str, Part>>,
    /// Told when the owner of a part has said how it is.
    said: watch::Sender<()>,
}

enum Part {
    /// Its owner says how it is.
    Told(Result<(), String>),
    /// It is asked at each probe.
    Asked(Arc<dyn Fn() -> Result<(), String> + Send + Sync>),
}

impl Health {
    /// A part that is not ready until its owner says so.
    pub fn part(&self, name: &'static str) -> HealthPart {
        self.parts().insert(name, Part::Told(Err("starting".to_owned())));
        HealthPart { name, health: self.clone() }
    }

    /// A part that is asked at each probe. `probe` must answer at once, from memory.
    pub fn watch(
        &self,
        name: &'static str,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.parts().insert(name, Part::Asked(Arc::new(probe)));
    }

    /// Returns once the owner of a part has said that it works, or if there is no such part.
    pub async fn until_ready(&self, name: &str) {
        let mut said = self.0.said.subscribe();
        let waits = || matches!(self.parts().get(name), Some(Part::Told(Err(_))));
        while waits() {
            // The sender lives as long as `self`.
            if said.changed().await.is_err() {
                return;
            }
        }
    }

    fn say(&self, name: &'static str, how: Result<(), String>) {
        self.parts().insert(name, Part::Told(how));
        self.0.said.send_replace(());
    }

    /// From now on nothing new is taken.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Release);
    }

    /// Whether this process is about to end.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Acquire)
    }

    /// Why this process is not ready, part by part. None: it is.
    pub fn reasons(&self) -> BTreeMap<&'static str, String> {
        let mut reasons = BTreeMap::new();
        let mut asked = Vec::new();
        for (name, part) in self.parts().iter() {
            match part {
                Part::Told(Ok(())) => {}
                Part::Told(Err(reason)) => drop(reasons.insert(*name, reason.clone())),
                Part::Asked(probe) => asked.push((*name, Arc::clone(probe))),
            }
        }
        // Asked without the lock: a probe may look at this very value.
        for (name, probe) in asked {
            if let Err(reason) = probe() {
                reasons.insert(name, reason);
            }
        }
        if self.is_draining() {
            reasons.insert("process", "draining".to_owned());
        }
        reasons
    }

    /// Each entry is written as a whole, so the map is sound also after a panic.
    fn parts(&self) -> MutexGuard<'_, BTreeMap<&'static str, Part>> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One part of a process, and the right to say how it is.
pub struct HealthPart {
    name: &'static str,
    health: Health,
}

impl HealthPart {
    /// It works.
    pub fn ready(&self) {
        self.health.say(self.name, Ok(()));
    }

    /// It does not; the reason is shown to whoever asks, so it holds no secret.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.health.say(self.name, Err(reason.into()));
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;

    use tokio::select;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_part_goes_on_when_it_works() {
        let health = Health::default();
        health.until_ready("none").await;
        let redis = health.part("redis");
        let other = health.part("other");
        let mut waiting = pin!(health.until_ready("redis"));
        let mut is_over = async || {
            select! { biased; () = waiting.as_mut() => true, () = ready(()) => false }
        };
        assert!(!is_over().await);
        redis.not_ready("no answer");
        other.ready();
        assert!(!is_over().await);
        redis.ready();
        assert!(is_over().await);
    }

    #[test]
    fn a_part_is_not_ready_until_it_says_so() {
        let health = Health::default();
        assert!(health.reasons().is_empty());
        let redis = health.part("redis");
        assert_eq!(health.reasons()["redis"], "starting");
        redis.ready();
        assert!(health.reasons().is_empty());
        redis.not_ready("no answer for 3s");
        assert_eq!(health.reasons()["redis"], "no answer for 3s");
    }

    #[test]
    fn a_watched_part_is_asked_each_time() {
        let health = Health::default();
        let up = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&up);
        health.watch("redis", move || {
            if seen.load(Ordering::Acquire) { Ok(()) } else { Err("away".to_owned()) }
        });
        assert!(health.reasons().is_empty());
        up.store(false, Ordering::Release);
        assert_eq!(health.reasons()["redis"], "away");
    }

    #[test]
    fn a_draining_process_is_not_ready_however_well_its_parts_are() {
        let health = Health::default();
        health.part("redis").ready();
        health.clone().drain();
        assert_eq!(health.reasons()["process"], "draining");
    }
}
