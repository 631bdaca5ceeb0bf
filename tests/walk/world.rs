//! What happens to a shard without a call: time passes, tokens are taken, fields are lost.

use holdfast_model::state::{Handle, Home, Id, Ms, Named, Names, Paper, Spot, State};

use crate::dice::Dice;

/// How much time passes: around half a lease, a lease, a deadline, a retention.
const SPANS: [(usize, i64); 10] = [
    (2, 700),
    (3, 3_000),
    (4, 5_001),
    (8, 10_001),
    (3, 16_001),
    (2, 31_000),
    (1, 130_000),
    (1, 320_000),
    (1, 610_000),
    (1, 1_010_000),
];

/// Something that happens to the shard.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Time passes. `watched`: somebody renewed or reclaimed until just now, so that it is no outage.
    Pass { by: i64, watched: bool },
    /// Time passes until this moment.
    PassUntil { moment: Ms },
    /// A request that waits has been through more than this walk has seen.
    Wear { handle: Handle, lapses: u16, forgiven: u16 },
    /// Workers took tokens, or were told too much.
    Tokens(usize),
    /// A ticket is lost (none) or broken.
    Damage { id: Id, broken: Option<u8> },
    /// The names in a ticket are damaged: it can be read, but says nothing of whose it is.
    Garble { id: Id, how: u8 },
    /// A request is lost.
    Bodyless { id: Id },
    /// A record is lost.
    Recordless { id: Id },
    /// A request is in no home any more.
    Homeless { handle: Handle },
    /// The server crashes, and does not know of the last steps any more.
    Forget { steps: usize },
}

/// What a walk is inclined to: some faults show in rare circumstances only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slant {
    /// Nothing special.
    Even,
    /// Tickets and requests get lost.
    Damaged,
    /// Arguments are wrong.
    Spoiled,
    /// Many requests: only there are the limits of one call reached.
    Crowded,
    /// Requests have been through much.
    Worn,
    /// A small queue.
    Tight,
    /// Keys hold another type than they should.
    Mistyped,
}

#[derive(Clone, Copy)]
enum Kind {
    Pass,
    PassUntil,
    Back,
    Wear,
    Tokens,
    Damage,
    Bodyless,
    Garble,
    Recordless,
    Homeless,
    Forget,
}

/// What an event is drawn by, beside the state.
#[derive(Clone, Copy)]
pub(crate) struct Around {
    pub(crate) now: Ms,
    pub(crate) slant: Slant,
    /// Where damage is done.
    pub(crate) target: &'static str,
    /// How many steps can be forgotten.
    pub(crate) memory: usize,
    /// Whether the server keeps what it was told: then a crash need not forget anything.
    pub(crate) keeps: bool,
}

impl Slant {
    fn events(self) -> [(usize, Kind); 11] {
        let wear = match self {
            Self::Worn => 16,
            Self::Mistyped => 14,
            _ => 3,
        };
        let damage = match self {
            Self::Damaged => 9,
            Self::Mistyped => 3,
            _ => 0,
        };
        [
            (13, Kind::Pass),
            (6, Kind::PassUntil),
            (3, Kind::Back),
            (wear, Kind::Wear),
            (1, Kind::Tokens),
            (damage, Kind::Damage),
            (damage / 3, Kind::Bodyless),
            (damage / 3, Kind::Garble),
            (damage / 3, Kind::Recordless),
            (damage / 4, Kind::Homeless),
            (1, Kind::Forget),
        ]
    }
}

impl Event {
    pub(crate) fn draw(dice: &mut Dice, state: &State, around: Around) -> Option<Self> {
        let Around { now, slant, target, memory, keeps } = around;
        let alone = alone_in(state, "");
        let outages = if slant == Slant::Worn { 2 } else { 3 };
        Some(match dice.weighed(&slant.events()) {
            Kind::Pass => Self::Pass { by: dice.weighed(&SPANS), watched: !dice.one_in(outages) },
            Kind::PassUntil => {
                let ahead = |at: &Ms| (now..now + 4_000_000).contains(at);
                let moments: Vec<Ms> = state.moments().into_iter().filter(ahead).collect();
                // A few ms early: the call that follows takes its time, and is to meet the very ms.
                Self::PassUntil { moment: dice.any(&moments)? - dice.below(4) as Ms }
            }
            Kind::Back => Self::Pass { by: -dice.of(&[2, 4_000, 40_000]), watched: false },
            Kind::Wear => {
                // Up to the last of what is allowed, or over it: then more was allowed before.
                let most = state.policy("max_lapses").unwrap_or(5) as u16;
                let lapses = dice.of(&[0, 1, 2, 2, most - 1, most - 1, most]);
                let forgiven = dice.of(&[0, 0, 1, most - 1, 4 * most - 1, 4 * most - 1]);
                let meant = if target == "delayed" { "delayed" } else { "leased" };
                let those = alone_in(state, dice.of(&["pending", "delayed", meant, meant]));
                Self::Wear { handle: dice.any(&those)?, lapses, forgiven }
            }
            Kind::Tokens => Self::Tokens(dice.of(&[0, 0, 1, 62, 63, 64])),
            Kind::Damage => {
                let broken = dice.of(&[None, None, None, Some(0), Some(1), Some(2)]);
                Self::Damage { id: dice.any(&alone_in(state, target))?.id, broken }
            }
            Kind::Bodyless => Self::Bodyless { id: dice.any(&alone)?.id },
            Kind::Garble => {
                Self::Garble { id: dice.any(&alone)?.id, how: dice.of(&[0, 1, 2, 3, 4, 5]) }
            }
            Kind::Recordless => {
                let ended: Vec<Id> = state.records.keys().copied().collect();
                Self::Recordless { id: dice.any(&ended)? }
            }
            Kind::Homeless => Self::Homeless { handle: dice.any(&alone)? },
            Kind::Forget if memory == 0 => return None,
            Kind::Forget => Self::Forget { steps: dice.below(memory) + usize::from(!keeps) },
        })
    }

