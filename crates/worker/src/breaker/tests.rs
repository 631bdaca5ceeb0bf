use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const BUSY: Sign = Sign::Busy { reason: "429", asked: None };
const DOWN: Sign = Sign::Unreachable { reason: "connect" };
const SILENT: Sign = Sign::Silent { reason: "attempt-timeout" };
const DEAD: Sign = Sign::Dead { reason: "reset" };

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn rng() -> StdRng {
    StdRng::seed_from_u64(11)
}

/// Calls of one round trip that all begin at `at` and end a while later, each with a sign.
fn round(breaker: &mut Breaker, at: Instant, signs: &[Sign]) -> Vec<bool> {
    let calls: Vec<Call> = signs.iter().map(|_| breaker.begin(at)).collect();
    let mut running = calls.len();
    let mut end = |(call, sign): (Call, &Sign)| {
        running -= 1;
        breaker.end(call, Some(*sign), at + ms(10), running, &mut rng())
    };
    calls.into_iter().zip(signs).map(&mut end).collect()
}

/// A breaker that five refusals in a row have opened at `at`.
fn opened(at: Instant, sign: Sign) -> Breaker {
    let mut breaker = Breaker::new(64);
    round(&mut breaker, at - ms(10), &[sign; 5]);
    assert_eq!(breaker.state(), State::Open);
    breaker
}

#[test]
fn a_target_that_answers_gets_all_that_it_may() {
    let (mut breaker, now) = (Breaker::new(64), Instant::now());
    assert_eq!((breaker.room(now, 10, 4), breaker.state()), (50, State::Closed));
    round(&mut breaker, now, &[Sign::Answered; 64]);
    assert_eq!((breaker.allowed(), breaker.begin(now).patience), (64, None));
}

#[test]
fn a_burst_that_is_refused_halves_once_and_the_next_round_trip_again() {
    let (mut breaker, now) = (Breaker::new(64), Instant::now());
    assert_eq!(round(&mut breaker, now, &[BUSY; 4]), [true, false, false, false]);
    assert_eq!((breaker.allowed(), breaker.state()), (32, State::Limited));
    round(&mut breaker, now + ms(20), &[Sign::Answered, BUSY, BUSY]);
    assert_eq!(breaker.allowed(), 16);
    assert_eq!(breaker.reason(), "429");
}

#[test]
fn it_is_a_call_or_two_at_worst_as_long_as_answers_come_between() {
    let (mut breaker, mut now) = (Breaker::new(8), Instant::now());
    for _ in 0..20 {
        round(&mut breaker, now, &[BUSY, Sign::Answered]);
        now += ms(20);
    }
    assert_eq!((breaker.room(now, 0, 0), breaker.state()), (2, State::Limited));
}

#[test]
fn answers_add_a_part_each_round_trip_until_all_is_allowed_again() {
    let (mut breaker, mut now) = (Breaker::new(64), Instant::now());
    round(&mut breaker, now, &[BUSY]);
    let mut rounds = Vec::new();
    while breaker.state() == State::Limited {
        now += ms(20);
        let answers = vec![Sign::Answered; breaker.allowed()];
        round(&mut breaker, now, &answers);
        rounds.push(breaker.allowed());
    }
    assert!(rounds.windows(2).all(|two| two[1] > two[0]), "{rounds:?}");
    assert!((10..=25).contains(&rounds.len()), "{rounds:?}");
}

/// Ends the next probe as soon as it may go: when that was.
fn probe(breaker: &mut Breaker, sign: Option<Sign>) -> Instant {
    let due = breaker.opens_at().unwrap();
    let probe = breaker.begin(due);
    assert!(probe.is_probe());
    assert!(!breaker.end(probe, sign, due, 0, &mut rng()));
    due
}

