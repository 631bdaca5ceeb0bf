//! `check`: a settings file, as every role would read it.

use holdfast_runtime::{Environment, Problems, Settings, frame};

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Checks the settings and prints them as they are in force, secrets hidden.
pub(crate) fn run(args: &CheckArgs, output: &mut Output) -> Result<(), Failure> {
    let settings = frame::load(args.config.as_deref(), &Environment::of_process());
    let settings = settings.and_then(|it| for_every_role(it, !args.no_files));
    let settings = settings.map_err(Failure::Settings)?;
    output.text(&settings.show())
}

/// What one role alone insists on, and the files that they open if those are here.
fn for_every_role(settings: Settings, files: bool) -> Result<Settings, Problems> {
    let mut problems = if files { settings.files() } else { Problems::default() };
    if settings.queues.is_empty() {
        let rule = "must declare a queue: without one neither producer nor worker starts";
        problems.refuse("queues", rule);
    }
    problems.or(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Settings, Problems> {
        Settings::load(text, &Environment::default()).and_then(|it| for_every_role(it, true))
    }

    #[test]
    fn settings_without_a_queue_suit_no_producer_and_no_worker() {
        assert!(check("").unwrap_err().to_string().contains("must declare a queue"));
        assert!(check("[queues.q]\ntarget = \"http://h\"").is_ok());
    }

    #[test]
    fn what_is_printed_hides_the_password_and_shows_where_redis_is() {
        let text = "[redis]\nurl = \"redis://ad:S3CRET@h:6379\"\n[queues.q]\ntarget = \"http://h\"";
        let shown = check(text).unwrap().show();
        assert!(shown.contains("@h:6379") && !shown.contains("S3CRET"), "{shown}");
    }
}
