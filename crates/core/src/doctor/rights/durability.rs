//! The rights that answers take which are safer than Redis makes them by itself.

use super::{Answer, Asks, Grade, Report, Sample, answered};
use crate::StoreError;

/// What the producer's user needs besides where a queue asks for more than Redis gives by itself: the command, its
/// subcommand, and for which `durability`. No server has to know them.
const FOR_DURABILITY: [(&str, &str, &str); 4] = [
    ("CLIENT", "SETNAME", "fsynced, replicated"),
    ("CLIENT", "GETNAME", "fsynced, replicated"),
    ("WAITAOF", "", "fsynced"),
    ("WAIT", "", "replicated"),
];

/// Looks at them.
pub(super) async fn look(
    asks: &Asks<'_>,
    place: &str,
    report: &mut Report,
) -> Result<(), StoreError> {
    for (command, subcommand, level) in FOR_DURABILITY {
        let Some(sample) = sample(command, subcommand) else { continue };
        let Asks { redis, user, is_other, keys } = *asks;
        // A user that is none, and rights that nobody may look at, were told above. The same answer about a command means
        // that the server does not know it, and then there is no such level and no right to lack.
        if let Answer::No = answered(redis, (user, is_other), command, sample, keys).await? {
            let right = format!("{command} {subcommand}").trim_end().to_ascii_lowercase();
            let told = "may not do what answers at a higher durability take; only queues with durability fsynced or replicated need it";
            let right = format!("{} ({level})", right.replace(' ', "|"));
            report.add_one(Grade::Note, "durability-rights", place, told, Some(right));
        }
    }
    Ok(())
}

fn sample(command: &str, subcommand: &str) -> Option<Sample> {
    let asked = |name, whole: &[&str], harmless: &[&str]| {
        let words = |of: &[&str]| of.iter().map(|word| (*word).to_owned()).collect();
        Some(Sample { whole: words(whole), harmless: Some((name, words(harmless))) })
    };
    match (command, subcommand) {
        // A name may hold no space: looked at after the right is.
        ("CLIENT", "SETNAME") => asked("CLIENT", &["SETNAME", "doctor"], &["SETNAME", "no name"]),
        ("CLIENT", _) => asked("CLIENT", &[subcommand], &[subcommand]),
        // Nothing is waited for.
        ("WAITAOF", _) => asked("WAITAOF", &["0", "0", "1"], &["0", "0", "1"]),
        ("WAIT", _) => asked("WAIT", &["0", "1"], &["0", "1"]),
        _ => None,
    }
}