#[test]
fn refusals_in_a_row_leave_a_probe_with_pauses_that_grow() {
    let now = Instant::now();
    for sign in [BUSY, DOWN, SILENT] {
        let mut breaker = opened(now, sign);
        assert_eq!((breaker.room(now, 0, 0), breaker.allowed()), (0, 0));
        let mut pauses = Vec::new();
        let mut at = now;
        while at - now < Duration::from_secs(20) {
            let due = breaker.opens_at().unwrap();
            pauses.push(due - at);
            assert_eq!(breaker.room(due - ms(1), 0, 0), 0);
            assert_eq!(breaker.room(due, 0, 0), 1);
            assert_eq!(breaker.room(due, 0, 1), 0, "a claim may bring it");
            let probe = breaker.begin(due);
            assert_eq!((breaker.room(due, 1, 0), breaker.opens_at()), (0, None), "it is out");
            assert!(!breaker.end(probe, Some(sign), due + ms(5), 0, &mut rng()));
            at = due + ms(5);
        }
        assert!(pauses[0] >= SHORTEST_PAUSE * 3 / 4 && pauses[0] < SHORTEST_PAUSE, "{pauses:?}");
        let last = pauses[pauses.len() - 1];
        assert!(last >= LONGEST_PAUSE * 3 / 4 && last < LONGEST_PAUSE, "{pauses:?}");
        assert!(pauses.len() < 24, "{pauses:?}");
    }
}

#[test]
fn what_a_target_asks_for_is_granted_once_refusals_have_lasted_but_not_for_hours() {
    let asked = |seconds: [u64; 5]| {
        let mut breaker = Breaker::new(64);
        let now = Instant::now();
        let busy = |seconds| Sign::Busy {
            reason: "503",
            asked: (seconds > 0).then_some(Duration::from_secs(seconds)),
        };
        round(&mut breaker, now, &seconds.map(busy));
        let first = breaker.opens_at().unwrap() - now;
        assert!(first < ms(100), "others are due before that");
        let mut before = now;
        while before - now < LASTING {
            before = probe(&mut breaker, Some(busy(seconds[4])));
        }
        breaker.opens_at().unwrap() - before
    };
    assert_eq!(asked([20; 5]), Duration::from_secs(20));
    assert_eq!(asked([86_400; 5]), LONGEST_WISH);
    assert_eq!(asked([9, 4, 30, 7, 8]), Duration::from_secs(4), "all asked for that");
    assert!(asked([9, 9, 0, 9, 9]) < LONGEST_PAUSE, "one did not ask");
    assert!(asked([0; 5]) < LONGEST_PAUSE);
}

#[test]
fn a_row_of_silence_leaves_a_probe_and_a_silent_call_among_answers_changes_nothing() {
    let (mut breaker, start) = (Breaker::new(64), Instant::now());
    let hour = Duration::from_secs(3600);
    let calls: Vec<Call> = (0..10).map(|_| breaker.begin(start)).collect();
    for (at, call) in calls.into_iter().enumerate() {
        let sign = if at % 5 == 4 { Sign::Answered } else { SILENT };
        assert!(!breaker.end(call, Some(sign), start + hour, 9 - at, &mut rng()));
    }
    assert_eq!((breaker.state(), breaker.allowed()), (State::Closed, 64));
    let calls: Vec<Call> = (0..5).map(|_| breaker.begin(start + hour)).collect();
    for call in calls {
        breaker.end(call, Some(SILENT), start + 2 * hour, 0, &mut rng());
    }
    assert_eq!((breaker.state(), breaker.reason()), (State::Open, "attempt-timeout"));
    // To be out for a moment is no sign of life: it must be answered.
    let due = breaker.opens_at().unwrap();
    assert!(breaker.begin(due).patience.unwrap() > hour);
}

