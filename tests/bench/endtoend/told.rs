//! The measurements as rows.

use super::{IN_FLIGHT, SIDES, Side, Turn};
use crate::report::{Row, median};

/// What is to be reached of the straight call, and of the forwarder.
const OF_STRAIGHT: f64 = 0.15;
const OF_FORWARDER: f64 = 0.3;

/// What is to be reached in requests a second, where the forwarder does so many.
const RATE: f64 = 15_000.0;
const WHERE_FORWARDER_DOES: f64 = 35_000.0;

/// Who calls, as the rows name it.
const CLIENT: &str = "the client";

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Straight => "straight to the gateway",
            Self::Forwarder => "through a bare forwarder",
            Self::Waiting => "by Prefer: wait",
        }
    }
}

/// All turns.
struct Turns<'a>(&'a [Turn]);

impl Turns<'_> {
    fn of(&self, side: Side, in_flight: u32) -> impl Iterator<Item = &Turn> {
        self.0.iter().filter(move |turn| turn.side == side && turn.in_flight == in_flight)
    }

    /// Round by round.
    fn rates(&self, side: Side, in_flight: u32) -> Vec<f64> {
        self.of(side, in_flight).map(|turn| turn.called.rate).collect()
    }

    /// Where a side is at its best.
    fn best(&self, side: Side) -> u32 {
        let rate = |in_flight: &u32| median(&self.rates(side, *in_flight));
        let best = IN_FLIGHT.into_iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
        best.expect("something is in flight")
    }

    /// What a request takes of each process where a side is at its best, in µs.
    fn costs(&self, side: Side) -> Vec<(&'static str, f64)> {
        let measured: Vec<&Turn> = self.of(side, self.best(side)).collect();
        let of = |read: &dyn Fn(&Turn) -> f64| {
            median(&measured.iter().map(|turn| read(turn)).collect::<Vec<_>>())
        };
        let names = measured.first().expect("a round").cpu.iter().map(|(name, _)| *name);
        let others = names.enumerate().map(|(at, name)| (name, of(&|turn| turn.cpu[at].1)));
        [(CLIENT, of(&|turn| turn.called.cpu))].into_iter().chain(others).collect()
    }

    /// The waiting side beside another, each with so many in flight: the middle of the ratios of the rounds.
    fn ratio(&self, waiting: u32, other: Side, in_flight: u32) -> (f64, Vec<f64>) {
        let (ours, theirs) = (self.rates(Side::Waiting, waiting), self.rates(other, in_flight));
        let ratios: Vec<f64> =
            ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        (median(&ratios), ratios)
    }
}

/// What the cores of this machine allow where all of them do nothing else: requests a second.
struct Allowed {
    /// By what a request took of all processes together in these very turns.
    all: f64,
    /// If producer and worker together took no more than the forwarder, which is one server and one client of the same libraries.
    as_forwarder: f64,
    told: [String; 2],
}

impl Allowed {
    fn by(turns: &Turns<'_>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let waiting = turns.costs(Side::Waiting);
        let of = |costs: &[(&str, f64)], names: &[&str]| -> f64 {
            costs.iter().filter(|(name, _)| names.contains(name)).map(|(_, cost)| cost).sum()
        };
        let all: f64 = waiting.iter().map(|(_, cost)| cost).sum();
        let forwarder = of(&turns.costs(Side::Forwarder), &["the forwarder"]);
        let others = of(&waiting, &[CLIENT, "the gateway", "Redis"]);
        let each: Vec<String> =
            waiting.iter().map(|(name, cost)| format!("{name} {cost:.0}")).collect();
        let told = [
            format!(
                "what {cores} cores allow: a request took {all:.0} us of them in these turns ({})",
                each.join(", ")
            ),
            format!(
                "the same if producer and worker together took the {forwarder:.0} us of the forwarder, which is one server and one client of the same libraries, and the others what they took"
            ),
        ];
        let rate = |us: f64| cores * 1e6 / us;
        Self { all: rate(all), as_forwarder: rate(others + forwarder), told }
    }

    /// Puts both under a row, beside `other` requests a second.
    fn under(&self, row: Row, other: f64) -> Row {
        let [all, as_forwarder] = &self.told;
        row.floor(self.all / other, all).floor(self.as_forwarder / other, as_forwarder)
    }
}

pub(super) fn rows(turns: &[Turn]) -> Vec<Row> {
    let turns = Turns(turns);
    let mut rows = rates(&turns);
    rows.extend(at_best(&turns));
    rows.extend(costs(&turns));
    rows
}

/// What each side does with so many in flight.
fn rates(turns: &Turns<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for in_flight in IN_FLIGHT {
        for side in SIDES {
            let rates = turns.rates(side, in_flight);
            let row =
                Row::new(format!("{in_flight} in flight, {}", side.name()), "/s", median(&rates));
            rows.push(row.samples("rates", rates));
        }
        for other in [Side::Straight, Side::Forwarder] {
            let (figure, ratios) = turns.ratio(in_flight, other, in_flight);
            let what = format!("{in_flight} in flight, waiting beside {}", other.name());
            rows.push(Row::new(what, "x", figure).samples("ratios", ratios));
        }
    }
    rows
}

/// Each side where it is at its best.
fn at_best(turns: &Turns<'_>) -> Vec<Row> {
    let (own, allowed) = (turns.best(Side::Waiting), Allowed::by(turns));
    let mut rows = Vec::new();
    for (other, target) in [(Side::Straight, OF_STRAIGHT), (Side::Forwarder, OF_FORWARDER)] {
        let best = turns.best(other);
        let (figure, ratios) = turns.ratio(own, other, best);
        let what = format!("each at its best, waiting beside {}", other.name());
        let note = format!("{own} in flight beside {best}");
        let row = Row::new(what, "x", figure).at_least(target).note(note);
        // What the middle of the ratios takes the other for.
        let row = allowed.under(row, median(&turns.rates(Side::Waiting, own)) / figure);
        rows.push(row.samples("ratios", ratios));
    }
    let forwarder = median(&turns.rates(Side::Forwarder, turns.best(Side::Forwarder)));
    let rates = turns.rates(Side::Waiting, own);
    let row = Row::new("at its best, by Prefer: wait", "/s", median(&rates));
    let row = if forwarder >= WHERE_FORWARDER_DOES {
        row.at_least(RATE)
    } else {
        row.note(format!(
            "no target: the forwarder of this machine does {forwarder:.0}/s, not {WHERE_FORWARDER_DOES:.0}"
        ))
    };
    rows.push(allowed.under(row, 1.0).samples("rates", rates));
    rows
}

/// Where the processor time of a request goes, each side at its best.
fn costs(turns: &Turns<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for side in SIDES {
        let measured: Vec<&Turn> = turns.of(side, turns.best(side)).collect();
        let Some(first) = measured.first() else { continue };
        let mut row = |name: &str, costs: Vec<f64>| {
            let what = format!("processor time of a request, {}: {name}", side.name());
            rows.push(Row::new(what, "us", median(&costs)).samples("costs", costs));
        };
        row(CLIENT, measured.iter().map(|turn| turn.called.cpu).collect());
        for (at, (name, _)) in first.cpu.iter().enumerate() {
            row(name, measured.iter().map(|turn| turn.cpu[at].1).collect());
        }
    }
    rows
}