    /// Whether the shard is no longer what the scripts made of it.
    pub(crate) fn damages(&self) -> bool {
        !matches!(
            self,
            Self::Pass { .. }
                | Self::PassUntil { .. }
                | Self::Wear { .. }
                | Self::Tokens(_)
                | Self::Forget { .. }
        )
    }

    /// The same, by a clock that is later by so much.
    pub(crate) fn later(&self, by: i64) -> Self {
        match self {
            Self::PassUntil { moment } => {
                Self::PassUntil { moment: moment.saturating_add_signed(by) }
            }
            other => other.clone(),
        }
    }

    /// Lets it happen. Says by how much time has passed.
    pub(crate) fn happen(&self, state: &mut State, now: Ms) -> i64 {
        match *self {
            Self::Pass { by, watched } => {
                state.pass(by);
                if watched && state.meta.beat.is_some() {
                    state.meta.beat = Some(now - 1_000);
                }
                return by;
            }
            Self::PassUntil { moment } => {
                let by = moment.cast_signed() - now.cast_signed();
                state.pass(by);
                return by;
            }
            Self::Wear { handle, lapses, forgiven } => wear(state, handle, lapses, forgiven),
            Self::Tokens(tokens) => state.bell = tokens,
            Self::Damage { id, broken: Some(how) } => {
                state.tickets.insert(id, Paper::Broken(how));
            }
            Self::Damage { id, broken: None } => {
                state.tickets.remove(&id);
            }
            Self::Bodyless { id } => {
                state.requests.remove(&id);
            }
            Self::Recordless { id } => {
                state.records.remove(&id);
            }
            Self::Homeless { handle } => {
                state.homes.remove(&handle);
            }
            // Both know by themselves what they forget.
            Self::Forget { .. } => {}
            Self::Garble { id, how } => {
                if let Some(Paper::Whole(ticket)) = state.tickets.get_mut(&id) {
                    ticket.names = Names::Garbled(how);
                    // What would come behind would be taken for what is cut off.
                    ticket.tail &= how == 0;
                }
            }
        }
        0
    }
}

/// What has not ended, and beside which nothing else lies under its key; mostly in the home that is meant, also when
/// that is an end.
fn alone_in(state: &State, home: &str) -> Vec<Handle> {
    let alone = |handle: &Handle| state.homes.keys().filter(|it| it.id == handle.id).count() == 1;
    let those = |wanted: &dyn Fn(Home) -> bool| -> Vec<Handle> {
        let these = state.homes.iter().filter(|(handle, spot)| wanted(spot.home) && alone(handle));
        these.map(|(handle, _)| *handle).collect()
    };
    let meant = those(&|here| here.word() == home);
    if meant.is_empty() { those(&|here| !here.is_end()) } else { meant }
}

fn wear(state: &mut State, handle: Handle, lapses: u16, forgiven: u16) {
    let (Named::This(mut ticket), Some(spot)) = (state.ticket(handle), state.homes.get(&handle))
    else {
        return;
    };
    (ticket.lapses, ticket.forgiven) = (lapses, forgiven);
    let home = match spot.home {
        Home::Pending | Home::Suspects if ticket.is_suspect() => Home::Suspects,
        Home::Pending | Home::Suspects => Home::Pending,
        // Of a shard's suspects, one is leased at a time.
        Home::Leased(_) if ticket.is_suspect() && state.leased_suspects() > 0 => return,
        Home::Leased(fence) if ticket.is_suspect() => {
            state.meta.suspect = Some((fence, handle));
            Home::Leased(fence)
        }
        home => home,
    };
    let spot = Spot { home, ..*spot };
    state.homes.insert(handle, spot);
    state.tickets.insert(handle.id, Paper::Whole(ticket));
}