#[test]
fn a_probe_whose_deadline_comes_before_silence_can_be_told_closes_the_breaker() {
    let now = Instant::now();
    let mut breaker = opened(now, SILENT);
    let due = breaker.opens_at().unwrap();
    let short = breaker.begin(due);
    breaker.end(short, None, due + QUIET / 2, 0, &mut rng());
    assert_eq!(breaker.state(), State::Open, "it was hardly out");
    let due = breaker.opens_at().unwrap();
    let long = breaker.begin(due);
    breaker.end(long, None, due + QUIET, 0, &mut rng());
    assert_eq!((breaker.state(), breaker.allowed()), (State::Limited, 2));
    assert_eq!(breaker.begin(due).patience, Some(QUIET));

    let mut breaker = opened(now, DOWN);
    let due = breaker.opens_at().unwrap();
    let probe = breaker.begin(due);
    breaker.end(probe, None, due + 2 * QUIET, 0, &mut rng());
    assert_eq!(breaker.state(), State::Open, "it may never have had a connection");
}

/// What a dead connection of HTTP/2 carried ends at one moment, so no answer can come between.
#[test]
fn one_dead_connection_opens_nothing_while_others_are_answered() {
    let (mut breaker, start) = (Breaker::new(64), Instant::now());
    let dead: Vec<Call> = (0..6).map(|_| breaker.begin(start)).collect();
    let other = breaker.begin(start + ms(50_000));
    breaker.end(other, Some(Sign::Answered), start + ms(55_000), 6, &mut rng());
    for call in dead {
        assert!(!breaker.end(call, Some(DEAD), start + ms(60_000), 0, &mut rng()));
    }
    assert_eq!((breaker.state(), breaker.allowed()), (State::Closed, 64));
}

#[test]
fn a_target_whose_connections_die_while_it_answers_nobody_leaves_a_probe() {
    let (mut breaker, start) = (Breaker::new(64), Instant::now());
    let dead: Vec<Call> = (0..5).map(|_| breaker.begin(start)).collect();
    // The last that it said before it hung, by another connection than the first to be asked.
    let other = breaker.begin(start);
    breaker.end(other, Some(Sign::Answered), start + ms(9000), 5, &mut rng());
    for call in dead {
        breaker.end(call, Some(DEAD), start + ms(60_000), 0, &mut rng());
    }
    assert_eq!((breaker.state(), breaker.reason()), (State::Open, "reset"));
}

#[test]
fn a_probe_on_a_dead_connection_says_nothing_while_others_are_answered() {
    for (answered, state) in [(true, State::Limited), (false, State::Open)] {
        let now = Instant::now();
        let mut breaker = Breaker::new(64);
        let old = breaker.begin(now - ms(20));
        round(&mut breaker, now - ms(10), &[SILENT; 5]);
        let due = breaker.opens_at().unwrap();
        let probe = breaker.begin(due);
        let sign = answered.then_some(Sign::Answered);
        breaker.end(old, sign, due + ms(55_000), 1, &mut rng());
        assert_eq!(breaker.state(), State::Open);
        breaker.end(probe, Some(DEAD), due + ms(60_000), 0, &mut rng());
        assert_eq!(breaker.state(), state);
    }
}

