//! Who waits for the end of which generation, and how they are woken.
//!
//! A wake-up is a hint: whoever waits reads the state itself, and looks again from time to time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::model::{Generation, Key};
use tokio::sync::oneshot;

/// Key and generation, as a message of the `ended` channel names them.
const NAME: usize = 24;

/// The generations that somebody waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// Who waits for what.
    callers: HashMap<[u8; NAME], HashMap<u64, oneshot::Sender<()>>>,
    /// Numbers the callers.
    last: u64,
}

impl Ended {
    /// Waits from now on: what ends after this call is not missed.
    pub(crate) fn watch(&self, key: Key, generation: Generation) -> Watch {
        let name = name_of(key, generation);
        let (sender, woken) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.callers.entry(name).or_default().insert(number, sender);
        Watch { ended: self.clone(), name, number, woken }
    }

    /// Wakes all who wait for what the message names; what is no whole name is passed over.
    pub(crate) fn wake(&self, message: &[u8]) {
        let mut waiting = self.lock();
        for name in message.as_chunks().0 {
            for (_, caller) in waiting.callers.remove(name).into_iter().flatten() {
                // A caller that just left needs no waking.
                let _ = caller.send(());
            }
        }
    }

    /// Wakes all: something may have ended that nobody told.
    pub(crate) fn wake_all(&self) {
        for caller in self.lock().callers.drain().flat_map(|(_, callers)| callers.into_values()) {
            // A caller that just left needs no waking.
            let _ = caller.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every change is one insert or one removal: the maps are whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name_of(key: Key, generation: Generation) -> [u8; NAME] {
    let mut name = [0; NAME];
    name[..16].copy_from_slice(key.as_bytes());
    name[16..].copy_from_slice(generation.as_bytes());
    name
}

/// One caller's place; dropped, it waits no more.
#[derive(Debug)]
pub(crate) struct Watch {
    ended: Ended,
    name: [u8; NAME],
    number: u64,
    woken: oneshot::Receiver<()>,
}

impl Watch {
    /// Whether this is what it waits for.
    pub(crate) fn is_for(&self, generation: Generation) -> bool {
        self.name.ends_with(generation.as_bytes())
    }

    /// Comes back when the end was told, also if that was before.
    pub(crate) async fn woken(&mut self) {
        if !self.woken.is_terminated() && (&mut self.woken).await.is_ok() {
            return;
        }
        // Told once: after that only the caller's own look can say more.
        std::future::pending().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut waiting = self.ended.lock();
        if let Some(callers) = waiting.callers.get_mut(&self.name) {
            callers.remove(&self.number);
            if callers.is_empty() {
                waiting.callers.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);
    const SHORT: Duration = Duration::from_millis(20);

    fn name(letter: u8) -> [u8; NAME] {
        [letter; NAME]
    }

    fn watch(ended: &Ended, letter: u8) -> Watch {
        ended.watch(Key::from([letter; 16]), Generation::from([letter; 8]))
    }

    #[tokio::test]
    async fn all_who_wait_for_one_end_are_woken_and_nobody_else() {
        let ended = Ended::default();
        let mut watches = [watch(&ended, 1), watch(&ended, 1), watch(&ended, 2)];
        let mut other = watch(&ended, 3);
        ended.wake(&[name(1), name(2)].concat());
        for watch in &mut watches {
            timeout(SOON, watch.woken()).await.unwrap();
        }
        assert!(timeout(SHORT, other.woken()).await.is_err());
    }

    #[tokio::test]
    async fn an_end_that_is_told_before_the_wait_begins_is_not_missed() {
        let ended = Ended::default();
        let mut watch = watch(&ended, 1);
        ended.wake(&name(1));
        timeout(SOON, watch.woken()).await.unwrap();
        assert!(timeout(SHORT, watch.woken()).await.is_err(), "and is told once");
    }

    #[tokio::test]
    async fn all_are_woken_when_something_may_have_been_missed() {
        let ended = Ended::default();
        let mut watches = [watch(&ended, 1), watch(&ended, 2)];
        ended.wake_all();
        for watch in &mut watches {
            timeout(SOON, watch.woken()).await.unwrap();
        }
        assert!(ended.lock().callers.is_empty());
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let ended = Ended::default();
        let (first, second) = (watch(&ended, 1), watch(&ended, 1));
        drop(first);
        assert_eq!(ended.lock().callers[&name(1)].len(), 1);
        drop(second);
        assert!(ended.lock().callers.is_empty());
    }

    #[test]
    fn a_message_of_another_shape_harms_nobody() {
        let ended = Ended::default();
        let _watch = watch(&ended, 1);
        ended.wake(b"");
        ended.wake(&[1; NAME - 1]);
        ended.wake(&[[2; NAME].as_slice(), &[1; 5]].concat());
        assert_eq!(ended.lock().callers.len(), 1);
    }
}
