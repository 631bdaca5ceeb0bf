//! The gateway has its bad moments.

use std::time::Duration;

use holdfast_testkit::stand_in::{Arrival, How, Rule, Trickle};
use tokio::time::sleep;

use super::Kind;
use crate::dice::Dice;
use crate::stage::Stage;

/// How long one lasts.
const LASTS: Duration = Duration::from_millis(1_200);

pub(super) async fn happen(kind: Kind, stage: &Stage, dice: &mut Dice) -> u64 {
    let before = stage.gateway.counts().arrived;
    let every = |rule: Rule, every: u64| {
        let mut rule = rule;
        rule.when.every = Some(every);
        rule
    };
    // Not all calls: with few attempts left, what is refused throughout ends with the refusal.
    let rule = match kind {
        Kind::Refusals => {
            let mut rule = every(Rule::new().status(429), 2);
            rule.headers.insert("retry-after".to_owned(), dice.of(&["0", "1"]).to_owned());
            rule
        }
        Kind::Unavailable => every(Rule::new().status(503), 2),
        Kind::Resets => {
            let bytes = dice.of(&[0, 1, 40]);
            every(Rule { cut_after_bytes: Some(bytes), ..Rule::new() }, 2)
        }
        _ => {
            // Some 500 bytes: longer than a lease.
            let trickle = Some(Trickle { bytes: 40, every_ms: 200 });
            every(Rule { trickle, ..Rule::new() }, 4)
        }
    };
    stage.gateway.script(vec![rule]).expect("a script");
    sleep(LASTS).await;
    stage.gateway.script(Vec::new()).expect("an empty script");
    let met = |it: &&Arrival| {
        let Some(end) = &it.end else { return kind == Kind::Trickles };
        match kind {
            Kind::Refusals => end.status == Some(429),
            Kind::Unavailable => end.status == Some(503),
            Kind::Resets => end.how == How::Cut,
            _ => end.since_start.saturating_sub(it.since_start) > Duration::from_secs(1),
        }
    };
    let latest = stage.latest();
    latest.iter().filter(|it| it.number > before).filter(met).count() as u64
}