#[test]
fn a_probe_waits_for_no_call_from_before_and_those_do_not_close_the_breaker() {
    let now = Instant::now();
    let mut breaker = Breaker::new(64);
    let old = breaker.begin(now - ms(20));
    round(&mut breaker, now - ms(10), &[BUSY; 5]);
    let due = breaker.opens_at().unwrap();
    assert_eq!(breaker.room(due, 40, 0), 1, "40 are still out");
    breaker.end(old, Some(Sign::Answered), due, 39, &mut rng());
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn a_probe_that_is_answered_closes_it_and_what_is_allowed_doubles_with_each_round() {
    let now = Instant::now();
    let mut breaker = opened(now, BUSY);
    let mut at = breaker.opens_at().unwrap();
    let probe = breaker.begin(at);
    breaker.end(probe, Some(Sign::Answered), at, 0, &mut rng());
    let mut rounds = vec![breaker.allowed()];
    while breaker.state() == State::Limited {
        at += ms(20);
        let answers = vec![Sign::Answered; breaker.allowed()];
        round(&mut breaker, at, &answers);
        rounds.push(breaker.allowed());
    }
    assert_eq!(rounds, [2, 4, 8, 16, 32, 64]);
}

#[test]
fn a_probe_that_says_nothing_is_followed_by_another_after_a_pause() {
    let now = Instant::now();
    let mut breaker = opened(now, DOWN);
    let due = breaker.opens_at().unwrap();
    let probe = breaker.begin(due);
    breaker.end(probe, None, due, 0, &mut rng());
    assert_eq!(breaker.state(), State::Open);
    let again = breaker.opens_at().unwrap();
    assert!(again > due && again < due + SHORTEST_PAUSE);
}

#[test]
fn a_call_that_is_out_for_long_counts_as_taken_once() {
    let now = Instant::now();
    let mut breaker = opened(now, BUSY);
    let due = breaker.opens_at().unwrap();
    let mut probe = breaker.begin(due);
    assert_eq!(probe.patience, Some(QUIET));
    breaker.taken(&mut probe, due + QUIET, 1);
    assert_eq!((breaker.state(), breaker.allowed()), (State::Limited, 3), "it and two more");
    breaker.taken(&mut probe, due + QUIET, 1);
    breaker.end(probe, Some(Sign::Answered), due + 60 * QUIET, 0, &mut rng());
    assert_eq!(breaker.allowed(), 3, "it has been counted");
}

#[test]
fn who_refuses_late_is_waited_for_longer() {
    let now = Instant::now();
    let mut breaker = Breaker::new(64);
    let late: Vec<Call> = (0..5).map(|_| breaker.begin(now)).collect();
    for call in late {
        breaker.end(call, Some(BUSY), now + ms(5000), 0, &mut rng());
    }
    assert_eq!(breaker.begin(now + ms(9000)).patience, Some(ms(10_000)));
}

/// Fresh requests that come one after another, each refused once and due again after its own wait.
#[test]
fn requests_refused_once_in_a_burst_are_called_again_soon_after_they_are_due() {
    for (gap, count) in [(3, 26), (10, 26), (25, 40), (2, 100)] {
        let (mut breaker, mut rng, start) = (Breaker::new(64), rng(), Instant::now());
        // When each is due, and whether it was refused before. In the order of their deadlines.
        let waits = [3000, 700, 2000, 3500, 600, 900, 800, 4000, 700, 500];
        let mut requests: Vec<_> = (0..count).map(|n| (n as u64 * gap, false)).collect();
        let mut late = Vec::new();
        for at in 0..60_000 {
            let now = start + ms(at);
            // One a millisecond: a claim and a call take as long.
            if breaker.room(now, 0, 0) > 0
                && let Some(place) = requests.iter().position(|it| it.0 <= at)
            {
                let call = breaker.begin(now);
                let (due, again) = requests[place];
                let sign = if again { Sign::Answered } else { BUSY };
                breaker.end(call, Some(sign), now + ms(1), 0, &mut rng);
                if again {
                    late.push(at - due);
                    requests.remove(place);
                } else {
                    requests[place] = (at + waits[place % waits.len()], true);
                }
            }
        }
        assert_eq!(late.len(), count);
        let latest = late.iter().max().unwrap();
        assert!(*latest < 900, "{count} each {gap} ms: {latest} ms late");
    }
}

/// A target, and a backlog that never ends, in virtual time.
struct Run {
    breaker: Breaker,
    rng: StdRng,
    start: Instant,
    /// When each ends, what it then says, and when it will have been quiet for long enough.
    out: Vec<(u64, Sign, Call, Option<u64>)>,
    /// When calls began.
    began: Vec<u64>,
}

impl Run {
    fn new() -> Self {
        let (breaker, rng) = (Breaker::new(64), StdRng::seed_from_u64(5));
        Self { breaker, rng, start: Instant::now(), out: Vec::new(), began: Vec::new() }
    }

    /// Goes on until `end` (ms); `target` says how long a call that begins at a time takes, and how it ends.
    fn until(&mut self, from: u64, end: u64, target: impl Fn(u64, usize) -> (u64, Sign)) {
        for at in from..end {
            let now = self.start + ms(at);
            let (over, out) = self.out.drain(..).partition::<Vec<_>, _>(|call| call.0 <= at);
            self.out = out;
            for (left, (_, sign, call, _)) in over.iter().enumerate() {
                let running = self.out.len() + over.len() - left - 1;
                self.breaker.end(*call, Some(*sign), now, running, &mut self.rng);
            }
            let running = self.out.len();
            for (_, _, call, quiet) in self.out.iter_mut().filter(|call| call.3 == Some(at)) {
                self.breaker.taken(call, now, running);
                *quiet = None;
            }
            while self.out.len() < 64 && self.breaker.room(now, self.out.len(), 0) > 0 {
                let call = self.breaker.begin(now);
                let (takes, sign) = target(at, self.began.len());
                let quiet = call.patience.map(|patience| at + patience.as_millis() as u64);
                self.out.push((at + takes, sign, call, quiet.filter(|quiet| *quiet < at + takes)));
                self.began.push(at);
            }
        }
    }

    fn began_within(&self, from: u64, to: u64) -> usize {
        self.began.iter().filter(|at| (from..to).contains(at)).count()
    }
}

#[test]
fn a_storm_of_refusals_is_met_by_a_tenth_of_the_calls_and_soon_forgotten() {
    for latency in [5, 50, 500, 1000] {
        let mut run = Run::new();
        run.until(0, 10_000, |_, _| (latency, Sign::Answered));
        run.until(10_000, 40_000, |_, _| (1, BUSY));
        run.until(40_000, 70_000, |_, _| (latency, Sign::Answered));
        let (before, storm) = (run.began_within(0, 10_000), run.began_within(10_000, 40_000) / 3);
        assert!(storm * 10 <= before, "{latency} ms: {before} before, {storm} in the storm");
        let after = run.began_within(50_000, 60_000);
        assert!(after * 100 >= before * 98, "{latency} ms: {before} before, {after} after");
    }
}

#[test]
fn a_target_whose_answers_need_minutes_gets_all_its_calls_within_ten_seconds() {
    let mut run = Run::new();
    run.until(0, 5_000, |_, _| (1, BUSY));
    run.until(5_000, 15_000, |_, _| (300_000, Sign::Answered));
    assert_eq!(run.out.len(), 64);
}

#[test]
fn a_target_that_refuses_every_other_call_still_gets_on() {
    let mut run = Run::new();
    run.until(0, 30_000, |_, number| {
        (20, if number.is_multiple_of(2) { BUSY } else { Sign::Answered })
    });
    let calls = run.began_within(10_000, 30_000);
    assert!(calls > 20 * 20, "{calls} calls in 20 s");
    assert!(calls < 20 * 3200 / 10, "{calls} calls in 20 s: it is not spared");
}

#[test]
fn a_target_that_refuses_nine_of_ten_gets_all_its_calls_soon_after() {
    for latency in [5, 50, 500] {
        let mut run = Run::new();
        let ninth = |number: usize| if number.is_multiple_of(10) { Sign::Answered } else { BUSY };
        run.until(0, 20_000, |_, number| (latency, ninth(number)));
        run.until(20_000, 40_000, |_, _| (latency, Sign::Answered));
        let (calls, most) = (run.began_within(30_000, 40_000), 640_000 / latency as usize);
        assert!(calls * 100 >= most * 98, "{latency} ms: {calls} of {most}");
    }
}

#[test]
fn a_refusal_now_and_then_costs_little() {
    let mut run = Run::new();
    run.until(0, 30_000, |_, number| {
        (20, if number % 1000 == 999 { BUSY } else { Sign::Answered })
    });
    let (calls, most) = (run.began_within(0, 30_000), 30 * 50 * 64);
    assert!(calls * 10 > most * 7, "{calls} of {most}");
}
