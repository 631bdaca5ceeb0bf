//! The query parameters: `wait` and `generation`, each at most once, and no others.

use std::time::Duration;

use holdfast_core::model::Generation;

use crate::problem::{Kind, Problem};

/// What a caller asks for beside the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// How long to wait for an end.
    pub(crate) wait: Option<Duration>,
    /// The one generation that is meant.
    pub(crate) generation: Option<Generation>,
}

/// Which of the parameters a route knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// None of them.
    Nothing,
    /// `generation` alone.
    Generation,
    /// Both.
    GenerationAndWait,
}

impl Query {
    /// Reads the part of the address behind the question mark.
    pub(crate) fn parse(text: Option<&str>, known: Known) -> Result<Self, Problem> {
        let mut query = Self::default();
        for (name, value) in pairs(text) {
            let twice = match (name, known) {
                ("generation", Known::Generation | Known::GenerationAndWait) => {
                    query.generation.replace(generation(value)?).is_some()
                }
                ("wait", Known::GenerationAndWait) => query.wait.replace(wait(value)?).is_some(),
                _ => return Err(unknown(known)),
            };
            if twice {
                return Err(refused("a query parameter stands there twice"));
            }
        }
        Ok(query)
    }
}

/// The parameters, as they stand there: none that we know has a value that needs an escape.
pub(crate) fn pairs(text: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn wait(value: &str) -> Result<Duration, Problem> {
    seconds(value).ok_or_else(|| {
        refused("wait must be a whole number of seconds, in digits").with("parameter", "wait")
    })
}

fn generation(value: &str) -> Result<Generation, Problem> {
    value.parse().map_err(|_| {
        refused("generation must be 16 hex digits, as a submit answered them")
            .with("parameter", "generation")
    })
}

/// Reads seconds in digits; what is too large to count is as long as can be.
pub(crate) fn seconds(digits: &str) -> Option<Duration> {
    let right = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}

fn unknown(known: Known) -> Problem {
    refused(match known {
        Known::Nothing => "this route takes no query parameters",
        Known::Generation => "the only query parameter here is generation",
        Known::GenerationAndWait => "the query parameters here are wait and generation",
    })
}

fn refused(detail: &'static str) -> Problem {
    Problem::new(Kind::InvalidQuery, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Query> {
        let read = Query::parse(Some(text), Known::GenerationAndWait);
        read.inspect_err(|problem| assert_eq!(problem.kind(), Kind::InvalidQuery)).ok()
    }

    #[test]
    fn no_query_asks_for_nothing() {
        assert_eq!(parse(""), Some(Query::default()));
        assert_eq!(Query::parse(None, Known::Nothing).ok(), Some(Query::default()));
    }

    #[test]
    fn wait_is_whole_seconds_and_any_number_of_them() {
        assert_eq!(parse("wait=0").and_then(|it| it.wait), Some(Duration::ZERO));
        assert_eq!(parse("wait=30").and_then(|it| it.wait), Some(Duration::from_secs(30)));
        let endless = parse("wait=99999999999999999999999").and_then(|it| it.wait);
        assert_eq!(endless, Some(Duration::from_secs(u64::MAX)));
        for text in ["wait=", "wait", "wait=-1", "wait=+1", "wait=1.5", "wait=1e3", "wait=30s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_generation_is_the_16_digits_that_a_submit_answered() {
        let read = parse("generation=00000000000000ff&wait=1");
        let expected = Generation::from([0, 0, 0, 0, 0, 0, 0, 255]);
        assert_eq!(read.and_then(|it| it.generation), Some(expected));
        for value in ["", "ff", "00000000000000fg", "+000000000000001", "00000000000000ff0"] {
            assert_eq!(parse(&format!("generation={value}")), None, "{value}");
        }
    }

    #[test]
    fn what_a_route_does_not_know_is_refused_and_so_is_twice() {
        for text in ["waits=1", "wait=1&wait=1", "Wait=1", "x", "generation=1&foo=2", "wait%3D1"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(Query::parse(Some("wait=1"), Known::Generation).is_err());
        assert!(Query::parse(Some("generation=00000000000000ff"), Known::Nothing).is_err());
    }
}
