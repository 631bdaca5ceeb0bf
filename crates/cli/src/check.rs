//! `check`: a settings file, as every role would read it.

use holdfast_runtime::{Environment, Problems, Settings, frame};

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::output::Output;

/// Checks the settings and prints them as they are in force, secrets hidden.
pub(crate) fn run(args: &CheckArgs, output: &mut Output) -> Result<(), Failure> {
    let settings = frame::load(args.config.as_deref(), &Environment::of_process());
    let settings = settings.and_then(|it| for_every_role(it, !args.no_files));
    let settings = settings.map_err(Failure::Settings)?;
    output.text(&settings.show())?;
    output.text(&called(&settings))?;
    output.finish()?;
    doubled(&settings).iter().for_each(|note| Notes::plain().say(note));
    Ok(())
}

/// What each queue calls, in comments: the output is a settings file.
fn called(settings: &Settings) -> String {
    let mut text = String::from("\n# What is called where a request names no path of its own:\n");
    for (name, queue) in &settings.queues {
        if let Some(url) = queue.target.join(&queue.path) {
            text.push_str(&format!("# queue {name}: POST {url}\n"));
        }
    }
    text
}

/// Queues whose target ends in what their path begins with. A server may have such a path; most have not, and answer 404.
fn doubled(settings: &Settings) -> Vec<String> {
    let doubled = settings.queues.iter().filter_map(|(name, queue)| {
        let first = queue.path.as_str().split(['/', '?']).nth(1).filter(|it| !it.is_empty())?;
        let url = queue.target.join(&queue.path)?;
        let twice = queue.target.base().ends_with(&format!("/{first}"));
        twice.then(|| {
            format!(
                "holdfastctl: queues.{name}.target ends in /{first}, and path begins with it: {url} is called; \
                 leave it out of one if that is not meant"
            )
        })
    });
    doubled.collect()
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
    fn what_a_queue_calls_is_told_and_a_path_that_stands_there_twice() {
        let settings =
            |target: &str| check(&format!("[queues.q]\ntarget = \"{target}\"\n")).unwrap();
        let good = settings("http://h:1/base");
        let url = "# queue q: POST http://h:1/base/v1/chat/completions\n";
        assert!(called(&good).ends_with(url), "{}", called(&good));
        assert_eq!(doubled(&good), [""; 0]);
        let twice = doubled(&settings("http://h:1/v1"));
        let [told] = &twice[..] else { panic!("{twice:?}") };
        assert!(told.contains("http://h:1/v1/v1/chat/completions is called"), "{told}");
    }

    #[test]
    fn what_is_printed_hides_the_password_and_shows_where_redis_is() {
        let text = "[redis]\nurl = \"redis://ad:S3CRET@h:6379\"\n[queues.q]\ntarget = \"http://h\"";
        let shown = check(text).unwrap().show();
        assert!(shown.contains("@h:6379") && !shown.contains("S3CRET"), "{shown}");
    }
}
